//! The newest transactions in memory (`ZKDatabase.committedLog`, and the proposals in flight), and how a learner can be
//! synchronised from these alone. `learner_sync.rs` makes the final choice.

use crate::epoch::Epoch;
use crate::message::EncodedTxn;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// How the leader makes a learner's log equal to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Send the transactions after `after`.
    Diff {
        /// The zxid in the DIFF packet: the leader's last committed transaction.
        announced: Zxid,
        /// The learner's last transaction.
        after: Zxid,
    },
    /// Truncate the learner's log after this zxid, then continue as with a DIFF.
    Trunc(Zxid),
    Snap,
}

/// By default, learners may pin this many times the regular limit of bytes.
const PINNED_FACTOR: usize = 4;

/// Memory of a transaction besides its record: its slot in a queue that may be half empty, and the header of the
/// record's shared allocation.
const TXN_BYTES: usize = 2 * size_of::<EncodedTxn>() + 32;

fn held_bytes(txn: &EncodedTxn) -> usize {
    txn.record.len() + TXN_BYTES
}

/// Consecutive transactions up to the last one in the log: committed ones, then proposals. Never contains a gap.
#[derive(Debug)]
pub struct RecentLog {
    recent: VecDeque<EncodedTxn>,
    /// The log contains every transaction after this zxid.
    start: Zxid,
    /// Zxid of the last logged transaction, also if the log in memory is empty.
    last: Zxid,
    /// Number and bytes of the transactions in memory that are applied. Only these can be trimmed.
    applied: usize,
    applied_bytes: usize,
    count_max: usize,
    bytes_max: usize,
    pinned_bytes_max: usize,
}

impl RecentLog {
    /// An empty log after the transaction `last`.
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

    /// Limits the bytes of applied transactions that stay in memory because learners still need them.
    #[must_use]
    pub fn with_pinned_max(mut self, bytes: usize) -> Self {
        self.pinned_bytes_max = bytes;
        self
    }

    /// Every transaction after this zxid is in memory.
    pub fn start(&self) -> Zxid {
        self.start
    }

    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The oldest transaction in memory.
    pub fn first(&self) -> Option<Zxid> {
        self.recent.front().map(|txn| txn.zxid)
    }

    /// Appends a transaction.
    ///
    /// # Panics
    /// If the transaction does not follow the last one.
    pub fn push(&mut self, txn: EncodedTxn) {
        assert!(txn.zxid.follows(self.last), "{} does not follow {}", txn.zxid, self.last);
        self.last = txn.zxid;
        self.recent.push_back(txn);
    }

    /// Drops the oldest applied transactions while the log is over its limits. Transactions after `pinned`, which
    /// learners still need, stay until the larger pinned limit. Transactions that are not applied always stay, and do
    /// not count, because a learner cannot be sent those from the on-disk log.
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

    /// Drops the transactions after `zxid`.
    pub fn truncate(&mut self, zxid: Zxid) {
        while let Some(txn) = self.recent.pop_back_if(|txn| zxid < txn.zxid) {
            if self.recent.len() < self.applied {
                self.applied -= 1;
                self.applied_bytes -= held_bytes(&txn);
            }
        }
        (self.last, self.start) = (zxid.min(self.last), zxid.min(self.start));
    }

    /// Drops everything: the log continues after a snapshot at `zxid`.
    pub fn restart(&mut self, zxid: Zxid) {
        self.recent.clear();
        (self.applied, self.applied_bytes) = (0, 0);
        (self.start, self.last) = (zxid, zxid);
    }

    /// The transactions in memory after `zxid`.
    pub fn after(&self, zxid: Zxid) -> impl Iterator<Item = &EncodedTxn> {
        let first = self.recent.partition_point(|txn| txn.zxid <= zxid);
        self.recent.range(first..)
    }

    /// Chooses how to synchronise a learner whose last transaction is `peer`. `committed` is the leader's last
    /// committed transaction. `processed` is the same, or the start of the current epoch as long as that has no
    /// transaction.
    pub fn catch_up(&self, peer: Zxid, processed: Zxid, committed: Zxid) -> SyncMode {
        let first = self.recent.front().map_or(processed, |txn| txn.zxid);
        let last = if self.recent.is_empty() { processed } else { committed };
        let is_start = peer.counter() == 0;
        if peer == processed {
            return SyncMode::Diff { announced: peer, after: peer };
        }
        if last < peer && !is_start {
            return SyncMode::Trunc(last);
        }
        if peer < first || last < peer {
            return SyncMode::Snap;
        }
        let next = self.recent.partition_point(|txn| txn.zxid < peer);
        if is_start || self.recent.get(next).is_some_and(|txn| txn.zxid == peer) {
            return SyncMode::Diff { announced: last, after: peer };
        }
        // The learner has a transaction that was never committed.
        match (next.checked_sub(1).and_then(|before| self.recent.get(before)), self.recent.get(next)) {
            (Some(before), Some(after)) if Epoch::of(after.zxid) == Epoch::of(peer) => SyncMode::Trunc(before.zxid),
            _ => SyncMode::Snap,
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
    fn history() -> RecentLog {
        let mut history = RecentLog::new(zxid(1, 2), 500, 1 << 20);
        for (epoch, counter) in [(1, 3), (1, 4), (1, 5), (3, 1), (3, 2)] {
            history.push(EncodedTxn { zxid: zxid(epoch, counter), record: Bytes::new() });
        }
        history
    }

    fn check(peer: Zxid, expected: SyncMode) {
        assert_eq!(history().catch_up(peer, zxid(3, 2), zxid(3, 2)), expected, "{peer}");
    }

    #[test]
    fn sync_mode_depends_on_end_of_learner_log() {
        let (last, diff) = (zxid(3, 2), |after| SyncMode::Diff { announced: zxid(3, 2), after });
        check(last, diff(last));
        check(zxid(1, 3), diff(zxid(1, 3)));
        check(zxid(3, 1), diff(zxid(3, 1)));
        check(zxid(3, 0), diff(zxid(3, 0)));
        check(zxid(2, 0), diff(zxid(2, 0)));
        check(zxid(3, 3), SyncMode::Trunc(last));
        check(zxid(4, 0), SyncMode::Snap);
        check(zxid(1, 6), SyncMode::Snap); // truncation would cross an epoch
        check(zxid(2, 1), SyncMode::Snap);
        check(zxid(1, 2), SyncMode::Snap); // too old
        check(Zxid::ZERO, SyncMode::Snap);
        check(Zxid(-1), SyncMode::Snap);
    }

    #[test]
    fn epoch_without_transactions_gives_diff_or_trunc() {
        let history = history();
        assert_eq!(
            history.catch_up(zxid(3, 2), zxid(4, 0), zxid(3, 2)),
            SyncMode::Diff { announced: zxid(3, 2), after: zxid(3, 2) }
        );
        assert_eq!(
            history.catch_up(zxid(4, 0), zxid(4, 0), zxid(3, 2)),
            SyncMode::Diff { announced: zxid(4, 0), after: zxid(4, 0) }
        );
        assert_eq!(history.catch_up(zxid(3, 5), zxid(4, 0), zxid(3, 2)), SyncMode::Trunc(zxid(3, 2)));
        let empty = RecentLog::new(Zxid::ZERO, 500, 1 << 20);
        assert_eq!(
            empty.catch_up(Zxid::ZERO, Zxid::ZERO, Zxid::ZERO),
            SyncMode::Diff { announced: Zxid::ZERO, after: Zxid::ZERO }
        );
        assert_eq!(empty.catch_up(Zxid::ZERO, zxid(1, 0), Zxid::ZERO), SyncMode::Snap);
    }

    #[test]
    fn learner_ahead_of_leader_is_truncated() {
        let mut history = RecentLog::new(zxid(1, 2), 500, 1 << 20);
        for counter in [3, 4] {
            history.push(EncodedTxn { zxid: zxid(1, counter), record: Bytes::new() });
        }
        assert_eq!(history.catch_up(zxid(1, 9), zxid(1, 4), zxid(1, 4)), SyncMode::Trunc(zxid(1, 4)));
    }

    #[test]
    fn unapplied_transactions_are_not_trimmed() {
        let mut history = RecentLog::new(Zxid::ZERO, 2, 1 << 20);
        for counter in 1..=5 {
            history.push(EncodedTxn { zxid: zxid(0, counter), record: Bytes::new() });
        }
        history.trim(zxid(0, 1), Zxid(i64::MAX));
        assert_eq!(history.after(Zxid::ZERO).count(), 4);
        history.truncate(zxid(0, 3));
        assert_eq!((history.last(), history.after(zxid(0, 2)).count()), (zxid(0, 3), 1));
    }

    #[test]
    fn pinned_transactions_without_bytes_count_against_limit() {
        let mut history = RecentLog::new(Zxid::ZERO, 2, 1 << 20).with_pinned_max(10 * TXN_BYTES);
        for counter in 1..=100 {
            history.push(EncodedTxn { zxid: zxid(0, counter), record: Bytes::new() });
            history.trim(zxid(0, counter), Zxid::ZERO);
        }
        assert_eq!((history.recent.len(), history.start()), (10, zxid(0, 90)));
        history.truncate(zxid(0, 95));
        assert_eq!((history.recent.len(), history.applied_bytes), (5, 5 * TXN_BYTES));
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn push_after_gap_panics() {
        history().push(EncodedTxn { zxid: zxid(3, 4), record: Bytes::new() });
    }
}
