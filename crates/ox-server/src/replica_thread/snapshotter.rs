//! Background snapshots, each on a thread of its own; `ox-driver/src/snapshot_schedule.rs` decides when.

use crate::shared::{EssentialThread, Shared};
use ox_store::SnapshotTaken;
use ox_tree::FrozenView;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Priority of the snapshot thread: about a tenth of the others' share of a busy core.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Pause after each chunk of some hundred KiB, so that the snapshot takes neither a core nor the disk from the other
/// threads for longer than a moment.
const NAP: Duration = Duration::from_millis(2);

/// Starts one thread per snapshot.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<(Outcome, Duration)>>,
    /// The end of the last snapshot, until it is reported.
    finished: Option<(Outcome, Duration)>,
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None, finished: None }
    }

    /// Writes `frozen`. A failure is logged and does not stop the server.
    pub(crate) fn start(&mut self, frozen: FrozenView) {
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = EssentialThread { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
            lower_priority();
            let started = Instant::now();
            (write(&shared, &frozen).map(drop), started.elapsed())
        });
        match spawned {
            Ok(running) => self.running = Some(running),
            Err(error) => self.on_finished(Err(error.into()), Duration::ZERO),
        }
    }

    /// The outcome of a snapshot that has ended since the last call, and how long it took.
    pub(crate) fn take_finished(&mut self) -> Option<(Outcome, Duration)> {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait();
        }
        self.finished.take()
    }

    /// Waits for the snapshot that is being written.
    pub(crate) fn wait(&mut self) {
        if let Some(running) = self.running.take() {
            let (outcome, took) = running.join().unwrap_or_else(|_| (Err("a panic".into()), Duration::ZERO));
            self.on_finished(outcome, took);
        }
    }

    fn on_finished(&mut self, outcome: Outcome, took: Duration) {
        self.shared.metrics.snapshot_error_count.add(u64::from(outcome.is_err()));
        self.finished = Some((outcome, took));
    }
}

/// Lowers the priority below that of threads that serve clients. Child threads inherit it.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE); // best effort
}

/// Writes a snapshot, unless there is one of the same zxid, and returns its file.
pub(crate) fn write(shared: &Shared, frozen: &FrozenView) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
    let started = Instant::now();
    let (zxid, nodes) = (frozen.last_zxid(), frozen.node_count());
    let dir = shared.store.dirs().snapshots.display();
    tracing::info!(nodes, "Snapshotting: {zxid} to {dir}/snapshot.{:x}", zxid.0);
    let taken = shared.store.write_snapshot_throttled(frozen, &|| shared.sleep(NAP))?;
    let (SnapshotTaken::Written(file) | SnapshotTaken::Existed(file)) = taken;
    let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    shared.metrics.snapshottime.note(took_ms, 1);
    tracing::info!(file = %file.path.display(), "Snapshot taken in {took_ms} ms");
    Ok(file.path)
}
