//! The broadcast phase as its leader sees it: number, wait for a quorum's disks, commit in order.

use crate::quorum::Quorum;
use ox_proto::{ServerId, Zxid};
use std::collections::BTreeMap;

/// An established leader. Acks are cumulative: a server that has made a transaction durable has made everything
/// before it durable too.
#[derive(Clone, Debug)]
pub struct Leader {
    quorum: Quorum,
    last_proposed: Zxid,
    acked: BTreeMap<ServerId, Zxid>,
    committed: Zxid,
}

impl Leader {
    /// A leader whose history ends, durable and committed, at `last`.
    pub fn new(quorum: Quorum, last: Zxid) -> Self {
        Self { quorum, last_proposed: last, acked: BTreeMap::new(), committed: last }
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
        let reached = self.quorum.reached(self.acked.iter().map(|(server, zxid)| (*server, *zxid)));
        self.committed = reached.map_or(self.committed, |reached| reached.max(self.committed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(voters: i64) -> Leader {
        let mut leader = Leader::new(Quorum::majority_of((1..=voters).map(ServerId)), Zxid::ZERO);
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
    fn a_used_up_counter_runs_over_into_the_epoch() {
        let mut leader = Leader::new(Quorum::majority_of([ServerId(1)]), Zxid::new(0, u32::MAX));
        assert_eq!(leader.next(), Zxid::new(1, 0));
        leader.propose(leader.next());
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn holes_are_impossible() {
        leader(1).propose(Zxid(5));
    }
}
