//! Threads that stand still: not ended, which is noticed at once, but not getting on either.
//!
//! Every loop of the server comes around within about a second, with or without work, and marks that by one store. Who
//! has not moved for many looks hangs: in the disk, in a lock, in an endless loop. Time is counted in looks of the
//! watcher, so a process that was stopped or starved as a whole does not accuse its threads.
//!
//! Snapshots and purges are not watched: they have no loop that comes around, and take as long as there is data.

use crate::shared::{Fatal, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time between two looks, and between two turns of a loop that has nothing to do.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Looks after which a thread cannot be idle any more.
const LOOKS_MIN: u64 = 3;

/// How often a thread has come around. On a line of its own, so that nobody else's stores get in its way.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Turns(AtomicU64);

impl Turns {
    /// Marks a turn. Only the thread itself does.
    pub(crate) fn mark(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

struct Watched {
    /// For the log.
    label: String,
    name: &'static str,
    turns: Arc<Turns>,
    seen: u64,
    /// Looks since it moved.
    still: u64,
    /// Looks at which it is told next that it stands.
    tell_at: u64,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// It has not moved for so many looks.
    Stands { label: String, looks: u64, is_first: bool },
    /// It moves again, after so many.
    Moves { label: String, looks: u64 },
    /// It has stood for too long.
    Lost(&'static str),
}

/// Looks at all threads now and then.
#[derive(Default)]
pub(crate) struct Watchdog {
    threads: Vec<Watched>,
    warn_looks: Option<u64>,
    exit_looks: Option<u64>,
}

impl Watchdog {
    /// After which times a thread is reported, and the server given up; 0 is never.
    pub(crate) fn new(warn_ms: u32, exit_ms: u32) -> Self {
        let looks =
            |ms: u32| (ms != 0).then(|| (Duration::from_millis(ms.into()).as_secs() / LOOK.as_secs()).max(LOOKS_MIN));
        Self { threads: Vec::new(), warn_looks: looks(warn_ms), exit_looks: looks(exit_ms) }
    }

    /// The turns of another thread to watch.
    pub(crate) fn watch(&mut self, name: &'static str, label: &str) -> Arc<Turns> {
        let turns = Arc::new(Turns::default());
        self.threads.push(Watched {
            label: label.to_owned(),
            name,
            turns: Arc::clone(&turns),
            seen: 0,
            still: 0,
            tell_at: self.warn_looks.unwrap_or(u64::MAX),
        });
        turns
    }

    /// Looks until the server stops.
    pub(crate) fn run(mut self, shared: &Shared) {
        while !shared.is_stopping() {
            shared.nap(LOOK);
            for found in self.look() {
                tell(shared, found);
            }
        }
    }

    fn look(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        for thread in &mut self.threads {
            let turns = thread.turns.0.load(Relaxed);
            let warn_looks = self.warn_looks.unwrap_or(u64::MAX);
            if turns != std::mem::replace(&mut thread.seen, turns) {
                let looks = std::mem::take(&mut thread.still);
                thread.tell_at = warn_looks;
                if warn_looks <= looks {
                    found.push(Found::Moves { label: thread.label.clone(), looks });
                }
                continue;
            }
            thread.still += 1;
            if thread.tell_at <= thread.still {
                let (label, looks) = (thread.label.clone(), thread.still);
                found.push(Found::Stands { label, looks, is_first: looks == warn_looks });
                thread.tell_at = thread.still.saturating_mul(2);
            }
            if self.exit_looks == Some(thread.still) {
                found.push(Found::Lost(thread.name));
            }
        }
        found
    }
}

fn tell(shared: &Shared, found: Found) {
    match found {
        Found::Stands { label, looks, is_first } => {
            shared.metrics.thread_stalls.add(u64::from(is_first));
            tracing::error!(thread = label, seconds = looks * LOOK.as_secs(), "a thread does not get on");
        }
        Found::Moves { label, looks } => {
            tracing::warn!(thread = label, seconds = looks * LOOK.as_secs(), "a thread that stood still goes on");
        }
        Found::Lost(name) => shared.fail(Fatal::Stalled(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(looks: u64, is_first: bool) -> Vec<Found> {
        vec![Found::Stands { label: "b 1".to_owned(), looks, is_first }]
    }

    #[test]
    fn who_stands_is_told_now_and_then() {
        let mut dog = Watchdog::new(4_000, 0);
        let (moving, standing) = (dog.watch("a", "a"), dog.watch("b", "b 1"));
        let mut look = |standing_moves: bool| {
            moving.mark();
            if standing_moves {
                standing.mark();
            }
            dog.look()
        };
        assert_eq!(look(true), []);
        for looks in 1..=20 {
            let expected = match looks {
                4 => stands(4, true),
                8 | 16 => stands(looks, false),
                _ => vec![],
            };
            assert_eq!(look(false), expected, "{looks}");
        }
        assert_eq!(look(true), [Found::Moves { label: "b 1".to_owned(), looks: 20 }]);
        assert!((1..4).all(|_| look(false).is_empty()) && look(true).is_empty(), "a short stand is none");
        assert!((1..4).all(|_| look(false).is_empty()));
        assert_eq!(look(false), stands(4, true), "and each long one is counted from its start");
    }

    #[test]
    fn who_stands_too_long_ends_the_server() {
        let mut dog = Watchdog::new(0, 5_000);
        let _turns = dog.watch("b", "b 1");
        let found: Vec<_> = (0..10).map(|_| dog.look()).collect();
        assert_eq!(found.concat(), [Found::Lost("b")]);
        assert_eq!(found[4], [Found::Lost("b")]);
    }

    #[test]
    fn idle_loops_have_their_time() {
        let mut dog = Watchdog::new(1, 0);
        let turns = dog.watch("a", "a");
        // A loop that sleeps for a second, with a watcher that looks just before and just after.
        for at in 0..50 {
            if at % 2 == 0 {
                turns.mark();
            }
            assert_eq!(dog.look(), []);
        }
    }
}
