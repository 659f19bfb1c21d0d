//! Back-pressure: connections whose next request waits for memory. They are not read until there is some.
//!
//! Each kind of memory has its own queue, so that connections waiting for one kind do not delay those waiting for
//! another. A queue is retried only while its memory may be available, from its front, and a connection that must wait
//! again keeps its place.

use super::limits::{LARGE_WRITE_WAIT_MS, RETRIES_PER_ITERATION_MAX};
use ox_replica::{Admission, Pressure, SMALL_BYTES, Shortage};
use std::collections::VecDeque;

/// What a stalled connection waits for, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) shortage: Shortage,
    pub(super) since_ms: i64,
}

#[derive(Debug)]
struct Queue {
    shortage: Shortage,
    /// Slots of connections in the order of arrival.
    waiting: VecDeque<usize>,
    /// Slots that were retried in this iteration, without success.
    again: Vec<usize>,
    /// All retried connections could continue: more may follow immediately.
    flows: bool,
    /// Number of retries in this iteration.
    tried: usize,
    /// When a connection last left the queue, or the first one entered it.
    moved_ms: i64,
}

/// A connection to retry in this iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) slot: usize,
    /// It is admitted although only small writes are.
    pub(super) is_overdue: bool,
}

#[derive(Debug)]
pub(super) struct Stalled([Queue; 4]);

impl Default for Stalled {
    fn default() -> Self {
        let all = [Shortage::Frames, Shortage::SmallWrites, Shortage::LargeWrites, Shortage::Replies];
        Self(all.map(Queue::new))
    }
}

impl Stalled {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|queue| queue.waiting.is_empty())
    }

    /// Whether connections are to be retried without waiting for an event.
    pub(super) fn flows(&self) -> bool {
        self.0.iter().any(|queue| queue.flows && !queue.waiting.is_empty())
    }

    /// Removes a connection that is closed.
    pub(super) fn remove(&mut self, shortage: Shortage, slot: usize) {
        self.queue(shortage).waiting.retain(|waiting| *waiting != slot);
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|queue| queue.waiting.iter().copied())
    }

    /// Adds a connection at the end of a queue.
    pub(super) fn add(&mut self, shortage: Shortage, slot: usize, now_ms: i64) {
        let queue = self.queue(shortage);
        if queue.waiting.is_empty() && queue.tried == 0 {
            queue.moved_ms = now_ms;
        }
        queue.waiting.push_back(slot);
    }

    /// Puts a retried connection back, in front of those that were not retried.
    pub(super) fn add_again(&mut self, shortage: Shortage, slot: usize) {
        let queue = self.queue(shortage);
        queue.again.push(slot);
        queue.flows = false;
    }

    /// Takes the connections to retry in this iteration; `waits` returns whether a slot is still stalled.
    pub(super) fn take(
        &mut self,
        (admission, pressure): (Admission, Pressure),
        now_ms: i64,
        waits: impl Fn(usize, Shortage) -> bool,
    ) -> Vec<Retry> {
        let mut taken = Vec::new();
        let mut queues: Vec<&mut Queue> = self.0.iter_mut().collect();
        // Otherwise small writes would use up free memory before a large one is retried.
        queues.sort_by_key(|queue| queue.moved_ms);
        for queue in queues {
            let before = taken.len();
            let is_overdue = queue.is_overdue(admission, now_ms);
            let most = if is_overdue { 1 } else { RETRIES_PER_ITERATION_MAX };
            if is_overdue || may_go_on(queue.shortage, admission, pressure) {
                while taken.len() < before + most
                    && let Some(slot) = queue.waiting.pop_front()
                {
                    taken.extend(waits(slot, queue.shortage).then_some(Retry { slot, is_overdue }));
                }
            }
            queue.tried = taken.len() - before;
            queue.flows = 0 < queue.tried && !is_overdue;
        }
        taken
    }

    /// Ends the iteration: connections that must wait again return to the front of their queue.
    pub(super) fn end_iteration(&mut self, now_ms: i64) {
        for queue in self.0.iter_mut().filter(|queue| queue.tried != 0) {
            if queue.again.len() < std::mem::take(&mut queue.tried) {
                queue.moved_ms = now_ms;
            }
            for slot in queue.again.drain(..).rev() {
                queue.waiting.push_front(slot);
            }
        }
    }

    fn queue(&mut self, shortage: Shortage) -> &mut Queue {
        &mut self.0[shortage as usize]
    }
}

impl Queue {
    fn new(shortage: Shortage) -> Self {
        Self { shortage, waiting: VecDeque::new(), again: Vec::new(), flows: false, tried: 0, moved_ms: 0 }
    }

    /// Whether large writes have waited for too long while only small ones are admitted. Measured for the queue: where
    /// one large write after the other is admitted, those behind them wait for their turn.
    fn is_overdue(&self, admission: Admission, now_ms: i64) -> bool {
        self.shortage == Shortage::LargeWrites
            && admission == Admission::SmallOnly
            && LARGE_WRITE_WAIT_MS <= now_ms - self.moved_ms
    }
}

/// Whether memory may be available for the first connection of a queue.
fn may_go_on(shortage: Shortage, admission: Admission, pressure: Pressure) -> bool {
    match shortage {
        Shortage::Frames => true, // only the attempt shows
        Shortage::SmallWrites => admission.shortage(0).is_none(),
        Shortage::LargeWrites => admission.shortage(SMALL_BYTES + 1).is_none(),
        Shortage::Replies => pressure != Pressure::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(stalled: &mut Stalled, admission: Admission, pressure: Pressure) -> Vec<usize> {
        stalled.take((admission, pressure), 0, |_, _| true).into_iter().map(|retry| retry.slot).collect()
    }

    #[test]
    fn blocked_queue_delays_no_other_queue() {
        let mut stalled = Stalled::default();
        let all = [Shortage::Frames, Shortage::LargeWrites, Shortage::Replies, Shortage::SmallWrites];
        for (number, shortage) in all.into_iter().enumerate() {
            (0..2 * RETRIES_PER_ITERATION_MAX).for_each(|slot| stalled.add(shortage, 1000 * number + slot, 0));
        }
        for (admission, pressure, expected) in [
            (Admission::SmallOnly, Pressure::Full, [0, 3].as_slice()),
            (Admission::Closed, Pressure::Full, &[0]),
            (Admission::Closed, Pressure::High, &[0, 2]),
            (Admission::OnePerConnection, Pressure::Full, &[0, 1, 3]),
        ] {
            let tried = take(&mut stalled, admission, pressure);
            let mut numbers: Vec<_> = tried.iter().map(|slot| slot / 1000).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers, expected, "{admission:?} {pressure:?}");
            assert_eq!(tried.len(), expected.len() * RETRIES_PER_ITERATION_MAX);
            tried.iter().for_each(|slot| stalled.add_again(all[slot / 1000], *slot));
            assert!(!stalled.flows());
            stalled.end_iteration(0);
        }
    }

    #[test]
    fn connection_that_waits_again_keeps_its_place() {
        let mut stalled = Stalled::default();
        (0..4).for_each(|slot| stalled.add(Shortage::Replies, slot, 0));
        assert_eq!(take(&mut stalled, Admission::Open, Pressure::Low), [0, 1, 2, 3]);
        stalled.add(Shortage::Replies, 9, 0);
        [1, 2].into_iter().for_each(|slot| stalled.add_again(Shortage::Replies, slot));
        stalled.end_iteration(0);
        assert_eq!(stalled.slots().collect::<Vec<_>>(), [1, 2, 9]);
        assert!(!stalled.flows(), "the next retry waits for the clock");
        let taken = stalled.take((Admission::Open, Pressure::Low), 0, |slot, _| slot != 2);
        assert_eq!(taken.iter().map(|retry| retry.slot).collect::<Vec<_>>(), [1, 9], "2 is closed");
        stalled.end_iteration(0);
        assert!(stalled.is_empty() && !stalled.flows());
        (0..=RETRIES_PER_ITERATION_MAX).for_each(|slot| stalled.add(Shortage::Frames, slot, 0));
        take(&mut stalled, Admission::Open, Pressure::Low);
        assert!(stalled.flows(), "all could continue, and one more waits");
    }

    /// A throttle by count admits one write of any size at a time.
    #[test]
    fn queue_that_has_waited_longest_is_tried_first() {
        let mut stalled = Stalled::default();
        stalled.add(Shortage::LargeWrites, 7, 1000);
        (0..3).for_each(|slot| stalled.add(Shortage::SmallWrites, slot, 1000));
        assert_eq!(take(&mut stalled, Admission::OnePerConnection, Pressure::Low)[0], 0);
        [(Shortage::LargeWrites, 7), (Shortage::SmallWrites, 1), (Shortage::SmallWrites, 2)]
            .into_iter()
            .for_each(|(shortage, slot)| stalled.add_again(shortage, slot));
        stalled.end_iteration(1001);
        assert_eq!(
            take(&mut stalled, Admission::OnePerConnection, Pressure::Low),
            [7, 1, 2],
            "a small one has entered"
        );
    }

    #[test]
    fn closed_connection_is_removed_from_its_queue() {
        let mut stalled = Stalled::default();
        [3, 4].into_iter().for_each(|slot| stalled.add(Shortage::Replies, slot, 0));
        stalled.remove(Shortage::Replies, 3);
        stalled.remove(Shortage::Frames, 4);
        assert_eq!(stalled.slots().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn large_write_is_admitted_in_time_while_only_small_ones_are() {
        let mut stalled = Stalled::default();
        let take =
            |stalled: &mut Stalled, now_ms| stalled.take((Admission::SmallOnly, Pressure::Low), now_ms, |_, _| true);
        (0..3).for_each(|slot| stalled.add(Shortage::LargeWrites, slot, 5000));
        assert_eq!(take(&mut stalled, 4999 + LARGE_WRITE_WAIT_MS), []);
        stalled.end_iteration(5000);
        let overdue = |slot| [Retry { slot, is_overdue: true }];
        assert_eq!(take(&mut stalled, 5000 + LARGE_WRITE_WAIT_MS), overdue(0), "one of them");
        stalled.add_again(Shortage::LargeWrites, 0); // no memory at all
        stalled.end_iteration(6000);
        assert_eq!(take(&mut stalled, 6001), overdue(0));
        stalled.end_iteration(6001);
        assert_eq!(take(&mut stalled, 6000 + LARGE_WRITE_WAIT_MS), [], "another one entered just before");
        stalled.end_iteration(7000);
        assert_eq!(take(&mut stalled, 6001 + LARGE_WRITE_WAIT_MS), overdue(1));
        assert!(!stalled.flows());
    }
}
