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

/// Candidates, each with the time until which it is left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut(BTreeMap<ServerId, i64>);

impl LeftOut {
    pub(super) fn next_end_ms(&self) -> Option<i64> {
        self.0.values().copied().min()
    }

    /// Drops the candidates whose time is over. False if there was none.
    pub(super) fn end(&mut self, now_ms: i64) -> bool {
        let before = self.0.len();
        self.0.retain(|_, until_ms| now_ms < *until_ms);
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
    /// The candidate was elected and did not answer. It is left out of the next rounds until then, or until it connects
    /// again, unless too few servers are left without it.
    pub(crate) fn leave_out(&mut self, candidate: ServerId, until_ms: i64) {
        self.left_out.0.insert(candidate, until_ms);
    }

    /// Whether enough other voters took part in the election to elect another leader. A leader that a configuration has
    /// named was not elected.
    pub(crate) fn can_spare(&self, leader: ServerId, quorums: &Quorums) -> bool {
        let (_, round) = self.outcome;
        let is_known = |server| self.heard.contains_key(&server) || self.established.contains_key(&server);
        let is_there = |server| server != leader && is_known(server) && !self.left_out.0.contains_key(&server);
        round != super::APPOINTED && quorums.may_elect(|server| is_there(server) && !self.links.is_down(server))
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
