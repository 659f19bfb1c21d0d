//! Votes and notifications of the leader election.

use crate::quorum::Quorums;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::quorum::notification::{self, PeerState};
use std::fmt;

/// A candidate with its current epoch and its last transaction (`Vote`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The candidate. [`Self::abstain`] uses an id that no server has.
    pub leader: ServerId,
    pub zxid: Zxid,
    /// The candidate's current epoch; -1 if it has no history that it may vote with.
    pub epoch: i64,
}

/// Why a voter without data abstains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abstention {
    /// Its disk has no history.
    Empty,
    /// The files on its disk are damaged, or a copy.
    Quarantined,
}

impl fmt::Display for Abstention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::Quarantined => "quarantined",
        })
    }
}

impl Vote {
    /// The zxid in the vote of an empty or quarantined server.
    pub(crate) const UNKNOWN: Zxid = Zxid(-1);

    /// The vote of a server without a history that it may vote with. No server counts it; empty members recognise by the
    /// epoch that a history exists.
    pub(crate) fn without_data(leader: ServerId, abstention: Abstention) -> Self {
        let epoch = if abstention == Abstention::Quarantined { 0 } else { -1 };
        Self { leader, zxid: Self::UNKNOWN, epoch }
    }

    /// Why its sender abstains, if it lacks data.
    pub(crate) fn abstention(&self) -> Option<Abstention> {
        let reason = if self.epoch < 0 { Abstention::Empty } else { Abstention::Quarantined };
        (self.zxid == Self::UNKNOWN).then_some(reason)
    }

    /// The vote of a server that must not be elected.
    pub fn abstain(zxid: Zxid, epoch: i64) -> Self {
        Self { leader: ServerId(i64::MIN), zxid, epoch }
    }

    /// A higher epoch wins, then a higher zxid, then a voter of the committed configuration, then a higher server id.
    /// The order is total.
    pub fn beats(&self, other: &Self, quorums: &Quorums) -> bool {
        quorums.weight(self.leader) != 0 && other.rank(quorums) < self.rank(quorums)
    }

    /// With equal history, a voter of the committed configuration wins over one that is only proposed to be a voter:
    /// other servers may not know that configuration.
    fn rank(&self, quorums: &Quorums) -> (i64, Zxid, bool, ServerId) {
        (self.epoch, self.zxid, quorums.committed.is_voter(self.leader), self.leader)
    }
}

/// A notification on the election port (`FastLeaderElection.Notification`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteNotification {
    pub state: PeerState,
    /// Of a LOOKING server, its current vote; otherwise the vote that elected its leader.
    pub vote: Vote,
    pub round: i64,
    /// Whether the sender reports the version of the message format. Servers that do not report it do not send their
    /// epoch.
    pub has_version: bool,
}

impl From<notification::Notification> for VoteNotification {
    fn from(from: notification::Notification) -> Self {
        let notification::Notification { state, leader, zxid, round, peer_epoch } = from;
        Self { state, vote: Vote { leader, zxid, epoch: peer_epoch }, round, has_version: true }
    }
}

impl VoteNotification {
    /// The notification in its wire format.
    pub fn wire(&self) -> notification::Notification {
        let Self { state, vote: Vote { leader, zxid, epoch }, round, .. } = *self;
        notification::Notification { state, leader, zxid, round, peer_epoch: epoch }
    }

    /// Whether two servers have the same vote. Servers that have a leader may have elected it in different rounds and
    /// with different zxids.
    pub fn agrees_with(&self, other: &Self) -> bool {
        if self.state == PeerState::Looking || other.state == PeerState::Looking {
            return self.vote == other.vote && self.round == other.round;
        }
        let same_epoch = self.has_version != other.has_version || self.vote.epoch == other.vote.epoch;
        self.vote.leader == other.vote.leader && same_epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::Quorum;

    fn vote(epoch: i64, zxid: i64, leader: i64) -> Vote {
        Vote { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
    }

    #[test]
    fn vote_order_is_total() {
        let quorums = Quorums::of(Quorum::majority_of((1..=5).map(ServerId)));
        let sorted = [vote(-1, 9, 5), vote(0, 7, 5), vote(1, 5, 5), vote(1, 6, 1), vote(1, 6, 2), vote(2, 0, 1)];
        for (a, low) in sorted.iter().enumerate() {
            for (b, high) in sorted.iter().enumerate() {
                assert_eq!(high.beats(low, &quorums), a < b, "{low:?} {high:?}");
            }
        }
        assert!(!vote(9, 9, 9).beats(&sorted[0], &quorums), "a server without weight is never elected");
    }

    #[test]
    fn vote_tells_why_its_sender_lacks_data() {
        for reason in [Abstention::Empty, Abstention::Quarantined] {
            assert_eq!(Vote::without_data(ServerId(1), reason).abstention(), Some(reason));
        }
        for other in [vote(0, 0, 1), Vote::abstain(Zxid(7), 1), Vote::abstain(Zxid(i64::MIN), i64::MIN)] {
            assert_eq!(other.abstention(), None, "{other:?}");
        }
    }

    #[test]
    fn established_servers_agree_by_leader_and_epoch() {
        let note = |state, vote, round, has_version| VoteNotification { state, vote, round, has_version };
        let (looking, following) = (PeerState::Looking, PeerState::Following);
        let check = |a: &VoteNotification, b: &VoteNotification, expected| {
            assert_eq!(a.agrees_with(b), expected, "{a:?} {b:?}");
            assert_eq!(b.agrees_with(a), expected);
        };
        let base = note(following, vote(3, 7, 1), 4, true);
        check(&base, &note(following, vote(3, 9, 1), 8, true), true);
        check(&base, &note(following, vote(2, 7, 1), 4, true), false);
        check(&base, &note(following, vote(2, 7, 1), 4, false), true);
        check(&base, &note(following, vote(3, 7, 2), 4, true), false);
        check(&base, &note(looking, vote(3, 7, 1), 4, true), true);
        check(&base, &note(looking, vote(3, 7, 1), 5, true), false);
        check(&base, &note(looking, vote(3, 8, 1), 4, true), false);
    }
}
