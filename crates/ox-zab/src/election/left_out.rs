//! Left-out candidates: elected servers that sent no LEADERINFO. Elections treat them as down.
//!
//! A server that sends but does not receive keeps voting for itself and may have the longest log, so without this the
//! others would elect it in every round. Leaving a candidate out has the same effect as losing its votes, which the
//! protocol has to tolerate anyway: the server that is elected instead needs ACKEPOCH of a quorum, and any quorum
//! includes a server with every committed transaction.

use super::{Election, Outgoing};
use crate::quorum::Quorums;
use crate::vote::{Vote, VoteNotification};
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeMap;

/// How long a candidate is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    /// End of the absence, over several elections.
    pub(crate) until_ms: i64,
    /// Limit within one election. Voters may disagree about who is left out, so that no candidate gets a quorum.
    pub(crate) election_ms: i64,
}

impl Absence {
    fn end_ms(&self, began_ms: i64) -> i64 {
        self.until_ms.min(began_ms + self.election_ms)
    }
}

#[derive(Debug, Default)]
pub(super) struct LeftOut(BTreeMap<ServerId, Absence>);

impl LeftOut {
    /// When the next candidate is readmitted in an election that began at `began_ms`.
    pub(super) fn next_end_ms(&self, began_ms: i64) -> Option<i64> {
        self.0.values().map(|absence| absence.end_ms(began_ms)).min()
    }

    /// Readmits candidates whose absence is over. Returns whether there were any.
    pub(super) fn end(&mut self, now_ms: i64, began_ms: i64) -> bool {
        let before = self.0.len();
        self.0.retain(|_, absence| now_ms < absence.end_ms(began_ms));
        self.0.len() < before
    }

    pub(super) fn remove(&mut self, server: ServerId) {
        self.0.remove(&server);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Election {
    /// Leaves out a candidate that was elected and sent no LEADERINFO, until the absence ends or it opens a new
    /// connection. Without effect while the other voters are too few.
    pub(crate) fn leave_out(&mut self, candidate: ServerId, absence: Absence) {
        self.left_out.0.insert(candidate, absence);
    }

    /// Whether enough other voters took part in the election to elect another leader. False for a designated leader,
    /// which was not elected.
    pub(crate) fn can_elect_another(&self, leader: ServerId, quorums: &Quorums) -> bool {
        let (_, round) = self.outcome;
        let is_known = |server| self.votes.contains_key(&server) || self.established.contains_key(&server);
        let is_there = |server| server != leader && is_known(server) && !self.left_out.0.contains_key(&server);
        round != super::DESIGNATED_ROUND && quorums.may_elect(|server| is_there(server) && !self.links.is_down(server))
    }

    /// Whether a notification is of the round that elected the current leader.
    pub(crate) fn is_of_last_round(&self, note: &VoteNotification) -> bool {
        self.outcome.1 == note.round
    }

    /// Whether votes for a candidate are ignored, which is so only while the other voters may be enough.
    pub(super) fn is_left_out(&self, candidate: ServerId, quorums: &Quorums) -> bool {
        let may_vote = |server| !self.left_out.0.contains_key(&server) && !self.links.is_down(server);
        self.left_out.0.contains_key(&candidate) && quorums.may_elect(may_vote)
    }

    /// Counts votes of this round again that were ignored so far.
    pub(super) fn recount(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let votes = self.votes.values().filter(|note| note.state == PeerState::Looking).map(|note| note.vote);
        let candidates = votes.filter(|vote| quorums.is_voter(vote.leader) && !self.is_left_out(vote.leader, quorums));
        let best = candidates.fold(self.proposal, |best, vote| if vote.beats(&best, quorums) { vote } else { best });
        if best != self.proposal && self.own.zxid != Vote::UNKNOWN {
            self.propose(now_ms, best, quorums, out);
        }
    }

    /// A LOOKING vote of the last round. Servers that have a leader reply with it, and servers in a later round reply
    /// with their vote.
    pub(crate) fn probe(&self, vote: Vote) -> VoteNotification {
        let (_, round) = self.outcome;
        VoteNotification { state: PeerState::Looking, vote, round, has_version: true }
    }

    /// Another server that leads a quorum, according to replies since this server was elected. Replies of servers for
    /// which `follows` returns true are outdated.
    pub(crate) fn other_leader(&self, quorums: &Quorums, follows: impl Fn(ServerId) -> bool) -> Option<ServerId> {
        let leads = |(server, note): &(&ServerId, &VoteNotification)| {
            let Vote { leader, .. } = note.vote;
            let is_leader = note.state == PeerState::Leading && leader == **server && leader != self.me;
            let agrees = |other: ServerId| {
                let votes = self.established.get(&other).filter(|_| !follows(other));
                votes.is_some_and(|votes| votes.agrees_with(note))
            };
            is_leader && quorums.committed.is_reached(agrees)
        };
        self.established.iter().find(leads).map(|(server, _)| *server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::ElectionSettings;
    use crate::quorum::Quorum;
    use ox_proto::Zxid;

    const ME: ServerId = ServerId(3);

    fn quorums() -> Quorums {
        Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)))
    }

    fn note(state: PeerState, leader: i64, round: i64) -> VoteNotification {
        let vote = Vote { leader: ServerId(leader), zxid: Zxid::ZERO, epoch: 1 };
        VoteNotification { state, vote, round, has_version: true }
    }

    fn looking(settings: ElectionSettings) -> Election {
        let own = Vote { leader: ME, zxid: Zxid::ZERO, epoch: 1 };
        let mut election = Election::new(ME, PeerState::Following, settings, own);
        election.start_round(0, own, &quorums(), &mut Vec::new());
        election
    }

    fn receive(election: &mut Election, from: i64, note: VoteNotification) -> Option<ServerId> {
        election.on_notification(0, ServerId(from), note, &quorums(), &mut Vec::new())
    }

    /// Server 3, which follows server 2 as server 1 does and has notifications of both.
    fn following() -> Election {
        let mut election = looking(ElectionSettings::default());
        let reports = [(1, PeerState::Following), (2, PeerState::Leading)];
        let elected = reports.map(|(from, state)| receive(&mut election, from, note(state, 2, 7)));
        assert_eq!(elected, [None, Some(ServerId(2))]);
        for (from, state) in reports {
            receive(&mut election, from, note(state, 2, 7));
        }
        election
    }

    #[test]
    fn designated_leader_drops_notifications_about_previous_leader() {
        let mut election = following();
        election.set_designated_leader(ME, Zxid::ZERO);
        assert_eq!(election.state(), PeerState::Leading);
        assert_eq!(election.other_leader(&quorums(), |_| false), None);
    }

    #[test]
    fn looking_server_is_not_counted_as_follower() {
        let mut election = looking(ElectionSettings::default());
        assert_eq!(receive(&mut election, 1, note(PeerState::Following, 2, 7)), None);
        assert_eq!(receive(&mut election, 1, note(PeerState::Looking, 1, 1)), None);
        assert_eq!(receive(&mut election, 2, note(PeerState::Leading, 2, 7)), None, "server 1 no longer follows it");

        let mut election = following();
        election.state = PeerState::Leading;
        assert_eq!(election.other_leader(&quorums(), |_| false), Some(ServerId(2)));
        receive(&mut election, 1, note(PeerState::Looking, 1, 8));
        assert_eq!(election.other_leader(&quorums(), |_| false), None);
    }

    /// Votes may be lost, and the sender may have given the leader up already.
    #[test]
    fn vote_of_a_later_round_shows_that_another_leader_is_possible() {
        let mut election = looking(ElectionSettings::default());
        let round = election.round();
        let better = Vote { zxid: Zxid(1), ..note(PeerState::Looking, 2, round).vote };
        let better = VoteNotification { vote: better, ..note(PeerState::Looking, 2, round) };
        assert_eq!(receive(&mut election, 2, better), None);
        assert_eq!(election.on_time(10_000, &quorums(), &mut Vec::new()), Some(ServerId(2)));
        receive(&mut election, 1, note(PeerState::Looking, 1, round - 1));
        assert!(!election.can_elect_another(ServerId(2), &quorums()), "an earlier round");
        receive(&mut election, 1, note(PeerState::Looking, 1, round + 1));
        assert!(election.can_elect_another(ServerId(2), &quorums()));
    }

    /// Operators may bound the intervals (`maxNotificationInterval`).
    #[test]
    fn abstaining_server_stands_for_election_although_intervals_are_short() {
        let settings = ElectionSettings { max_notification_ms: 1_000, ..ElectionSettings::default() };
        let mut election = looking(settings);
        let fallback = election.own;
        election.set_fallback(Some(fallback));
        election.start_round(0, Vote::abstain(Zxid::ZERO, 1), &quorums(), &mut Vec::new());
        election.settings.max_notification_ms = 400;
        let repeated_ms = [200, 600, 1_000, 1_400].map(|at_ms| {
            election.on_time(at_ms, &quorums(), &mut Vec::new());
            (at_ms, election.proposal == fallback)
        });
        assert_eq!(repeated_ms, [(200, false), (600, false), (1_000, false), (1_400, true)]);
    }

    /// Server 1 has the same history, but weight 0: no server votes for it.
    #[test]
    fn abstaining_server_stands_for_election_against_a_candidate_with_weight_0() {
        for (weight, stands) in [(0, true), (1, false)] {
            let weights = [(ServerId(1), weight), (ServerId(2), 1), (ME, 2)];
            let quorums = Quorums::of(Quorum::hierarchy_of([weights.into()]));
            let mut election = looking(ElectionSettings::default());
            let fallback = election.own;
            election.set_fallback(Some(fallback));
            election.start_round(0, Vote::abstain(Zxid::ZERO, 1), &quorums, &mut Vec::new());
            let rival = note(PeerState::Looking, 1, election.round);
            election.on_notification(0, ServerId(1), rival, &quorums, &mut Vec::new());
            for at_ms in [200, 600, 1_400] {
                election.on_time(at_ms, &quorums, &mut Vec::new());
            }
            assert_eq!(election.own == fallback, stands, "weight {weight}");
        }
    }
}
