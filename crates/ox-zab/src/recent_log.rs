//! The recent part of the history, and how a learner is brought up to it.

use crate::epoch::Epoch;
use crate::message::Txn;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// How a learner's history is made equal to the leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Catch {
    /// It is continued: behind this transaction.
    Diff {
        /// What the packet says: the leader's last.
        told: Zxid,
        /// What the learner has.
        after: Zxid,
    },
    /// It is cut here, and continued.
    Trunc(Zxid),
    /// It is replaced.
    Snap,
}

/// How much more is kept for learners that lack it, unless told otherwise.
const PINNED_FACTOR: usize = 4;

/// What a transaction takes besides its record: its place in a queue that may be twice as long as it is full, and its share of
/// the allocation behind the record.
const TXN_BYTES: usize = 2 * size_of::<Txn>() + 32;

/// What a transaction counts against the limits.
fn held_bytes(txn: &Txn) -> usize {
    txn.record.len() + TXN_BYTES
}

/// Consecutive transactions of the log, up to the last one: what is agreed on, and behind that what may be. Never with
/// a hole in it.
#[derive(Debug)]
pub struct History {
    recent: VecDeque<Txn>,
    /// Everything after this is kept.
    start: Zxid,
    /// The last transaction; also when none is kept.
    last: Zxid,
    /// Of what is applied: how many are kept, and what they count.
    applied: usize,
    applied_bytes: usize,
    count_max: usize,
    bytes_max: usize,
    pinned_bytes_max: usize,
}

impl History {
    /// A history that ends at `last`, of which nothing is kept yet.
    pub fn new(last: Zxid, count_max: usize, bytes_max: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            start: last,
            last,
            applied: 0,
            applied_bytes: 0,
            count_max,
            bytes_max,
            pinned_bytes_max: bytes_max.saturating_mul(PINNED_FACTOR),
        }
    }

    /// With so many bytes of applied transactions at most that learners still have to be sent.
    #[must_use]
    pub fn with_pinned_max(mut self, bytes: usize) -> Self {
        self.pinned_bytes_max = bytes;
        self
    }

    /// Everything after this transaction is kept.
    pub fn start(&self) -> Zxid {
        self.start
    }

    /// The last transaction.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The oldest that is kept.
    pub fn first(&self) -> Option<Zxid> {
        self.recent.front().map(|txn| txn.zxid)
    }

    /// Appends a transaction.
    ///
    /// # Panics
    /// When there would be a hole.
    pub fn push(&mut self, txn: Txn) {
        assert!(txn.zxid.follows(self.last), "{} does not follow {}", txn.zxid, self.last);
        self.last = txn.zxid;
        self.recent.push_back(txn);
    }

    /// Drops the oldest of what is applied while there is too much of it. What learners lack, everything after `pinned`, is
    /// kept for longer. What is not applied is always kept, and never counts: the log on disk cannot be read for it.
    pub fn trim(&mut self, applied: Zxid, pinned: Zxid) {
        while let Some(txn) = self.recent.get(self.applied).filter(|txn| txn.zxid <= applied) {
            self.applied_bytes += held_bytes(txn);
            self.applied += 1;
        }
        while let Some(first) = self.recent.front().filter(|_| self.applied != 0) {
            let is_over = self.count_max < self.recent.len() || self.bytes_max < self.applied_bytes;
            let is_free = first.zxid <= pinned || self.pinned_bytes_max < self.applied_bytes;
            if !(is_over && is_free) {
                break;
            }
            self.start = first.zxid;
            self.applied_bytes -= held_bytes(first);
            self.applied -= 1;
            self.recent.pop_front();
        }
    }

    /// Forgets what is behind `zxid`.
    pub fn truncate(&mut self, zxid: Zxid) {
        while let Some(txn) = self.recent.pop_back_if(|txn| zxid < txn.zxid) {
            if self.recent.len() < self.applied {
                self.applied -= 1;
                self.applied_bytes -= held_bytes(&txn);
            }
        }
        (self.last, self.start) = (zxid.min(self.last), zxid.min(self.start));
    }

    /// Forgets everything: the history begins with a state at `zxid`.
    pub fn restart(&mut self, zxid: Zxid) {
        self.recent.clear();
        (self.applied, self.applied_bytes) = (0, 0);
        (self.start, self.last) = (zxid, zxid);
    }

    /// Transactions behind `zxid`, as far as they are kept.
    pub fn after(&self, zxid: Zxid) -> impl Iterator<Item = &Txn> {
        let first = self.recent.partition_point(|txn| txn.zxid <= zxid);
        self.recent.range(first..)
    }

    /// How a learner whose history ends at `peer` is brought up to `agreed`, the last transaction that is agreed on, by
    /// a leader whose state is at `processed`: that transaction, or the start of an epoch that has none yet.
    pub fn catch_up(&self, peer: Zxid, processed: Zxid, agreed: Zxid) -> Catch {
        let first = self.recent.front().map_or(processed, |txn| txn.zxid);
        let last = if self.recent.is_empty() { processed } else { agreed };
        let is_start = peer.counter() == 0;
        if peer == processed {
            return Catch::Diff { told: peer, after: peer };
        }
        if last < peer && !is_start {
            return Catch::Trunc(last);
        }
        if peer < first || last < peer {
            return Catch::Snap;
        }
        let next = self.recent.partition_point(|txn| txn.zxid < peer);
        if is_start || self.recent.get(next).is_some_and(|txn| txn.zxid == peer) {
            return Catch::Diff { told: last, after: peer };
        }
        // The learner has a transaction that nobody agreed on.
        match (next.checked_sub(1).and_then(|before| self.recent.get(before)), self.recent.get(next)) {
            (Some(before), Some(after)) if Epoch::of(after.zxid) == Epoch::of(peer) => Catch::Trunc(before.zxid),
            _ => Catch::Snap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn zxid(epoch: u32, counter: u32) -> Zxid {
        Zxid::new(epoch, counter)
    }

    /// (1,3) (1,4) (1,5) (3,1) (3,2)
    fn history() -> History {
        let mut history = History::new(zxid(1, 2), 500, 1 << 20);
        for (epoch, counter) in [(1, 3), (1, 4), (1, 5), (3, 1), (3, 2)] {
            history.push(Txn { zxid: zxid(epoch, counter), record: Bytes::new() });
        }
        history
    }

    fn check(peer: Zxid, expected: Catch) {
        assert_eq!(history().catch_up(peer, zxid(3, 2), zxid(3, 2)), expected, "{peer}");
    }

    #[test]
    fn decisions() {
        let (last, diff) = (zxid(3, 2), |after| Catch::Diff { told: zxid(3, 2), after });
        check(last, diff(last));
        check(zxid(1, 3), diff(zxid(1, 3)));
        check(zxid(3, 1), diff(zxid(3, 1)));
        check(zxid(3, 0), diff(zxid(3, 0)));
        check(zxid(2, 0), diff(zxid(2, 0)));
        check(zxid(3, 3), Catch::Trunc(last));
        check(zxid(4, 0), Catch::Snap);
        check(zxid(1, 6), Catch::Snap); // cutting would cross an epoch
        check(zxid(2, 1), Catch::Snap);
        check(zxid(1, 2), Catch::Snap); // too old
        check(Zxid::ZERO, Catch::Snap);
        check(Zxid(-1), Catch::Snap);
    }

    #[test]
    fn an_epoch_without_transactions() {
        let history = history();
        assert_eq!(
            history.catch_up(zxid(3, 2), zxid(4, 0), zxid(3, 2)),
            Catch::Diff { told: zxid(3, 2), after: zxid(3, 2) }
        );
        assert_eq!(
            history.catch_up(zxid(4, 0), zxid(4, 0), zxid(3, 2)),
            Catch::Diff { told: zxid(4, 0), after: zxid(4, 0) }
        );
        assert_eq!(history.catch_up(zxid(3, 5), zxid(4, 0), zxid(3, 2)), Catch::Trunc(zxid(3, 2)));
        let empty = History::new(Zxid::ZERO, 500, 1 << 20);
        assert_eq!(
            empty.catch_up(Zxid::ZERO, Zxid::ZERO, Zxid::ZERO),
            Catch::Diff { told: Zxid::ZERO, after: Zxid::ZERO }
        );
        assert_eq!(empty.catch_up(Zxid::ZERO, zxid(1, 0), Zxid::ZERO), Catch::Snap);
    }

    #[test]
    fn a_foreign_transaction_is_cut_out() {
        let mut history = History::new(zxid(1, 2), 500, 1 << 20);
        for counter in [3, 4] {
            history.push(Txn { zxid: zxid(1, counter), record: Bytes::new() });
        }
        assert_eq!(history.catch_up(zxid(1, 9), zxid(1, 4), zxid(1, 4)), Catch::Trunc(zxid(1, 4)));
    }

    #[test]
    fn what_is_not_applied_is_kept() {
        let mut history = History::new(Zxid::ZERO, 2, 1 << 20);
        for counter in 1..=5 {
            history.push(Txn { zxid: zxid(0, counter), record: Bytes::new() });
        }
        history.trim(zxid(0, 1), Zxid(i64::MAX));
        assert_eq!(history.after(Zxid::ZERO).count(), 4);
        history.truncate(zxid(0, 3));
        assert_eq!((history.last(), history.after(zxid(0, 2)).count()), (zxid(0, 3), 1));
    }

    #[test]
    fn transactions_without_bytes_count_when_they_are_kept_for_learners() {
        let mut history = History::new(Zxid::ZERO, 2, 1 << 20).with_pinned_max(10 * TXN_BYTES);
        for counter in 1..=100 {
            history.push(Txn { zxid: zxid(0, counter), record: Bytes::new() });
            history.trim(zxid(0, counter), Zxid::ZERO);
        }
        assert_eq!((history.recent.len(), history.start()), (10, zxid(0, 90)));
        history.truncate(zxid(0, 95));
        assert_eq!((history.recent.len(), history.applied_bytes), (5, 5 * TXN_BYTES));
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn holes_are_impossible() {
        history().push(Txn { zxid: zxid(3, 4), record: Bytes::new() });
    }
}
