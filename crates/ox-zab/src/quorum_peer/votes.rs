//! The vote of this member in an election.

use super::{Eligibility, QuorumPeer};
use crate::epoch::Epoch;
use crate::message::LearnerKind;
use crate::vote::{Abstention, Vote};
use ox_proto::Zxid;

impl QuorumPeer {
    /// Whether another voter should lead: the disk is low, or this server is a voter only in a proposed configuration.
    /// If no quorum exists without it, a low disk does not matter.
    pub(super) fn should_abstain(&self) -> bool {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let is_disk_low = self.disk_pressure.is_low() && quorums.are_reached(|server| server != me);
        is_disk_low || !quorums.committed.is_voter(me)
    }

    /// The vote of a voter that abstains, for the case that no other voter has its history.
    pub(super) fn fallback_vote(&self) -> Option<Vote> {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let may_stand = self.eligibility == Eligibility::HasHistory && quorums.is_voter(me) && self.should_abstain();
        may_stand.then_some(Vote { leader: me, zxid: self.durable, epoch: self.epochs.current.0 })
    }

    pub(super) fn own_vote(&self) -> Vote {
        let (zxid, Epoch(epoch)) = (self.durable, self.epochs.current);
        let server = self.settings.server;
        if self.kind == LearnerKind::Observer {
            Vote::abstain(Zxid(i64::MIN), i64::MIN)
        } else if self.eligibility != Eligibility::HasHistory {
            let has_files = self.has_quarantined_files();
            Vote::without_data(server, if has_files { Abstention::Quarantined } else { Abstention::Empty })
        } else if !self.should_abstain() {
            Vote { leader: server, zxid, epoch }
        } else {
            let fallback = self.fallback_vote().filter(|_| self.was_rejected);
            fallback.unwrap_or(Vote::abstain(zxid, epoch))
        }
    }
}
