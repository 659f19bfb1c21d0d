//! Runs many seeds in parallel: prints throughput, coverage and failures.

use crate::{Overrides, panics, plan, print_coverage, replay};
use ox_sim::{CoverageCounts, Failure, FailureKind, run};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// One in this many seeds runs twice, to check that the traces are equal.
const RECHECK_INTERVAL: u64 = 16;

/// The seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) overrides: Overrides,
    pub(crate) twice: bool,
    pub(crate) threads: usize,
    pub(crate) stops_at_first: bool,
}

/// The results so far.
#[derive(Debug, Default)]
struct BatchResult {
    done: u64,
    steps: u64,
    virtual_us: i64,
    coverage: CoverageCounts,
    failed: BTreeMap<u64, Failure>,
}

impl Batch {
    pub(crate) fn run(self) -> ExitCode {
        let started = Instant::now();
        let (next, is_over) = (AtomicU64::new(self.from), AtomicBool::new(false));
        let result = Mutex::new(BatchResult::default());
        std::thread::scope(|scope| {
            let work = || self.work(&next, &result, &is_over);
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            let mut last_report = Instant::now();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(20));
                if PROGRESS_INTERVAL <= last_report.elapsed() {
                    last_report = Instant::now();
                    eprintln!("{}", self.progress(&result.lock(), started));
                }
            }
        });
        self.report(&result.into_inner(), started)
    }

    fn work(&self, next: &AtomicU64, result: &Mutex<BatchResult>, is_over: &AtomicBool) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if self.from + self.seeds <= seed || is_over.load(Ordering::Relaxed) {
                return;
            }
            let outcome = panics::caught(seed, || {
                let plan = plan(seed, self.overrides);
                let mut outcome = run(seed, &plan);
                if outcome.failure.is_none()
                    && (self.twice || seed.is_multiple_of(RECHECK_INTERVAL))
                    && run(seed, &plan).trace_hash != outcome.trace_hash
                {
                    let kind = FailureKind::NotDeterministic;
                    outcome.failure = Some(Failure { kind, at_us: 0, detail: kind.text().to_owned() });
                }
                outcome
            });
            let mut result = result.lock();
            result.done += 1;
            let failure = match outcome {
                Ok(outcome) => {
                    result.coverage.add(&outcome.coverage);
                    result.steps += outcome.steps;
                    result.virtual_us += outcome.virtual_us;
                    outcome.failure
                }
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                println!("seed {seed} failed: {failure}\n{}", replay(seed, self.overrides));
                result.failed.insert(seed, failure);
                is_over.fetch_or(self.stops_at_first, Ordering::Relaxed);
            }
        }
    }

    fn progress(&self, result: &BatchResult, started: Instant) -> String {
        let (done, failed, seconds) = (result.done, result.failed.len(), started.elapsed().as_secs_f64());
        format!("{done} of {} seeds, {failed} failed, {:.1} seeds per second", self.seeds, rate(done, seconds))
    }

    fn report(&self, result: &BatchResult, started: Instant) -> ExitCode {
        let (seconds, BatchResult { done, steps, .. }) = (started.elapsed().as_secs_f64(), result);
        print_coverage(&result.coverage);
        let hours = result.virtual_us / 1_000_000 / 3600;
        println!("{done} seeds from {}, {steps} steps, {hours} hours of virtual time", self.from);
        println!("{seconds:.1} s, {:.1} seeds per second", rate(*done, seconds));
        if result.failed.is_empty() {
            println!("no seed failed");
            return ExitCode::SUCCESS;
        }
        println!("{} failed:", result.failed.len());
        for (seed, failure) in &result.failed {
            println!("seed {seed}: {}; {}", failure.kind.text(), replay(*seed, self.overrides));
        }
        let first = result.failed.values().next();
        ExitCode::from(first.map_or(1, |failure| failure.kind as u8))
    }
}

fn rate(done: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    let done = done as f64;
    done / seconds.max(1e-9)
}
