//! Votes: whom a server wants to lead, and what it knows when it says so.

use crate::quorum::Quorums;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::quorum::notification::{self, PeerState};

/// A candidate with the end of its history: the epoch of the last leader it followed, and its last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The candidate.
    pub leader: ServerId,
    /// The candidate's last durable transaction.
    pub zxid: Zxid,
    /// The epoch whose history the candidate holds; -1 when it holds none it can vouch for.
    pub epoch: i64,
}

impl Vote {
    /// The vote of a server that must not be elected.
    pub fn nobody(zxid: Zxid, epoch: i64) -> Self {
        Self { leader: ServerId(i64::MIN), zxid, epoch }
    }

    /// Whether the candidate is the better one: longer history first, then the higher number. The order is total.
    pub fn beats(&self, other: &Self, quorums: &Quorums) -> bool {
        quorums.weight(self.leader) != 0 && other.rank(quorums) < self.rank(quorums)
    }

    /// With the same history, who is only to become a voter stands back: not everybody may know of it.
    fn rank(&self, quorums: &Quorums) -> (i64, Zxid, bool, ServerId) {
        (self.epoch, self.zxid, quorums.committed.is_voter(self.leader), self.leader)
    }
}

/// What servers tell each other on the election port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What the sender is doing.
    pub state: PeerState,
    /// Its vote; of an established server, the one it was established with.
    pub vote: Vote,
    /// The election it takes part in, or was established by.
    pub round: i64,
    /// Whether it comes from a server that says its format's version; the others know no epochs.
    pub has_version: bool,
}

impl From<notification::Notification> for Notification {
    fn from(from: notification::Notification) -> Self {
        let notification::Notification { state, leader, zxid, round, peer_epoch } = from;
        Self { state, vote: Vote { leader, zxid, epoch: peer_epoch }, round, has_version: true }
    }
}

impl Notification {
    /// As it is sent.
    pub fn wire(&self) -> notification::Notification {
        let Self { state, vote: Vote { leader, zxid, epoch }, round, .. } = *self;
        notification::Notification { state, leader, zxid, round, peer_epoch: epoch }
    }

    /// Whether two servers mean the same. Those that have a leader already may have been elected by other rounds, and
    /// hold other zxids for it.
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
    fn the_order_of_votes_is_total() {
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
    fn established_servers_agree_by_leader_and_epoch() {
        let note = |state, vote, round, has_version| Notification { state, vote, round, has_version };
        let (looking, following) = (PeerState::Looking, PeerState::Following);
        let check = |a: &Notification, b: &Notification, expected| {
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
