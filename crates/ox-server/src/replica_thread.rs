//! The replica thread: runs the replica loop (`ox-driver/src/replica_loop.rs`) on the inbox, and waits when it is idle.
//!
//! `replica_thread_host.rs` connects the loop with the state and the other threads. Status commands read the replica
//! between two iterations.

pub(crate) mod inbox;
mod latency;
pub(crate) mod log_writer;
mod replica_metrics;
mod replica_thread_host;
pub(crate) mod restore;
mod role_log;
mod slow_requests;
pub(crate) mod snapshotter;

use crate::limits::{LINK_CHUNK_BYTES, LINK_CONSUMED_REPORT_BYTES};
use crate::peers::PeerCommands;
use crate::replica_thread::inbox::Input;
use crate::replica_thread::log_writer::SharedLogQueue;
use crate::replica_thread::snapshotter::Snapshotter;
use crate::shared::Shared;
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_driver::replica_loop::{ReplicaHost, ReplicaLoop, ReplicaLoopSettings, ReplicaStage};
use ox_replica::Replica;
use ox_store::{FreeSpace, StartSnapshot};
use replica_metrics::ReplicaMetrics;
use replica_thread_host::ReplicaThreadHost;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the replica thread starts with.
pub(crate) struct ReplicaThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) replica: Replica,
    pub(crate) log: Arc<SharedLogQueue>,
    /// The queue of the peers thread; `None` on a standalone server.
    pub(crate) commands: Option<Arc<PeerCommands>>,
    /// Free disk space at the start.
    pub(crate) space: FreeSpace,
    pub(crate) start_snapshot: StartSnapshot,
}

/// Ends the log thread, whichever way this thread ends. After a panic the server stops first, so that the end of the log
/// thread is not reported as the cause.
struct LogEnd {
    shared: Arc<Shared>,
    log: Arc<SharedLogQueue>,
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop();
        }
        self.log.close();
    }
}

impl ReplicaThread {
    /// Runs until the server stops. Queued batches are still written then, but not acknowledged.
    pub(crate) fn run(self, heartbeat: &Heartbeat) {
        let Self { shared, replica, log, commands, space, start_snapshot } = self;
        let _log_end = LogEnd { shared: Arc::clone(&shared), log: Arc::clone(&log) };
        let now = shared.clock.now();
        let settings = ReplicaLoopSettings {
            tick_ms: i32::try_from(shared.config.tick_ms).unwrap_or(i32::MAX),
            io_threads: shared.mailboxes.len(),
            link_chunk_bytes: LINK_CHUNK_BYTES,
            consumed_report_bytes: LINK_CONSUMED_REPORT_BYTES,
        };
        let mut replica_loop = ReplicaLoop::new(settings, replica, now);
        let mut host = ReplicaThreadHost::new(&shared, &log, commands.as_deref());
        let mut metrics = ReplicaMetrics::new(Arc::clone(&shared));
        if start_snapshot == StartSnapshot::Due {
            replica_loop.start_snapshot(&mut host);
        }
        replica_loop.start(now, space, &mut host);
        while !shared.is_stopping() {
            heartbeat.beat();
            let timeout = replica_loop.timeout(shared.clock.now(), CHECK_INTERVAL);
            let input = shared.inbox.take(timeout);
            iterate(&mut replica_loop, timeout, input, &mut host);
            metrics.update(&mut replica_loop);
            host.slow_requests.log(&mut replica_loop.counters_mut().slow_writes, shared.clock.mono_ms());
            report_snapshot(&mut replica_loop, &shared, &mut host.snapshotter);
        }
        // The synced position is recorded with all existing files, so a snapshot must not be written after that.
        host.snapshotter.wait();
    }
}

/// One iteration. The time is read when it begins, and before each write lock.
fn iterate(replica_loop: &mut ReplicaLoop, timeout: Duration, input: Input, host: &mut ReplicaThreadHost<'_>) {
    host.note_input(&input);
    let mut now = host.now();
    replica_loop.begin(now, timeout, input.replica, host);
    loop {
        match replica_loop.step(now, host) {
            ReplicaStage::Idle => break,
            ReplicaStage::Reports | ReplicaStage::Peers | ReplicaStage::Submissions | ReplicaStage::Snapshot => (),
            ReplicaStage::Apply => {
                host.note_prepared();
                now = host.now();
            }
        }
    }
    for query in input.queries {
        query(replica_loop.replica(), host.state());
    }
    host.release_state();
}

/// Reports the end of a snapshot to the loop, which plans the next one.
fn report_snapshot(replica_loop: &mut ReplicaLoop, shared: &Shared, snapshotter: &mut Snapshotter) {
    if let Some((outcome, took)) = snapshotter.take_finished() {
        let failure = outcome.as_ref().err().map(|error| &**error as &(dyn Error + 'static));
        replica_loop.on_snapshot_finished(shared.clock.elapsed(), took, failure);
    }
}

fn elapsed_ms(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
