//! Snapshots in the background, one at a time, with pauses.
//!
//! How often one is due is counted in transactions, what it costs grows with the tree. Under a flood of writes to a large
//! tree the two would drift apart until the server does nothing else; so after each one it rests for a multiple of
//! the time that it took.

use crate::shared::{Essential, Shared};
use ox_store::SnapshotTaken;
use ox_tree::Frozen;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many times as long as it worked the snapshot thread rests.
const REST: u32 = 4;

/// Starts a thread per snapshot.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<Duration>>,
    rests_until: Instant,
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None, rests_until: Instant::now() }
    }

    /// Whether a snapshot may be started now: none is being written, and the last one is long enough ago.
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return false;
        }
        self.wait();
        self.rests_until <= Instant::now()
    }

    /// Writes `frozen`. A failure is reported and does not stop the server: the log still holds everything.
    pub(crate) fn start(&mut self, frozen: Frozen) {
        self.wait();
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = Essential { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
            let started = Instant::now();
            write(&shared, &frozen);
            started.elapsed()
        });
        match spawned {
            Ok(running) => self.running = Some(running),
            Err(error) => tracing::error!(%error, "cannot start a snapshot"),
        }
    }

    /// Waits for the one being written.
    pub(crate) fn wait(&mut self) {
        match self.running.take().map(JoinHandle::join) {
            Some(Ok(took)) => self.rests_until = Instant::now() + took.saturating_mul(REST),
            Some(Err(_)) => tracing::error!("a snapshot ended with a panic"),
            None => (),
        }
    }
}

fn write(shared: &Shared, frozen: &Frozen) {
    let started = Instant::now();
    let (zxid, nodes) = (frozen.last_zxid(), frozen.node_count());
    let dir = shared.store.dirs().snapshots.display();
    tracing::info!(nodes, "Snapshotting: {zxid} to {dir}/snapshot.{:x}", zxid.0);
    match shared.store.write_snapshot(frozen) {
        Ok(SnapshotTaken::Written(file) | SnapshotTaken::Existed(file)) => {
            let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
            shared.metrics.snapshottime.note(took_ms, 1);
            tracing::info!(file = %file.path.display(), "Snapshot taken in {took_ms} ms");
        }
        Err(error) => {
            shared.metrics.snapshot_error_count.add(1);
            tracing::error!(%error, "snapshot failed; the log holds everything, the next roll tries again");
        }
    }
}
