//! Latency of transactions between servers, relative to the leader's timestamp in each transaction.

use crate::status::metrics::Metrics;
use ox_proto::Reader;
use ox_proto::Zxid;
use ox_proto::txn::TxnHeader;
use ox_zab::{EncodedTxn, ZxidRange};
use std::collections::VecDeque;

/// Transactions tracked at most. That many are outstanding only if something is stuck.
const TRACKED_MAX: usize = 64 << 10;

/// Proposals sampled to measure the acknowledgement of each voter. Voters that are further behind are not measured.
const SAMPLES_MAX: usize = 1_024;

/// Outstanding transactions with their timestamps.
#[derive(Default)]
struct Outstanding(VecDeque<(Zxid, i64)>);

impl Outstanding {
    fn has(&self, zxid: Zxid) -> bool {
        self.0.back().is_some_and(|(last, _)| zxid <= *last)
    }

    fn add(&mut self, zxid: Zxid, time_ms: i64) {
        if self.0.len() < TRACKED_MAX && !self.has(zxid) {
            self.0.push_back((zxid, time_ms));
        }
    }

    /// Removes all transactions up to `zxid`, and calls `note` with ages and counts.
    fn complete(&mut self, zxid: Zxid, now_ms: i64, note: impl Fn(i64, u64)) {
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

/// The transactions that a member tracks.
#[derive(Default)]
pub(super) struct Latency {
    /// Proposed by this leader, not committed.
    proposed: Outstanding,
    /// Received by this follower, not acknowledged.
    unacked: Outstanding,
    /// Received by this follower, not known to be committed.
    uncommitted: Outstanding,
    /// The newest samples, committed or not.
    samples: VecDeque<(Zxid, i64)>,
    /// One transaction of this many is sampled; 0 is none.
    sample_every: u32,
    /// The last zxid on this server's disk.
    durable: Zxid,
}

impl Latency {
    pub(super) fn new(sample_every: u32) -> Self {
        Self { sample_every, ..Self::default() }
    }

    /// Starts over with a new leader.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.sample_every);
    }

    /// The leader sends a proposal, to one follower after the other.
    pub(super) fn on_proposal_sent(&mut self, txn: &EncodedTxn) {
        if !self.proposed.has(txn.zxid)
            && let Some(time_ms) = txn_time_ms(txn)
        {
            self.proposed.add(txn.zxid, time_ms);
            if txn.zxid.0.checked_rem(self.sample_every.into()) == Some(0) {
                self.samples.truncate(SAMPLES_MAX - 1);
                self.samples.push_front((txn.zxid, time_ms));
            }
        }
    }

    /// Ages of the samples in a run that a follower has acknowledged.
    pub(super) fn acked_ages(&self, run: ZxidRange, wall_ms: i64) -> impl Iterator<Item = i64> {
        let newest_first = self.samples.iter().skip_while(move |(zxid, _)| run.last < *zxid);
        let acked = newest_first.take_while(move |(zxid, _)| run.first <= *zxid);
        acked.map(move |(_, time_ms)| wall_ms.saturating_sub(*time_ms))
    }

    /// Ages of the samples that have become durable on the leader's own disk.
    pub(super) fn durable_ages(&mut self, zxid: Zxid, wall_ms: i64) -> impl Iterator<Item = i64> {
        let first = Zxid(self.durable.0.saturating_add(1));
        self.durable = self.durable.max(zxid);
        self.acked_ages(ZxidRange { first, last: zxid }, wall_ms)
    }

    /// The leader sends a commit.
    pub(super) fn on_commit_sent(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.proposed.complete(zxid, wall_ms, |ms, count| metrics.quorum_ack_latency.note(ms, count));
    }

    /// A follower receives a proposal.
    pub(super) fn on_proposal_received(&mut self, txn: &EncodedTxn, wall_ms: i64, metrics: &Metrics) {
        if let Some(time_ms) = txn_time_ms(txn) {
            metrics.proposal_latency.note(wall_ms.saturating_sub(time_ms), 1);
            self.unacked.add(txn.zxid, time_ms);
            self.uncommitted.add(txn.zxid, time_ms);
        }
    }

    /// A follower sends an acknowledgement.
    pub(super) fn on_ack_sent(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.unacked.complete(zxid, wall_ms, |ms, count| metrics.proposal_ack_creation_latency.note(ms, count));
    }

    /// A follower receives a commit.
    pub(super) fn on_commit_received(&mut self, zxid: Zxid, wall_ms: i64, metrics: &Metrics) {
        self.uncommitted.complete(zxid, wall_ms, |ms, count| metrics.commit_propagation_latency.note(ms, count));
    }

    /// An observer receives a committed transaction.
    pub(super) fn on_inform_received(&self, txn: &EncodedTxn, wall_ms: i64, metrics: &Metrics) {
        if let Some(time_ms) = txn_time_ms(txn) {
            metrics.commit_propagation_latency.note(wall_ms.saturating_sub(time_ms), 1);
        }
    }
}

fn txn_time_ms(txn: &EncodedTxn) -> Option<i64> {
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
    fn acknowledgements_of_sampled_proposals_are_timed() {
        let mut latency = Latency::new(2);
        (1..=5).for_each(|counter| latency.on_proposal_sent(&txn(counter, 100 + i64::from(counter))));
        let run = |first, last| ZxidRange { first: Zxid::new(1, first), last: Zxid::new(1, last) };
        let acked = |latency: &Latency, run| latency.acked_ages(run, 200).collect::<Vec<_>>();
        assert_eq!(acked(&latency, run(1, 4)), [96, 98], "by one voter");
        assert_eq!(acked(&latency, run(2, 2)), [98], "by another");
        assert_eq!(acked(&latency, run(3, 3)), [0; 0]);
        assert_eq!(latency.durable_ages(Zxid::new(1, 3), 200).collect::<Vec<_>>(), [98], "by the leader itself");
        assert_eq!(latency.durable_ages(Zxid::new(1, 5), 200).collect::<Vec<_>>(), [96]);
        (1..=3_000).for_each(|counter| latency.on_proposal_sent(&txn(counter, 0)));
        assert_eq!(acked(&latency, run(1, 3_000)).len(), SAMPLES_MAX, "the samples are bounded");
        latency.reset();
        assert_eq!(acked(&latency, run(1, 3_000)), [0; 0]);
        assert_eq!(acked(&Latency::new(0), run(1, 3_000)), [0; 0]);
    }

    #[test]
    fn each_transaction_counts_once() {
        let (mut latency, metrics) = (Latency::default(), Metrics::default());
        for txn in [txn(1, 100), txn(1, 100), txn(2, 110)] {
            latency.on_proposal_sent(&txn); // to two followers, the second transaction to one
        }
        latency.on_commit_sent(Zxid::new(1, 2), 130, &metrics);
        latency.on_commit_sent(Zxid::new(1, 2), 131, &metrics);
        latency.on_proposal_received(&txn(1, 100), 105, &metrics);
        latency.on_proposal_received(&txn(2, 110), 115, &metrics);
        latency.on_commit_received(Zxid::new(1, 1), 120, &metrics);
        latency.on_ack_sent(Zxid::new(1, 2), 140, &metrics);
        for (percentiles, count, sum) in [
            (&metrics.quorum_ack_latency, 2, 50),
            (&metrics.proposal_latency, 2, 10),
            (&metrics.commit_propagation_latency, 1, 20),
            (&metrics.proposal_ack_creation_latency, 2, 70),
        ] {
            let crate::status::metrics::Reading::Percentiles(totals, _) = percentiles.reading() else {
                panic!("no percentiles")
            };
            assert_eq!((totals.count, totals.sum), (count, sum));
        }
    }
}
