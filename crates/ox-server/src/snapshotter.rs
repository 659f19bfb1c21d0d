//! Snapshots in the background, one at a time, with pauses.
//!
//! How often one is due is counted in transactions, what it costs grows with the tree. Under a flood of writes to a large
//! tree the two would drift apart until the server does nothing else; so after each one it rests for a multiple of
//! the time that it took. One that fails is tried again, ever more seldom, until one succeeds.

use crate::shared::{Essential, Shared};
use ox_store::SnapshotTaken;
use ox_tree::Frozen;
use std::error::Error;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many times as long as it worked the snapshot thread rests.
const REST: u32 = 4;
/// How long it rests at least after a failure: at first, and after many.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(2);
const REST_AFTER_FAILURES: Duration = Duration::from_secs(600);

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Starts a thread per snapshot.
pub(crate) struct Snapshotter {
    shared: Arc<Shared>,
    running: Option<JoinHandle<(Outcome, Duration)>>,
    rests_until: Instant,
    failure: Option<Failure>,
}

/// The last one failed.
struct Failure {
    /// What is at the bottom of it.
    cause: String,
    rest: Duration,
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None, rests_until: Instant::now(), failure: None }
    }

    /// Whether a snapshot may be started now: none is being written, and the last one is long enough ago.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.look();
        self.running.is_none() && self.rests_until <= Instant::now()
    }

    /// Whether the last one failed, so that there should be another.
    pub(crate) fn has_failed(&mut self) -> bool {
        self.look();
        self.failure.is_some()
    }

    /// Writes `frozen`. A failure is reported and does not stop the server: the log still holds everything.
    pub(crate) fn start(&mut self, frozen: Frozen) {
        self.wait();
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let _essential = Essential { shared: Arc::clone(&shared), name: "snapshot", only_panics: true };
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

    fn look(&mut self) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait();
        }
    }

    /// A failure is told once, however often the same happens again.
    fn note(&mut self, outcome: Outcome, took: Duration) {
        let (before, mut rest) = (self.failure.take(), took.saturating_mul(REST));
        if let Err(error) = outcome {
            self.shared.metrics.snapshot_error_count.add(1);
            let cause = cause(&*error);
            if before.as_ref().is_none_or(|before| before.cause != cause) {
                tracing::error!(%error, "snapshot failed; the log holds everything, and it is tried again");
            }
            let least = before.map_or(REST_AFTER_FAILURE, |before| (before.rest * 2).min(REST_AFTER_FAILURES));
            self.failure = Some(Failure { cause, rest: least });
            rest = rest.max(least);
        }
        self.rests_until = Instant::now() + rest;
    }
}

/// The bottom of an error, without the names of files.
fn cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn write(shared: &Shared, frozen: &Frozen) -> Outcome {
    let started = Instant::now();
    let (zxid, nodes) = (frozen.last_zxid(), frozen.node_count());
    let dir = shared.store.dirs().snapshots.display();
    tracing::info!(nodes, "Snapshotting: {zxid} to {dir}/snapshot.{:x}", zxid.0);
    let (SnapshotTaken::Written(file) | SnapshotTaken::Existed(file)) = shared.store.write_snapshot(frozen)?;
    let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    shared.metrics.snapshottime.note(took_ms, 1);
    tracing::info!(file = %file.path.display(), "Snapshot taken in {took_ms} ms");
    Ok(())
}
