//! Background snapshots, one at a time, with pauses.
//!
//! A snapshot is due after a number of transactions, but its cost grows with the tree. Under many writes to a large
//! tree the server would do nothing else; so after each snapshot the thread pauses for a multiple of the time that it
//! took. A failed snapshot is retried at growing intervals until one succeeds.

use crate::shared::{EssentialThread, Shared};
use ox_store::SnapshotTaken;
use ox_tree::FrozenView;
use std::error::Error;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause after a snapshot, as a multiple of its duration.
const REST: u32 = 4;

/// Priority of the snapshot thread: about a tenth of the others' share of a busy core.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Pause after each chunk of some hundred KiB, so that the snapshot takes neither a core nor the disk from the other
/// threads for longer than a moment.
const NAP: Duration = Duration::from_millis(2);

/// The first pause after a failure. It doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// Starts one thread per snapshot.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<(Outcome, Duration)>>,
    rests_until: Instant,
    failure: Option<Failure>,
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The failure of the last attempt.
struct Failure {
    /// Text of the innermost error.
    cause: String,
    pause: Duration,
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None, rests_until: Instant::now(), failure: None }
    }

    /// Whether to start a snapshot now: one is due or the last one failed, and the pause is over.
    pub(crate) fn wants(&mut self, is_due: bool) -> bool {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return false;
        }
        self.wait();
        (is_due || self.failure.is_some()) && self.rests_until <= Instant::now()
    }

    /// Writes `frozen`. A failure is logged and does not stop the server: the log still contains everything.
    pub(crate) fn start(&mut self, frozen: FrozenView) {
        self.wait();
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = EssentialThread { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
            lower_priority();
            let started = Instant::now();
            (write(&shared, &frozen), started.elapsed())
        });
        match spawned {
            Ok(running) => self.running = Some(running),
            Err(error) => self.note(Err(error.into()), Duration::ZERO),
        }
    }

    /// Waits for the snapshot that is being written.
    pub(crate) fn wait(&mut self) {
        if let Some(running) = self.running.take() {
            let (outcome, took) = running.join().unwrap_or_else(|_| (Err("a panic".into()), Duration::ZERO));
            self.note(outcome, took);
        }
    }

    /// Logs a failure once, however often it repeats with the same cause.
    fn note(&mut self, outcome: Outcome, took: Duration) {
        self.rests_until = Instant::now() + took.saturating_mul(REST);
        let before = self.failure.take();
        let Err(error) = outcome else { return };
        self.shared.metrics.snapshot_error_count.add(1);
        let cause = cause(&*error);
        if before.as_ref().is_none_or(|before| before.cause != cause) {
            tracing::error!(%error, "snapshot failed; it will be retried. No data is lost, because the log is kept");
        }
        let pause = before.map_or(RETRY, |before| (before.pause * 2).min(RETRY_MAX));
        self.failure = Some(Failure { cause, pause });
        self.rests_until = self.rests_until.max(Instant::now() + pause);
    }
}

/// Lowers the priority below that of threads that serve clients. Child threads inherit it.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE); // best effort
}

/// The innermost error, which has no file names.
fn cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn write(shared: &Shared, frozen: &FrozenView) -> Outcome {
    let started = Instant::now();
    let (zxid, nodes) = (frozen.last_zxid(), frozen.node_count());
    let dir = shared.store.dirs().snapshots.display();
    tracing::info!(nodes, "Snapshotting: {zxid} to {dir}/snapshot.{:x}", zxid.0);
    let taken = shared.store.write_snapshot_throttled(frozen, &|| shared.sleep(NAP))?;
    let (SnapshotTaken::Written(file) | SnapshotTaken::Existed(file)) = taken;
    let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    shared.metrics.snapshottime.note(took_ms, 1);
    tracing::info!(file = %file.path.display(), "Snapshot taken in {took_ms} ms");
    Ok(())
}
