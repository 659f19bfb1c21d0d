//! The broadcast phase at the leader: proposals without gaps, ACKs of a quorum, commits in order. The replica assigns
//! the zxids (`stamp` in `ox-replica/src/replica/request_pipeline.rs`).

use crate::quorum::Quorum;
use ox_proto::ServerId;
use ox_proto::Zxid;
use std::collections::BTreeMap;

/// Proposals and ACKs of an established leader. ACKs are cumulative: an ACK of a transaction covers all earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Broadcast {
    quorum: Quorum,
    /// A proposed configuration with the zxid of its proposal, from which on its quorum must acknowledge too.
    proposed: Option<(Zxid, Quorum)>,
    last_proposed: Zxid,
    acked: BTreeMap<ServerId, Zxid>,
    committed: Zxid,
}

impl Broadcast {
    /// Starts after a history that is durable and committed up to `last`.
    pub(crate) fn new(quorum: Quorum, last: Zxid) -> Self {
        Self { quorum, proposed: None, last_proposed: last, acked: BTreeMap::new(), committed: last }
    }

    fn next(&self) -> Zxid {
        Zxid(self.last_proposed.0 + 1)
    }

    /// Records a proposal.
    ///
    /// # Panics
    /// If `zxid` does not follow the last proposal.
    pub(crate) fn propose(&mut self, zxid: Zxid) {
        assert!(zxid.follows(self.last_proposed), "{zxid} does not follow {}", self.last_proposed);
        self.last_proposed = zxid;
    }

    /// Records all proposals up to `last`, whose order the caller has checked.
    pub(crate) fn propose_up_to(&mut self, last: Zxid) {
        self.last_proposed = last;
    }

    /// The next proposal is a reconfiguration: `quorum` has to acknowledge it too, and nothing after it is committed
    /// before [`Self::activate`].
    pub(crate) fn propose_quorum(&mut self, quorum: Quorum) {
        self.proposed = Some((self.next(), quorum));
    }

    /// The proposed reconfiguration that is not active yet.
    pub(crate) fn reconfigures_at(&self) -> Option<Zxid> {
        self.proposed.as_ref().map(|(zxid, _)| *zxid)
    }

    /// The proposed configuration becomes active.
    pub(crate) fn activate(&mut self) {
        if let Some((_, quorum)) = self.proposed.take() {
            self.set_quorum(quorum);
        }
    }

    pub(crate) fn set_quorum(&mut self, quorum: Quorum) {
        self.quorum = quorum;
        self.count();
    }

    pub(crate) fn acked(&self, server: ServerId) -> Option<Zxid> {
        self.acked.get(&server).copied()
    }

    pub(crate) fn last_proposed(&self) -> Zxid {
        self.last_proposed
    }

    /// The last committed transaction.
    pub(crate) fn committed(&self) -> Zxid {
        self.committed
    }

    /// The log of `server` is durable up to `zxid`.
    ///
    /// # Panics
    /// If `zxid` was never proposed.
    pub(crate) fn on_ack(&mut self, server: ServerId, zxid: Zxid) {
        assert!(zxid <= self.last_proposed, "ACK of {zxid} after the last proposal {}", self.last_proposed);
        let acked = self.acked.entry(server).or_insert(zxid);
        *acked = zxid.max(*acked);
        self.count();
    }

    /// `server` may have lost proposals after `zxid`. Has no effect on transactions that are committed.
    pub(crate) fn retract(&mut self, server: ServerId, zxid: Zxid) {
        if let Some(acked) = self.acked.get_mut(&server) {
            *acked = zxid.min(*acked);
        }
    }

    fn count(&mut self) {
        if let Some(reached) = self.reached() {
            self.committed = reached.max(self.committed);
        }
    }

    fn reached(&self) -> Option<Zxid> {
        let reached = self.quorum.reached(&self.acked)?;
        let Some((from, proposed)) = &self.proposed else { return Some(reached) };
        let before = Zxid(from.0 - 1);
        Some(reached.min(*from).min(proposed.reached(&self.acked).unwrap_or(before).max(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(voters: i64) -> Broadcast {
        let mut leader = Broadcast::new(Quorum::majority_of((1..=voters).map(ServerId)), Zxid::ZERO);
        for _ in 0..3 {
            leader.propose(leader.next());
        }
        leader
    }

    #[test]
    fn single_voter_commits_after_own_ack() {
        let mut leader = leader(1);
        assert_eq!(leader.committed(), Zxid(0));
        leader.on_ack(ServerId(1), Zxid(2));
        assert_eq!(leader.committed(), Zxid(2));
        leader.on_ack(ServerId(1), Zxid(1));
        assert_eq!(leader.committed(), Zxid(2));
    }

    #[test]
    fn three_voters_commit_after_two_acks() {
        let mut leader = leader(3);
        leader.on_ack(ServerId(2), Zxid(3));
        assert_eq!(leader.committed(), Zxid(0));
        leader.on_ack(ServerId(1), Zxid(1));
        assert_eq!(leader.committed(), Zxid(1));
    }

    #[test]
    fn reconfiguration_needs_acks_of_proposed_quorum() {
        let mut order = leader(3);
        order.propose_quorum(Quorum::majority_of([3, 4, 5].map(ServerId)));
        order.propose(Zxid(4));
        order.on_ack(ServerId(1), Zxid(4));
        order.on_ack(ServerId(2), Zxid(4));
        assert_eq!(order.committed(), Zxid(3));
        order.on_ack(ServerId(4), Zxid(4));
        order.on_ack(ServerId(5), Zxid(2));
        assert_eq!(order.committed(), Zxid(3));
        order.on_ack(ServerId(5), Zxid(4));
        assert_eq!(order.committed(), Zxid(4));
        order.propose(Zxid(5));
        for server in 1..=5 {
            order.on_ack(ServerId(server), Zxid(5));
        }
        assert_eq!((order.committed(), order.reconfigures_at()), (Zxid(4), Some(Zxid(4))), "not active yet");
        order.activate();
        assert_eq!((order.committed(), order.reconfigures_at()), (Zxid(5), None));
        order.propose(Zxid(6));
        order.on_ack(ServerId(4), Zxid(6));
        order.on_ack(ServerId(5), Zxid(6));
        assert_eq!(order.committed(), Zxid(6));
    }

    #[test]
    fn exhausted_counter_continues_in_next_epoch() {
        let mut leader = Broadcast::new(Quorum::majority_of([ServerId(1)]), Zxid::new(0, u32::MAX));
        assert_eq!(leader.next(), Zxid::new(1, 0));
        leader.propose(leader.next());
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn proposal_after_gap_panics() {
        leader(1).propose(Zxid(5));
    }
}
