//! Snapshots in the background, one at a time, with pauses.
//!
//! How often one is due is counted in transactions, what it costs grows with the tree. Under a flood of writes to a large
//! tree the two would drift apart until the server does nothing else; so after each one it rests for a multiple of
//! the time that it took. One that fails is tried again, ever more seldom, until one succeeds.

use crate::shared::{EssentialThread, Shared};
use ox_store::SnapshotTaken;
use ox_tree::FrozenView;
use std::error::Error;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many times as long as it worked the snapshot thread rests.
const REST: u32 = 4;

/// The priority of the snapshot thread: about a tenth of the others' share while they leave it nothing else.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// After each chunk of some hundred KiB the thread sleeps, so that neither a processor nor the disk is taken from those
/// who serve for longer than a moment.
const NAP: Duration = Duration::from_millis(2);

/// The first pause after a failure, and the longest.
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// Starts a thread per snapshot.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<(Outcome, Duration)>>,
    rests_until: Instant,
    failure: Option<Failure>,
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The last attempt failed.
struct Failure {
    /// What is at the bottom of it.
    cause: String,
    pause: Duration,
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None, rests_until: Instant::now(), failure: None }
    }

    /// Whether a snapshot should be started now: one is due or the last one failed, and that is long enough ago.
    pub(crate) fn wants(&mut self, is_due: bool) -> bool {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return false;
        }
        self.wait();
        (is_due || self.failure.is_some()) && self.rests_until <= Instant::now()
    }

    /// Writes `frozen`. A failure is reported and does not stop the server: the log still holds everything.
    pub(crate) fn start(&mut self, frozen: FrozenView) {
        self.wait();
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = EssentialThread { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
            stand_back();
            let started = Instant::now();
            (write(&shared, &frozen), started.elapsed())
        });
        match spawned {
            Ok(running) => self.running = Some(running),
            Err(error) => self.note(Err(error.into()), Duration::ZERO),
        }
    }

    /// Waits for the one being written.
    pub(crate) fn wait(&mut self) {
        if let Some(running) = self.running.take() {
            let (outcome, took) = running.join().unwrap_or_else(|_| (Err("a panic".into()), Duration::ZERO));
            self.note(outcome, took);
        }
    }

    /// A failure is told once, however often the same happens again.
    fn note(&mut self, outcome: Outcome, took: Duration) {
        self.rests_until = Instant::now() + took.saturating_mul(REST);
        let before = self.failure.take();
        let Err(error) = outcome else { return };
        self.shared.metrics.snapshot_error_count.add(1);
        let cause = cause(&*error);
        if before.as_ref().is_none_or(|before| before.cause != cause) {
            tracing::error!(%error, "snapshot failed; the log holds everything, and it is tried again");
        }
        let pause = before.map_or(RETRY, |before| (before.pause * 2).min(RETRY_MAX));
        self.failure = Some(Failure { cause, pause });
        self.rests_until = self.rests_until.max(Instant::now() + pause);
    }
}

/// Lets the threads that serve clients go first where cores are few. Children of this thread do the same.
fn stand_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE); // no more than a wish
}

/// The bottom of an error, without the names of files.
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
    let taken = shared.store.write_snapshot_gently(frozen, &|| shared.sleep(NAP))?;
    let (SnapshotTaken::Written(file) | SnapshotTaken::Existed(file)) = taken;
    let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    shared.metrics.snapshottime.note(took_ms, 1);
    tracing::info!(file = %file.path.display(), "Snapshot taken in {took_ms} ms");
    Ok(())
}
