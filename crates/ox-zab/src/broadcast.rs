//! The broadcast phase as its leader sees it: number, wait for a quorum's disks, commit in order.

use crate::quorum::Quorum;
use ox_proto::ServerId;
use ox_proto::Zxid;
use std::collections::BTreeMap;

/// The order that an established leader gives. Acks are cumulative: a server that has made a transaction durable has
/// made everything before it durable too, and says so in order.
#[derive(Clone, Debug)]
pub struct Broadcast {
    quorum: Quorum,
    /// A configuration in the making, and the proposal it comes with: from there on it must agree too.
    proposed: Option<(Zxid, Quorum)>,
    last_proposed: Zxid,
    acked: BTreeMap<ServerId, Zxid>,
    committed: Zxid,
}

impl Broadcast {
    /// An order whose history ends, durable and committed, at `last`.
    pub fn new(quorum: Quorum, last: Zxid) -> Self {
        Self { quorum, proposed: None, last_proposed: last, acked: BTreeMap::new(), committed: last }
    }

    /// The zxid of the next proposal.
    pub fn next(&self) -> Zxid {
        // Compat: when the counter is used up, a single voter goes on in the next epoch by itself, from 0.
        Zxid(self.last_proposed.0 + 1)
    }

    /// Takes that zxid for a proposal.
    ///
    /// # Panics
    /// When `zxid` is not the next one: the order would have a hole.
    pub fn propose(&mut self, zxid: Zxid) {
        assert!(zxid.follows(self.last_proposed), "{zxid} does not follow {}", self.last_proposed);
        self.last_proposed = zxid;
    }

    /// The next proposal brings a configuration, which has to agree to it. Nothing behind it is agreed on before the
    /// configuration is in force.
    pub fn propose_quorum(&mut self, quorum: Quorum) {
        self.proposed = Some((self.next(), quorum));
    }

    /// The proposal that brings a configuration, while that is not in force.
    pub fn reconfigures_at(&self) -> Option<Zxid> {
        self.proposed.as_ref().map(|(zxid, _)| *zxid)
    }

    /// The proposed configuration is in force.
    pub fn activate(&mut self) {
        if let Some((_, quorum)) = self.proposed.take() {
            self.set_quorum(quorum);
        }
    }

    /// Another quorum decides from now on.
    pub fn set_quorum(&mut self, quorum: Quorum) {
        self.quorum = quorum;
        self.count();
    }

    /// How far a server's disk is known to be.
    pub fn acked(&self, server: ServerId) -> Option<Zxid> {
        self.acked.get(&server).copied()
    }

    /// The last proposal.
    pub fn last_proposed(&self) -> Zxid {
        self.last_proposed
    }

    /// Everything up to here is agreed on.
    pub fn committed(&self) -> Zxid {
        self.committed
    }

    /// A server's disk holds everything up to `zxid`.
    ///
    /// # Panics
    /// When `zxid` was never proposed: an ack must not run ahead of the history.
    pub fn on_ack(&mut self, server: ServerId, zxid: Zxid) {
        assert!(zxid <= self.last_proposed, "{zxid} acked but {} is the last proposal", self.last_proposed);
        let acked = self.acked.entry(server).or_insert(zxid);
        *acked = zxid.max(*acked);
        self.count();
    }

    /// Of what is not agreed on, a server's disk may hold nothing behind `zxid` any more.
    pub fn retract(&mut self, server: ServerId, zxid: Zxid) {
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
    fn one_voter_commits_what_its_disk_holds() {
        let mut leader = leader(1);
        assert_eq!(leader.committed(), Zxid(0));
        leader.on_ack(ServerId(1), Zxid(2));
        assert_eq!(leader.committed(), Zxid(2));
        leader.on_ack(ServerId(1), Zxid(1));
        assert_eq!(leader.committed(), Zxid(2));
    }

    #[test]
    fn three_voters_need_two_disks() {
        let mut leader = leader(3);
        leader.on_ack(ServerId(2), Zxid(3));
        assert_eq!(leader.committed(), Zxid(0));
        leader.on_ack(ServerId(1), Zxid(1));
        assert_eq!(leader.committed(), Zxid(1));
    }

    #[test]
    fn a_proposed_configuration_must_agree_from_its_proposal_on() {
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
        assert_eq!((order.committed(), order.reconfigures_at()), (Zxid(4), Some(Zxid(4))), "not in force yet");
        order.activate();
        assert_eq!((order.committed(), order.reconfigures_at()), (Zxid(5), None));
        order.propose(Zxid(6));
        order.on_ack(ServerId(4), Zxid(6));
        order.on_ack(ServerId(5), Zxid(6));
        assert_eq!(order.committed(), Zxid(6));
    }

    #[test]
    fn a_used_up_counter_runs_over_into_the_epoch() {
        let mut leader = Broadcast::new(Quorum::majority_of([ServerId(1)]), Zxid::new(0, u32::MAX));
        assert_eq!(leader.next(), Zxid::new(1, 0));
        leader.propose(leader.next());
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn holes_are_impossible() {
        leader(1).propose(Zxid(5));
    }
}
