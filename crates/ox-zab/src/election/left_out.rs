//! Candidates that could not be reached after they were elected. They are treated as if they were down.
//!
//! A server that sends but does not receive keeps voting for itself, and may have the longest history: without this the
//! others would elect it in every round. Leaving a candidate out is no more than not hearing its votes, which the rest
//! of the protocol has to survive anyway: the server elected in its place needs the promises of a quorum, and those
//! include a server that has everything that was committed.

use super::{Election, Outgoing};
use crate::quorum::Quorums;
use crate::vote::{Notification, Vote};
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeMap;

/// How long a candidate is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    /// Over several elections.
    pub(crate) until_ms: i64,
    /// Of one election: voters may disagree about who is left out, so that no candidate gets a quorum.
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
    /// When the next candidate counts again in an election that began at `began_ms`.
    pub(super) fn next_end_ms(&self, began_ms: i64) -> Option<i64> {
        self.0.values().map(|absence| absence.end_ms(began_ms)).min()
    }

    /// Drops the candidates whose time is over. False if there was none.
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
    /// The candidate was elected and did not answer. It is left out of the next rounds for so long, or until it connects
    /// again, unless too few servers are left without it.
    pub(crate) fn leave_out(&mut self, candidate: ServerId, absence: Absence) {
        self.left_out.0.insert(candidate, absence);
    }

    /// Whether enough other voters took part in the election to elect another leader. A leader that a configuration has
    /// named was not elected.
    pub(crate) fn can_spare(&self, leader: ServerId, quorums: &Quorums) -> bool {
        let (_, round) = self.outcome;
        let is_known = |server| self.heard.contains_key(&server) || self.established.contains_key(&server);
        let is_there = |server| server != leader && is_known(server) && !self.left_out.0.contains_key(&server);
        round != super::APPOINTED && quorums.may_elect(|server| is_there(server) && !self.links.is_down(server))
    }

    /// Whether a vote belongs to the round of the last election that has ended.
    pub(crate) fn is_of_outcome(&self, note: &Notification) -> bool {
        self.outcome.1 == note.round
    }

    /// Whether votes for a candidate are ignored: only while the others can be enough.
    pub(super) fn is_left_out(&self, candidate: ServerId, quorums: &Quorums) -> bool {
        let may_vote = |server| !self.left_out.0.contains_key(&server) && !self.links.is_down(server);
        self.left_out.0.contains_key(&candidate) && quorums.may_elect(may_vote)
    }

    /// Votes of this round that were ignored may count now.
    pub(super) fn reconsider(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let votes = self.heard.values().filter(|note| note.state == PeerState::Looking).map(|note| note.vote);
        let candidates = votes.filter(|vote| quorums.is_voter(vote.leader) && !self.is_left_out(vote.leader, quorums));
        let best = candidates.fold(self.proposal, |best, vote| if vote.beats(&best, quorums) { vote } else { best });
        if best != self.proposal && self.own.zxid != super::UNKNOWN {
            self.propose(now_ms, best, quorums, out);
        }
    }

    /// A vote of the last round, as a LOOKING server sends it: servers that have a leader reply with it, and servers in
    /// a later round reply with their vote.
    pub(crate) fn probe(&self, vote: Vote) -> Notification {
        let (_, round) = self.outcome;
        Notification { state: PeerState::Looking, vote, round, has_version: true }
    }

    /// Another server that leads a quorum, as far as servers have replied since this one was elected. Replies of
    /// servers that `follows` is true of are outdated.
    pub(crate) fn other_leader(&self, quorums: &Quorums, follows: impl Fn(ServerId) -> bool) -> Option<ServerId> {
        let leads = |(server, note): &(&ServerId, &Notification)| {
            let Vote { leader, .. } = note.vote;
            let is_leader = note.state == PeerState::Leading && leader == **server && leader != self.me;
            let agrees = |other: ServerId| {
                let said = self.established.get(&other).filter(|_| !follows(other));
                said.is_some_and(|said| said.agrees_with(note))
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

    fn note(state: PeerState, leader: i64, round: i64) -> Notification {
        let vote = Vote { leader: ServerId(leader), zxid: Zxid::ZERO, epoch: 1 };
        Notification { state, vote, round, has_version: true }
    }

    fn looking(settings: ElectionSettings) -> Election {
        let own = Vote { leader: ME, zxid: Zxid::ZERO, epoch: 1 };
        let mut election = Election::new(ME, PeerState::Following, settings, own);
        election.look(0, own, &quorums(), &mut Vec::new());
        election
    }

    fn hears(election: &mut Election, from: i64, note: Notification) -> Option<ServerId> {
        election.on_notification(0, ServerId(from), note, &quorums(), &mut Vec::new())
    }

    /// Server 3, which follows server 2 like server 1 and has heard so from both.
    fn following() -> Election {
        let mut election = looking(ElectionSettings::default());
        let reports = [(1, PeerState::Following), (2, PeerState::Leading)];
        let elected = reports.map(|(from, state)| hears(&mut election, from, note(state, 2, 7)));
        assert_eq!(elected, [None, Some(ServerId(2))]);
        for (from, state) in reports {
            hears(&mut election, from, note(state, 2, 7));
        }
        election
    }

    #[test]
    fn appointed_leader_forgets_reports_about_the_leader_before() {
        let mut election = following();
        election.appoint(ME, Zxid::ZERO);
        assert_eq!(election.state(), PeerState::Leading);
        assert_eq!(election.other_leader(&quorums(), |_| false), None);
    }

    #[test]
    fn server_that_looks_for_a_leader_is_not_counted_as_a_follower() {
        let mut election = looking(ElectionSettings::default());
        assert_eq!(hears(&mut election, 1, note(PeerState::Following, 2, 7)), None);
        assert_eq!(hears(&mut election, 1, note(PeerState::Looking, 1, 1)), None);
        assert_eq!(hears(&mut election, 2, note(PeerState::Leading, 2, 7)), None, "server 1 has left it");

        let mut election = following();
        election.state = PeerState::Leading;
        assert_eq!(election.other_leader(&quorums(), |_| false), Some(ServerId(2)));
        hears(&mut election, 1, note(PeerState::Looking, 1, 8));
        assert_eq!(election.other_leader(&quorums(), |_| false), None);
    }

    /// Operators may bound the waits (`maxNotificationInterval`).
    #[test]
    fn fallback_stands_although_waits_are_short() {
        let settings = ElectionSettings { longest_wait_ms: 1_000, ..ElectionSettings::default() };
        let mut election = looking(settings);
        let fallback = election.own;
        election.set_fallback(Some(fallback));
        election.look(0, Vote::nobody(Zxid::ZERO, 1), &quorums(), &mut Vec::new());
        election.settings.longest_wait_ms = 400;
        let repeated_ms = [200, 600, 1_000, 1_400].map(|at_ms| {
            election.on_time(at_ms, &quorums(), &mut Vec::new());
            (at_ms, election.proposal == fallback)
        });
        assert_eq!(repeated_ms, [(200, false), (600, false), (1_000, false), (1_400, true)]);
    }
}
