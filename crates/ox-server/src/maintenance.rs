//! Housekeeping on a slow clock: free space, and old files.

use crate::shared::Shared;
use std::time::{Duration, Instant};

/// How often free space is measured. In between the replica counts what it logs; snapshots and others take space too.
const SPACE_CHECK: Duration = Duration::from_secs(1);
/// How soon a stop is noticed.
const NAP: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(crate) fn run(shared: &Shared) {
    let purge_every = shared.config.autopurge.interval_ms.map(Duration::from_millis);
    let (mut next_space, mut next_purge) = (Instant::now(), Instant::now());
    let mut was_low = false;
    while !shared.is_stopping() {
        if next_space <= Instant::now() {
            next_space = Instant::now() + SPACE_CHECK;
            was_low = check_space(shared, was_low);
        }
        if let Some(every) = purge_every.filter(|_| next_purge <= Instant::now()) {
            next_purge = Instant::now() + every;
            purge(shared);
        }
        std::thread::sleep(NAP);
    }
}

/// Below the low-water mark writes are refused; above it they are taken again.
fn check_space(shared: &Shared, was_low: bool) -> bool {
    let space = match shared.store.space() {
        Ok(space) => space,
        Err(error) => {
            tracing::warn!(%error, "cannot measure free space");
            return was_low;
        }
    };
    if space.is_low != was_low {
        let free_bytes = space.free_bytes;
        if space.is_low {
            tracing::error!(free_bytes, "the disk is nearly full: writes are refused until there is space again");
        } else {
            tracing::info!(free_bytes, "there is space again: writes are accepted");
        }
    }
    shared.inbox.put(|input| input.space = Some(space));
    if let Err(error) = shared.store.renew_reserve(&space) {
        tracing::warn!(%error, "cannot set space aside for a full disk");
    }
    space.is_low
}

fn purge(shared: &Shared) {
    match shared.store.purge(shared.config.autopurge.snap_retain_count as usize) {
        Ok(purged) => tracing::info!(?purged, "Purge task completed"),
        Err(error) => tracing::error!(%error, "purge failed; nothing needed was removed"),
    }
}
