//! Many seeds, on all cores: how fast, how far, and which of them failed.

use crate::{Wish, panics, plan, print_marks, replay};
use ox_sim::{Failure, Kind, Marks, run};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_secs(5);
/// One in so many seeds is run a second time, to see that it gives the same.
const AGAIN: u64 = 16;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) wish: Wish,
    pub(crate) twice: bool,
    pub(crate) threads: usize,
    pub(crate) stops_at_first: bool,
}

/// What has been found so far.
#[derive(Debug, Default)]
struct Found {
    done: u64,
    steps: u64,
    virtual_us: i64,
    marks: Marks,
    failed: BTreeMap<u64, Failure>,
}

impl Batch {
    pub(crate) fn run(self) -> ExitCode {
        let started = Instant::now();
        let (next, is_over) = (AtomicU64::new(self.from), AtomicBool::new(false));
        let found = Mutex::new(Found::default());
        std::thread::scope(|scope| {
            let work = || self.work(&next, &found, &is_over);
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            let mut told = Instant::now();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(20));
                if PROGRESS <= told.elapsed() {
                    told = Instant::now();
                    eprintln!("{}", self.progress(&found.lock(), started));
                }
            }
        });
        self.report(&found.into_inner(), started)
    }

    fn work(&self, next: &AtomicU64, found: &Mutex<Found>, is_over: &AtomicBool) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if self.from + self.seeds <= seed || is_over.load(Ordering::Relaxed) {
                return;
            }
            let outcome = panics::caught(seed, || {
                let plan = plan(seed, self.wish);
                let mut outcome = run(seed, &plan);
                if outcome.failure.is_none()
                    && (self.twice || seed.is_multiple_of(AGAIN))
                    && run(seed, &plan).trace_hash != outcome.trace_hash
                {
                    let kind = Kind::NotDeterministic;
                    outcome.failure = Some(Failure { kind, at_us: 0, detail: kind.text().to_owned() });
                }
                outcome
            });
            let mut found = found.lock();
            found.done += 1;
            let failure = match outcome {
                Ok(outcome) => {
                    found.marks.add(&outcome.marks);
                    found.steps += outcome.steps;
                    found.virtual_us += outcome.virtual_us;
                    outcome.failure
                }
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                println!("seed {seed} failed: {failure}\n{}", replay(seed, self.wish));
                found.failed.insert(seed, failure);
                is_over.fetch_or(self.stops_at_first, Ordering::Relaxed);
            }
        }
    }

    fn progress(&self, found: &Found, started: Instant) -> String {
        let (done, failed, seconds) = (found.done, found.failed.len(), started.elapsed().as_secs_f64());
        format!("{done} of {} seeds, {failed} failed, {:.1} seeds per second", self.seeds, rate(done, seconds))
    }

    fn report(&self, found: &Found, started: Instant) -> ExitCode {
        let (seconds, Found { done, steps, .. }) = (started.elapsed().as_secs_f64(), found);
        print_marks(&found.marks);
        let hours = found.virtual_us / 1_000_000 / 3600;
        println!("{done} seeds from {}, {steps} steps, {hours} hours of virtual time", self.from);
        println!("{seconds:.1} s, {:.1} seeds per second", rate(*done, seconds));
        if found.failed.is_empty() {
            println!("no seed failed");
            return ExitCode::SUCCESS;
        }
        println!("{} failed:", found.failed.len());
        for (seed, failure) in &found.failed {
            println!("seed {seed}: {}; {}", failure.kind.text(), replay(*seed, self.wish));
        }
        let first = found.failed.values().next();
        ExitCode::from(first.map_or(1, |failure| failure.kind as u8))
    }
}

fn rate(done: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    let done = done as f64;
    done / seconds.max(1e-9)
}
