//! How long transactions take on their way between servers, by the clock of the leader that made them.

use crate::metrics::Metrics;
use ox_proto::Reader;
use ox_proto::Zxid;
use ox_proto::txn::TxnHeader;
use ox_zab::{EncodedTxn, ZxidRange};
use std::collections::VecDeque;

/// Transactions on their way. More than this many are not followed; there are never as many unless something is stuck.
const FOLLOWED_MAX: usize = 64 << 10;

/// Proposals that are picked, to have the acknowledgement of each voter timed. Who is behind by more is not timed.
const PICKED_MAX: usize = 1_024;

/// Some, with the time of each.
#[derive(Default)]
struct OnTheirWay(VecDeque<(Zxid, i64)>);

impl OnTheirWay {
    fn has(&self, zxid: Zxid) -> bool {
        self.0.back().is_some_and(|(last, _)| zxid <= *last)
    }

    fn add(&mut self, zxid: Zxid, time_ms: i64) {
        if self.0.len() < FOLLOWED_MAX && !self.has(zxid) {
            self.0.push_back((zxid, time_ms));
        }
    }

    /// Takes those up to one, and tells how many are how old.
    fn reach(&mut self, zxid: Zxid, now_ms: i64, note: impl Fn(i64, u64)) {
        let (mut made_ms, mut count) = (0, 0);
        while let Some((_, time_ms)) = self.0.pop_front_if(|(first, _)| *first <= zxid) {
            if time_ms != made_ms {
                note(now_ms.saturating_sub(made_ms), count);
                (made_ms, count) = (time_ms, 0);
            }
            count += 1;
        }
        note(now_ms.saturating_sub(made_ms), count);
    }
}

/// What a member follows.
#[derive(Default)]
pub(super) struct Latency {
    /// Proposed, and not agreed on.
    proposed: OnTheirWay,
    /// Heard of, and not acknowledged.
    unacked: OnTheirWay,
    /// Heard of, and not known to be agreed on.
    uncommitted: OnTheirWay,
    /// The newest that were picked, agreed on or not.
    picked: VecDeque<(Zxid, i64)>,
    /// One in so many; 0 is none.
    pick_every: u32,
    /// What the own disk has.
    durable: Zxid,
}

impl Latency {
    pub(super) fn new(pick_every: u32) -> Self {
        Self { pick_every, ..Self::default() }
    }

    /// Begins anew, with another leader.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.pick_every);
    }

    /// A leader proposes, to one follower after the other.
    pub(super) fn proposes(&mut self, txn: &EncodedTxn) {
        if !self.proposed.has(txn.zxid)
            && let Some(time_ms) = made_at_ms(txn)
        {
            self.proposed.add(txn.zxid, time_ms);
            if txn.zxid.0.checked_rem(self.pick_every.into()) == Some(0) {
                self.picked.truncate(PICKED_MAX - 1);
                self.picked.push_front((txn.zxid, time_ms));
            }
        }
    }

    /// A leader hears that these are durable somewhere: tells how old those are that were picked.
    pub(super) fn are_acked(&self, run: ZxidRange, wall_ms: i64) -> impl Iterator<Item = i64> {
        let newest_first = self.picked.iter().skip_while(move |(zxid, _)| run.last < *zxid);
        let acked = newest_first.take_while(move |(zxid, _)| run.first <= *zxid);
        acked.map(move |(_, time_ms)| wall_ms.saturating_sub(*time_ms))
    }

    /// A leader's own disk has everything up to here: tells the same.
    pub(super) fn are_durable(&mut self, zxid: Zxid, wall_ms: i64) -> impl Iterator<Item = i64> {
        let first = Zxid(self.durable.0.saturating_add(1));
        self.durable = self.durable.max(zxid);
        self.are_acked(ZxidRange { first, last: zxid }, wall_ms)
    }

    /// A leader tells that everything up to here is agreed on.
    pub(super) fn tells_commit(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.proposed.reach(zxid, wall_ms, |ms, count| metrics.quorum_ack_latency.note(ms, count));
    }

    /// A follower hears a proposal.
    pub(super) fn hears(&mut self, txn: &EncodedTxn, wall_ms: i64, metrics: &Metrics) {
        if let Some(time_ms) = made_at_ms(txn) {
            metrics.proposal_latency.note(wall_ms.saturating_sub(time_ms), 1);
            self.unacked.add(txn.zxid, time_ms);
            self.uncommitted.add(txn.zxid, time_ms);
        }
    }

    /// A follower acknowledges.
    pub(super) fn acks(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.unacked.reach(zxid, wall_ms, |ms, count| metrics.proposal_ack_creation_latency.note(ms, count));
    }

    /// A follower hears that everything up to here is agreed on.
    pub(super) fn hears_commit(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.uncommitted.reach(zxid, wall_ms, |ms, count| metrics.commit_propagation_latency.note(ms, count));
    }

    /// An observer hears what is agreed on.
    pub(super) fn is_informed(&self, txn: &EncodedTxn, wall_ms: i64, metrics: &Metrics) {
        if let Some(time_ms) = made_at_ms(txn) {
            metrics.commit_propagation_latency.note(wall_ms.saturating_sub(time_ms), 1);
        }
    }
}

fn made_at_ms(txn: &EncodedTxn) -> Option<i64> {
    Reader::new(&txn.record).get::<TxnHeader>().ok().map(|header| header.time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::{Jute, SessionId};

    fn txn(counter: u32, time_ms: i64) -> EncodedTxn {
        let (zxid, mut record) = (Zxid::new(1, counter), Vec::new());
        TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms, kind: 1 }.put(&mut record);
        EncodedTxn { zxid, record: record.into() }
    }

    #[test]
    fn some_proposals_have_their_acknowledgements_timed() {
        let mut latency = Latency::new(2);
        (1..=5).for_each(|counter| latency.proposes(&txn(counter, 100 + i64::from(counter))));
        let run = |first, last| ZxidRange { first: Zxid::new(1, first), last: Zxid::new(1, last) };
        let acked = |latency: &Latency, run| latency.are_acked(run, 200).collect::<Vec<_>>();
        assert_eq!(acked(&latency, run(1, 4)), [96, 98], "by one voter");
        assert_eq!(acked(&latency, run(2, 2)), [98], "by another");
        assert_eq!(acked(&latency, run(3, 3)), [0; 0]);
        assert_eq!(latency.are_durable(Zxid::new(1, 3), 200).collect::<Vec<_>>(), [98], "by the leader itself");
        assert_eq!(latency.are_durable(Zxid::new(1, 5), 200).collect::<Vec<_>>(), [96]);
        (1..=3_000).for_each(|counter| latency.proposes(&txn(counter, 0)));
        assert_eq!(acked(&latency, run(1, 3_000)).len(), PICKED_MAX, "nobody is waited for without end");
        latency.forget();
        assert_eq!(acked(&latency, run(1, 3_000)), [0; 0]);
        assert_eq!(acked(&Latency::new(0), run(1, 3_000)), [0; 0]);
    }

    #[test]
    fn each_transaction_counts_once() {
        let (mut latency, metrics) = (Latency::default(), Metrics::default());
        for txn in [txn(1, 100), txn(1, 100), txn(2, 110)] {
            latency.proposes(&txn); // to two followers, the second to one
        }
        latency.tells_commit(Zxid::new(1, 2), 130, &metrics);
        latency.tells_commit(Zxid::new(1, 2), 131, &metrics);
        latency.hears(&txn(1, 100), 105, &metrics);
        latency.hears(&txn(2, 110), 115, &metrics);
        latency.hears_commit(Zxid::new(1, 1), 120, &metrics);
        latency.acks(Zxid::new(1, 2), 140, &metrics);
        for (percentiles, count, sum) in [
            (&metrics.quorum_ack_latency, 2, 50),
            (&metrics.proposal_latency, 2, 10),
            (&metrics.commit_propagation_latency, 1, 20),
            (&metrics.proposal_ack_creation_latency, 2, 70),
        ] {
            let crate::metrics::Reading::Percentiles(tally, _) = percentiles.reading() else {
                panic!("no percentiles")
            };
            assert_eq!((tally.count, tally.sum), (count, sum));
        }
    }
}
