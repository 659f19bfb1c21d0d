//! Requests of one connection at the replica, so that each reply can be counted with its latency and operation.

use std::collections::VecDeque;

/// An empty list keeps capacity for this many runs; a larger allocation is freed.
const KEPT_RUNS: usize = 16;

/// Consecutive requests for the same operation, received together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) since_ms: i64,
    pub(super) op: i32,
    /// Xid of the last one.
    pub(super) xid: i32,
    pub(super) count: u32,
}

/// In the order of the replies, which is that of the requests.
#[derive(Debug, Default)]
pub(super) struct InFlight(VecDeque<Run>);

impl InFlight {
    pub(super) fn push(&mut self, since_ms: i64, op: i32, xid: i32) {
        match self.0.back_mut() {
            Some(run) if run.op == op && run.since_ms == since_ms => {
                run.count += 1;
                run.xid = xid;
            }
            _ => self.0.push_back(Run { since_ms, op, xid, count: 1 }),
        }
    }

    /// The operation of the next reply.
    pub(super) fn next_op(&self) -> Option<i32> {
        self.0.front().map(|run| run.op)
    }

    /// Removes `count` requests from the front, run by run.
    pub(super) fn pop(&mut self, mut count: u32, mut replied: impl FnMut(Run)) {
        while let Some(run) = self.0.front_mut().filter(|_| 0 < count) {
            let taken = run.count.min(count);
            count -= taken;
            run.count -= taken;
            replied(Run { count: taken, ..*run });
            if run.count == 0 {
                self.0.pop_front();
            }
        }
        if self.0.is_empty() && KEPT_RUNS < self.0.capacity() {
            self.0 = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_matched_with_their_requests() {
        let mut in_flight = InFlight::default();
        for (since_ms, op, xid) in [(1, 5, 1), (1, 5, 2), (1, 4, 3), (2, 4, 4)] {
            in_flight.push(since_ms, op, xid);
        }
        let mut replied = |count| {
            let mut runs = Vec::new();
            in_flight.pop(count, |run| runs.push((run.since_ms, run.op, run.count)));
            runs
        };
        assert_eq!(replied(1), [(1, 5, 1)]);
        assert_eq!(replied(2), [(1, 5, 1), (1, 4, 1)]);
        assert_eq!(replied(9), [(2, 4, 1)]);
        assert_eq!(in_flight.next_op(), None);
    }
}
