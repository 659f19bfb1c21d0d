//! Detection of threads that hang. A thread that ends is noticed elsewhere, immediately.
//!
//! Every loop of the server iterates within about a second, with or without work, and counts its iterations. A thread
//! whose counter does not change for many checks hangs: in the disk, in a lock, or in an endless loop. Time is counted
//! in checks, so that a pause of the whole process is not blamed on its threads.
//!
//! Snapshots and purges are not watched: they have no such loop, and take as long as the amount of data requires.

use crate::shared::{Fatal, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Interval of the checks, and the longest wait of a loop that has nothing to do.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Checks after which a thread cannot be merely idle.
const CHECKS_MIN: u64 = 3;

/// Iterations of a thread. Aligned to a cache line, so that stores of other threads do not slow it down.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Heartbeat(AtomicU64);

impl Heartbeat {
    /// Counts an iteration. Only the owning thread calls it.
    pub(crate) fn beat(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

struct Watched {
    /// The thread's name in the log.
    label: String,
    name: &'static str,
    heartbeat: Arc<Heartbeat>,
    seen: u64,
    /// Checks since the counter changed.
    still: u64,
    /// Number of checks at which the stall is logged next.
    report_at: u64,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// No iteration for this many checks.
    Stalled { label: String, checks: u64, is_first: bool },
    /// Iterating again, after this many checks.
    Resumed { label: String, checks: u64 },
    /// Stalled for longer than `oxkeeper.watchdog.exitAfter`.
    Expired(&'static str),
}

/// Checks the heartbeats of all threads once per interval.
#[derive(Default)]
pub(crate) struct Watchdog {
    threads: Vec<Watched>,
    warn_checks: Option<u64>,
    exit_checks: Option<u64>,
}

impl Watchdog {
    /// After which times a stalled thread is logged, and the server stopped; 0 is never.
    pub(crate) fn new(warn_ms: u32, exit_ms: u32) -> Self {
        let checks = |ms: u32| {
            (ms != 0).then(|| (Duration::from_millis(ms.into()).as_secs() / CHECK_INTERVAL.as_secs()).max(CHECKS_MIN))
        };
        Self { threads: Vec::new(), warn_checks: checks(warn_ms), exit_checks: checks(exit_ms) }
    }

    /// Registers a thread, and returns its heartbeat.
    pub(crate) fn watch(&mut self, name: &'static str, label: &str) -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat::default());
        self.threads.push(Watched {
            label: label.to_owned(),
            name,
            heartbeat: Arc::clone(&heartbeat),
            seen: 0,
            still: 0,
            report_at: self.warn_checks.unwrap_or(u64::MAX),
        });
        heartbeat
    }

    /// Checks until the server stops.
    pub(crate) fn run(mut self, shared: &Shared) {
        while !shared.is_stopping() {
            shared.sleep(CHECK_INTERVAL);
            for finding in self.check() {
                report(shared, finding);
            }
            if self.all_progress() {
                shared.healthy_checks.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether no thread hung at the last check.
    fn all_progress(&self) -> bool {
        self.threads.iter().all(|thread| thread.still < CHECKS_MIN)
    }

    fn check(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for thread in &mut self.threads {
            let heartbeat = thread.heartbeat.0.load(Relaxed);
            let warn_checks = self.warn_checks.unwrap_or(u64::MAX);
            if heartbeat != std::mem::replace(&mut thread.seen, heartbeat) {
                let checks = std::mem::take(&mut thread.still);
                thread.report_at = warn_checks;
                if warn_checks <= checks {
                    findings.push(Finding::Resumed { label: thread.label.clone(), checks });
                }
                continue;
            }
            thread.still += 1;
            if thread.report_at <= thread.still {
                let (label, checks) = (thread.label.clone(), thread.still);
                findings.push(Finding::Stalled { label, checks, is_first: checks == warn_checks });
                thread.report_at = thread.still.saturating_mul(2);
            }
            if self.exit_checks == Some(thread.still) {
                findings.push(Finding::Expired(thread.name));
            }
        }
        findings
    }
}

fn report(shared: &Shared, finding: Finding) {
    match finding {
        Finding::Stalled { label, checks, is_first } => {
            shared.metrics.thread_stalls.add(u64::from(is_first));
            tracing::error!(thread = label, seconds = checks * CHECK_INTERVAL.as_secs(), "thread stalled");
        }
        Finding::Resumed { label, checks } => {
            tracing::warn!(thread = label, seconds = checks * CHECK_INTERVAL.as_secs(), "thread resumed after a stall");
        }
        Finding::Expired(name) => shared.fail(Fatal::Stalled(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(checks: u64, is_first: bool) -> Vec<Finding> {
        vec![Finding::Stalled { label: "b 1".to_owned(), checks, is_first }]
    }

    #[test]
    fn stalled_thread_is_logged_at_doubling_intervals() {
        let mut dog = Watchdog::new(4_000, 0);
        let (running, hanging) = (dog.watch("a", "a"), dog.watch("b", "b 1"));
        let mut check_once = |hanging_runs: bool| {
            running.beat();
            if hanging_runs {
                hanging.beat();
            }
            dog.check()
        };
        assert_eq!(check_once(true), []);
        for checks in 1..=20 {
            let expected = match checks {
                4 => stalled(4, true),
                8 | 16 => stalled(checks, false),
                _ => vec![],
            };
            assert_eq!(check_once(false), expected, "{checks}");
        }
        assert_eq!(check_once(true), [Finding::Resumed { label: "b 1".to_owned(), checks: 20 }]);
        assert!(
            (1..4).all(|_| check_once(false).is_empty()) && check_once(true).is_empty(),
            "a short stall is not reported"
        );
        assert!((1..4).all(|_| check_once(false).is_empty()));
        assert_eq!(check_once(false), stalled(4, true), "and each long one is counted from its start");
    }

    #[test]
    fn thread_stalled_for_too_long_ends_the_server() {
        let mut dog = Watchdog::new(0, 5_000);
        let _heartbeat = dog.watch("b", "b 1");
        let findings: Vec<_> = (0..10).map(|_| dog.check()).collect();
        assert_eq!(findings.concat(), [Finding::Expired("b")]);
        assert_eq!(findings[4], [Finding::Expired("b")]);
    }

    #[test]
    fn one_stalled_thread_is_no_progress_until_it_resumes() {
        let mut dog = Watchdog::new(0, 0);
        let (running, hanging) = (dog.watch("a", "a"), dog.watch("b", "b 1"));
        let mut progress_after = |hanging_runs: bool| {
            running.beat();
            if hanging_runs {
                hanging.beat();
            }
            dog.check();
            dog.all_progress()
        };
        assert!(progress_after(true));
        assert_eq!([(); 5].map(|()| progress_after(false)), [true, true, false, false, false]);
        assert!(progress_after(true));
    }

    #[test]
    fn idle_loop_is_not_reported() {
        let mut dog = Watchdog::new(1, 0);
        let heartbeat = dog.watch("a", "a");
        // A loop that sleeps for a second, with checks just before and just after its iteration.
        for at in 0..50 {
            if at % 2 == 0 {
                heartbeat.beat();
            }
            assert_eq!(dog.check(), []);
        }
    }
}
