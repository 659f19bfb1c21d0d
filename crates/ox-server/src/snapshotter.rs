//! Snapshots in the background, one at a time.

use crate::shared::{Essential, Shared};
use ox_store::SnapshotTaken;
use ox_tree::Frozen;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// Starts a thread per snapshot; while one is being written, no other is started.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<()>>,
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None }
    }

    /// Writes `frozen` unless a snapshot is being written. A failure is reported and does not stop the server:
    /// the log still holds everything.
    pub(crate) fn start(&mut self, frozen: Frozen) {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return tracing::warn!("Too busy to snap, skipping: the previous snapshot is still being written");
        }
        self.wait();
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = Essential { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
            write(&shared, &frozen);
        });
        match spawned {
            Ok(running) => self.running = Some(running),
            Err(error) => tracing::error!(%error, "cannot start a snapshot"),
        }
    }

    /// Waits for the one being written.
    pub(crate) fn wait(&mut self) {
        if let Some(running) = self.running.take()
            && running.join().is_err()
        {
            tracing::error!("a snapshot ended with a panic");
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
