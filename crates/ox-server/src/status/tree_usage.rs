//! How much of the tree lies below each top-level node: measured on a thread of its own, over a frozen view, so that no
//! request waits for it.

use crate::replica_thread::snapshotter::lower_priority;
use crate::shared::Shared;
use ox_proto::Zxid;
use ox_tree::{TOP_LEVEL_NODES_MAX, TreeUsage, UsageLimits};
use std::time::{Duration, Instant};

const LIMITS: UsageLimits = UsageLimits { top_level: TOP_LEVEL_NODES_MAX, parents: 10 };
/// Shortest time between two walks.
const INTERVAL: Duration = Duration::from_secs(1);
/// A walk is followed by a pause of this many times its duration, so that it takes half a percent of a core.
const REST: u32 = 200;
/// Pause after every few thousand nodes: another thread that needs the core gets it.
const NAP: Duration = Duration::from_micros(200);

/// The last walk over the tree.
#[derive(Debug)]
pub(crate) struct MeasuredUsage {
    pub(crate) usage: TreeUsage,
    pub(crate) zxid: Zxid,
    pub(crate) took: Duration,
    pub(crate) at: Instant,
}

/// Measures the tree whenever it has changed, until the server stops.
pub(crate) fn measure_forever(shared: &Shared) {
    lower_priority();
    let (mut measured, mut rest) = (None, INTERVAL);
    while !shared.is_stopping() {
        let zxid = shared.state.read().last_zxid();
        if measured != Some(zxid) {
            let took = measure(shared);
            (measured, rest) = (Some(zxid), INTERVAL.max(took * REST));
        }
        shared.sleep(rest);
    }
}

fn measure(shared: &Shared) -> Duration {
    let started = Instant::now();
    let frozen = shared.state.read().freeze();
    let mut napped = Duration::ZERO;
    let usage = frozen.usage(LIMITS, || {
        let since = Instant::now();
        shared.sleep(NAP);
        napped += since.elapsed();
        !shared.is_stopping()
    });
    let zxid = frozen.last_zxid();
    drop(frozen);
    let took = started.elapsed().saturating_sub(napped);
    if let Some(usage) = usage {
        *shared.tree_usage.lock() = Some(MeasuredUsage { usage, zxid, took, at: Instant::now() });
    }
    took
}
