//! What a member reports about itself.

use super::{Eligibility, QuorumPeer, Role};
use crate::epoch::Epochs;
use crate::leader::Leader;
use crate::learner::Learner;
use crate::message::LearnerKind;
use crate::observer_master::ObserverMaster;
use crate::vote::Abstention;
use ox_proto::quorum::notification::PeerState;
use ox_proto::{ServerId, Zxid};

/// What a member reports about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub state: PeerState,
    /// Follower or observer, when this server does not lead.
    pub kind: LearnerKind,
    /// The leader that this member has elected, connects to or follows.
    pub leader: Option<ServerId>,
    pub epochs: Epochs,
    pub eligibility: Eligibility,
    /// The disk has files of a history that is in doubt.
    pub has_quarantined_files: bool,
    /// The first transaction of the recent log; none if that is empty.
    pub first_recent: Option<Zxid>,
    /// The last transaction of the log.
    pub last_logged: Zxid,
    /// Whether it was created by [`QuorumPeer::standalone`].
    pub is_standalone: bool,
}

/// The votes that an election lacks, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingVotes {
    /// Why this voter abstains, if it lacks data.
    pub own: Option<Abstention>,
    /// The other voters that take part, and abstain because they lack data.
    pub abstaining: Vec<(ServerId, Abstention)>,
    /// The other voters without an election connection.
    pub unreachable: Vec<ServerId>,
}

/// A member's role, for reading.
#[derive(Clone, Copy, Debug)]
pub enum RoleView<'a> {
    None,
    Leading(&'a Leader),
    /// The observer master serves observers while this member is a follower.
    Learning(&'a Learner, Option<&'a ObserverMaster>),
}

impl<'a> RoleView<'a> {
    pub fn leader(self) -> Option<&'a Leader> {
        if let Self::Leading(leader) = self { Some(leader) } else { None }
    }

    pub fn learner(self) -> Option<&'a Learner> {
        if let Self::Learning(learner, _) = self { Some(learner) } else { None }
    }

    pub fn observer_master(self) -> Option<&'a ObserverMaster> {
        if let Self::Learning(_, master) = self { master } else { None }
    }
}

impl QuorumPeer {
    /// What this member reports about itself.
    pub fn status(&self) -> PeerStatus {
        PeerStatus {
            state: self.state(),
            kind: self.kind,
            leader: self.leader_id(),
            epochs: self.epochs,
            eligibility: self.eligibility,
            has_quarantined_files: self.has_quarantined_files(),
            first_recent: self.history.first(),
            last_logged: self.history.last(),
            is_standalone: self.role().leader().is_some_and(Leader::is_standalone),
        }
    }

    /// The votes that an election lacks.
    pub fn missing_votes(&self) -> MissingVotes {
        let others = self.configs().committed().voters().filter(|voter| *voter != self.settings.server);
        let quorums = self.settings.configs.quorums();
        MissingVotes {
            own: self.own_vote().abstention(),
            abstaining: self.election.abstaining().filter(|(server, _)| quorums.is_voter(*server)).collect(),
            unreachable: others.filter(|voter| !self.election.is_connected(*voter)).collect(),
        }
    }

    /// The role that this member has been elected to, if any.
    pub fn role(&self) -> RoleView<'_> {
        match &self.role {
            Role::Leading(leader) => RoleView::Leading(leader),
            Role::Learning(learner) => RoleView::Learning(learner, self.observer_master.as_deref()),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => RoleView::None,
        }
    }

    pub(super) fn state(&self) -> PeerState {
        match self.role {
            Role::Looking | Role::Leaving { .. } => PeerState::Looking,
            Role::Leading(_) | Role::Dialing { .. } | Role::Learning(_) => self.election.state(),
        }
    }

    pub(super) fn leader_id(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking | Role::Leaving { .. } => None,
            Role::Leading(_) => Some(self.settings.server),
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(_) => Some(self.election.vote().leader),
        }
    }

    pub(super) fn has_quarantined_files(&self) -> bool {
        self.has_quarantined_files && self.eligibility == Eligibility::Quarantined
    }
}
