//! Fast leader election: servers tell each other their votes, adopt better ones, and go with what a quorum says.
//!
//! ```text
//!            look                     quorum for my vote                settled
//!  (any) ──────────► gathering votes ◄────────────────────► settling ─────────────► elected
//!                        ▲    │          a better vote
//!                        └────┘ a better vote, a later round: adopt it, tell everybody
//!                        quorum of servers that have a leader, the leader among them ─► elected
//! ```
//! A server that is not looking answers those who are, so that they find the leader it has. Rounds number elections;
//! they are forgotten when a process ends, so the higher round always wins, whoever starts it.

mod connections;
mod left_out;

pub use connections::Link;
pub(crate) use left_out::Absence;

use crate::quorum::Quorums;
use crate::vote::{Notification, Vote};
use connections::Links;
use left_out::LeftOut;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeMap;

/// How long a LOOKING server waits before it stands for election although others should lead, in first waits. The waits double,
/// so this is the third time that it repeats its vote.
const STAND_AFTER: i64 = 7;

/// The round of those who lead without an election.
const APPOINTED: i64 = -1;

/// The end of a history that is in doubt.
const UNKNOWN: Zxid = Zxid(-1);

/// How patient an election is.
#[derive(Clone, Copy, Debug)]
pub struct ElectionSettings {
    /// How long a quorum waits for better votes.
    pub settle_ms: i64,
    /// How long to wait before telling one's vote again; doubles each time.
    pub first_wait_ms: i64,
    /// The longest wait.
    pub longest_wait_ms: i64,
}

impl Default for ElectionSettings {
    fn default() -> Self {
        Self { settle_ms: 200, first_wait_ms: 200, longest_wait_ms: 60_000 }
    }
}

/// Notifications to send, and to whom.
pub type Outgoing = Vec<(ServerId, Notification)>;

/// One server's part in elections.
#[derive(Debug)]
pub struct Election {
    me: ServerId,
    settings: ElectionSettings,
    state: PeerState,
    /// What becomes of this server when somebody else is elected.
    learns_as: PeerState,
    round: i64,
    /// What this server would vote for by itself.
    own: Vote,
    /// The same for who stands back unless nobody else has its history: it is only to become a voter, or has no room.
    fallback: Option<Vote>,
    proposal: Vote,
    /// Votes of this round.
    heard: BTreeMap<ServerId, Notification>,
    /// What servers say that have a leader.
    established: BTreeMap<ServerId, Notification>,
    /// The outcome of the last election, and its round.
    outcome: (Vote, i64),
    /// The latest of the earlier rounds that voters are in.
    earlier: Option<i64>,
    links: Links,
    left_out: LeftOut,
    /// When this election began.
    began_ms: i64,
    wait_ms: i64,
    /// The sum of the waits of this election that have ended.
    waited_ms: i64,
    tell_at_ms: i64,
    settled_at_ms: Option<i64>,
}

impl Election {
    /// A server that takes part in elections as `learns_as` says: following servers vote, observing ones ask.
    pub fn new(me: ServerId, learns_as: PeerState, settings: ElectionSettings, own: Vote) -> Self {
        Self {
            me,
            settings,
            state: PeerState::Looking,
            learns_as,
            round: 0,
            own,
            fallback: None,
            proposal: own,
            heard: BTreeMap::new(),
            established: BTreeMap::new(),
            outcome: (Vote { leader: me, ..own }, APPOINTED),
            earlier: None,
            links: Links::default(),
            left_out: LeftOut::default(),
            began_ms: 0,
            wait_ms: settings.first_wait_ms,
            waited_ms: 0,
            tell_at_ms: i64::MAX,
            settled_at_ms: None,
        }
    }

    /// Whether a server has cast the vote that elected this one.
    pub(crate) fn was_elected_by(&self, server: ServerId) -> bool {
        let (vote, round) = self.outcome;
        self.heard.get(&server).is_some_and(|note| note.vote.leader == vote.leader && note.round == round)
    }

    /// What this server is doing.
    pub fn state(&self) -> PeerState {
        self.state
    }

    /// The election it takes part in.
    pub fn round(&self) -> i64 {
        self.round
    }

    /// Its vote: the running proposal, or what it was established with.
    pub fn vote(&self) -> Vote {
        if self.state == PeerState::Looking { self.proposal } else { self.outcome.0 }
    }

    /// Whether an elected leader is gone: the connection with it has broken, and no other has come. Of one that a
    /// configuration has named that says nothing: Apache's servers close their connections when they get another one.
    pub(crate) fn knows_gone(&self, leader: ServerId) -> bool {
        let (_, round) = self.outcome;
        round != APPOINTED && self.links.is_down(leader)
    }

    /// Starts a round. `own` is what this server can vouch for; who may not be elected votes for nobody.
    pub fn look(&mut self, now_ms: i64, own: Vote, quorums: &Quorums, out: &mut Outgoing) -> Option<ServerId> {
        self.state = PeerState::Looking;
        self.round = self.round.saturating_add(1); // others may have said any number
        self.own = own;
        self.heard.clear();
        self.established.clear();
        self.earlier = None;
        (self.began_ms, self.wait_ms, self.waited_ms) = (now_ms, self.settings.first_wait_ms, 0);
        self.propose(now_ms, own, quorums, out);
        self.count(now_ms, quorums)
    }

    /// When [`Self::on_time`] wants to be called.
    pub fn deadline(&self) -> Option<i64> {
        let looks = self.state == PeerState::Looking;
        let others = self.settled_at_ms.into_iter().chain(self.left_out.next_end_ms(self.began_ms));
        looks.then(|| others.fold(self.tell_at_ms, i64::min))
    }

    /// Repeats its vote when nobody answers; decides when nobody objects. Returns who is elected.
    pub fn on_time(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) -> Option<ServerId> {
        if self.state != PeerState::Looking {
            return None;
        }
        if self.settled_at_ms.is_some_and(|settled| settled <= now_ms) {
            return Some(self.decide(self.proposal));
        }
        if self.left_out.end(now_ms, self.began_ms) {
            self.reconsider(now_ms, quorums, out);
            if let Some(elected) = self.count(now_ms, quorums) {
                return Some(elected);
            }
        }
        if self.tell_at_ms <= now_ms {
            self.join_earlier(now_ms, quorums, out);
            self.waited_ms = self.waited_ms.saturating_add(self.wait_ms);
            if STAND_AFTER <= self.waited_ms / self.settings.first_wait_ms.max(1) {
                self.stand(now_ms, quorums, out);
            }
            self.tell_all(now_ms, quorums, out);
            self.wait_ms = (self.wait_ms * 2).min(self.settings.longest_wait_ms);
            self.tell_at_ms = now_ms + self.wait_ms;
        }
        None
    }

    /// The connection to a server has come up or gone down.
    pub fn on_link(
        &mut self,
        now_ms: i64,
        server: ServerId,
        link: Link,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        self.links.set(server, link);
        if link == Link::Up {
            self.left_out.remove(server); // connecting takes packets in both directions
            out.push((server, self.current()));
        }
        if self.state != PeerState::Looking {
            return None;
        }
        self.reconsider(now_ms, quorums, out);
        self.count(now_ms, quorums)
    }

    /// A server says something. Returns who is elected.
    pub fn on_notification(
        &mut self,
        now_ms: i64,
        from: ServerId,
        note: Notification,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        let is_looking = self.state == PeerState::Looking;
        if !quorums.is_voter(from) {
            // Who does not vote wants to know the leader, until it has one. Two of them would never come to an end.
            if note.state == PeerState::Looking {
                let (vote, _) = self.outcome;
                out.push((from, Notification { state: self.state, vote, round: self.round, has_version: true }));
            }
            return None;
        }
        if note.state == PeerState::Looking {
            self.established.remove(&from); // it has no leader any more
        }
        if !is_looking {
            if note.state == PeerState::Looking {
                out.push((from, self.current()));
            } else {
                self.established.insert(from, note);
            }
            return None;
        }
        // The round of who does not vote is nobody's business: it would be answered, and answered again.
        if note.state == PeerState::Looking && note.round < self.round && quorums.is_voter(self.me) {
            out.push((from, self.current()));
        }
        if !quorums.is_voter(note.vote.leader) {
            return None;
        }
        match note.state {
            PeerState::Looking => self.on_looking(now_ms, from, note, quorums, out),
            PeerState::Following | PeerState::Leading => self.on_established(from, note, quorums),
            PeerState::Observing => None,
        }
    }

    /// What a server that may not be elected would stand for if it must.
    pub fn set_fallback(&mut self, fallback: Option<Vote>) {
        self.fallback = fallback;
    }

    /// What this server is when somebody else leads.
    pub fn set_learns_as(&mut self, learns_as: PeerState) {
        self.learns_as = learns_as;
    }

    /// A configuration names the leader: there is no election.
    pub fn appoint(&mut self, leader: ServerId, zxid: Zxid) {
        // Compat: epoch and round are unknown until the leader is established.
        self.outcome = (Vote { leader, zxid, epoch: -1 }, APPOINTED);
        self.state = self.state_under(leader);
        self.settled_at_ms = None;
        self.established.clear(); // it tells of the leader before
    }

    /// The leader is established for `epoch`: from now on the vote says so.
    pub fn on_epoch(&mut self, epoch: i64) {
        self.outcome.0.epoch = epoch;
        self.left_out.clear();
    }

    fn on_looking(
        &mut self,
        now_ms: i64,
        from: ServerId,
        note: Notification,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        if self.own.zxid == UNKNOWN || note.vote.zxid == UNKNOWN {
            // A server that does not vote only asks who leads: soon, when an election goes on.
            if self.own.zxid == UNKNOWN && self.heard.insert(from, note) != Some(note) {
                self.wait_ms = self.settings.first_wait_ms;
                self.tell_at_ms = self.tell_at_ms.min(now_ms + self.wait_ms);
            }
            return None;
        }
        let may_lead = !self.is_left_out(note.vote.leader, quorums);
        let is_better = may_lead && note.vote.beats(&self.proposal, quorums);
        if self.settled_at_ms.is_some() && !is_better && note.round != self.round {
            return None;
        }
        if self.round < note.round {
            self.round = note.round;
            self.heard.clear();
            let best = if may_lead && note.vote.beats(&self.own, quorums) { note.vote } else { self.own };
            self.propose(now_ms, best, quorums, out);
        } else if note.round < self.round {
            self.earlier = self.earlier.max(Some(note.round));
            return None;
        } else if is_better {
            self.propose(now_ms, note.vote, quorums, out);
        } else if note.vote != self.proposal
            && !self.heard.contains_key(&from)
            && quorums.is_voter(self.proposal.leader)
        {
            // It has just begun to look, and has not heard what was said before. Apache lets it wait.
            out.push((from, self.current()));
        }
        self.heard.insert(from, note);
        self.count(now_ms, quorums)
    }

    /// Who votes for nobody goes where the others are: nobody joins its round. It may be needed: as a voter that only
    /// stands back, or for those who know of a configuration that it has not heard of.
    fn join_earlier(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let is_alone = self.heard.keys().all(|server| *server == self.me);
        if let Some(earlier) = self.earlier.take().filter(|_| is_alone && !quorums.is_voter(self.own.leader)) {
            self.round = earlier;
            self.heard.clear();
            self.propose(now_ms, self.own, quorums, out);
        }
    }

    /// A proposed configuration may have agreed on something that only those know who are in no other: one of them has to
    /// lead. Apache waits for ever.
    fn stand(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let has_rival = |fallback: &Vote| {
            let mut rivals = self.heard.values().filter(|note| quorums.is_voter(note.vote.leader));
            rivals.any(|note| (fallback.epoch, fallback.zxid) <= (note.vote.epoch, note.vote.zxid))
        };
        let Some(fallback) = self.fallback else { return };
        if self.own == fallback {
            // It was of no use. Others may have given up a candidate for this one: everybody begins anew.
            self.own = Vote::nobody(fallback.zxid, fallback.epoch);
            self.round = self.round.saturating_add(1);
            self.heard.clear();
            self.propose(now_ms, self.own, quorums, out);
        } else if !has_rival(&fallback) {
            self.own = fallback;
            self.propose(now_ms, fallback, quorums, out);
        }
    }

    fn on_established(&mut self, from: ServerId, note: Notification, quorums: &Quorums) -> Option<ServerId> {
        if note.round == self.round {
            // Compat: votes of the own round are compared as those of servers that know no epochs.
            self.heard.insert(from, Notification { has_version: false, ..note });
            if self.has_leader(&self.heard, &note, quorums) {
                return Some(self.decide(note.vote));
            }
        }
        self.established.insert(from, note);
        if self.has_leader(&self.established, &note, quorums) {
            self.round = note.round;
            return Some(self.decide(note.vote));
        }
        None
    }

    /// Whether a quorum has the leader that `note` names, and that leader says so too: others may not have noticed yet
    /// that it is gone.
    fn has_leader(&self, said: &BTreeMap<ServerId, Notification>, note: &Notification, quorums: &Quorums) -> bool {
        let leader = note.vote.leader;
        let is_there = if leader == self.me {
            self.round == note.round && self.own.zxid != UNKNOWN
        } else {
            said.get(&leader).is_some_and(|own| own.state == PeerState::Leading)
        };
        // A configuration that was only proposed may never have been heard of by anybody else.
        is_there && quorums.committed.is_reached(|server| said.get(&server).is_some_and(|own| own.agrees_with(note)))
    }

    /// Decides if there is nothing to wait for, or begins to wait for better votes.
    fn count(&mut self, now_ms: i64, quorums: &Quorums) -> Option<ServerId> {
        let mine = self.current();
        let agrees = |server: ServerId| self.heard.get(&server).is_some_and(|note| note.agrees_with(&mine));
        if !quorums.may_elect(agrees) {
            self.settled_at_ms = None;
            return None;
        }
        // Nobody who could object is still to be heard.
        let is_gone = |voter| voter != self.me && (self.links.is_down(voter) || self.is_left_out(voter, quorums));
        let is_unanimous = quorums.voters().into_iter().all(|voter| agrees(voter) || is_gone(voter));
        if is_unanimous {
            return Some(self.decide(self.proposal));
        }
        self.settled_at_ms = self.settled_at_ms.or(Some(now_ms + self.settings.settle_ms));
        None
    }

    fn propose(&mut self, now_ms: i64, vote: Vote, quorums: &Quorums, out: &mut Outgoing) {
        self.proposal = vote;
        self.settled_at_ms = None;
        if quorums.is_voter(vote.leader) && vote.zxid != UNKNOWN {
            self.heard.insert(self.me, self.current());
        }
        self.tell_all(now_ms, quorums, out);
    }

    fn tell_all(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let note = self.current();
        out.extend(quorums.voters().into_iter().filter(|voter| *voter != self.me).map(|voter| (voter, note)));
        self.tell_at_ms = now_ms + self.wait_ms;
    }

    fn decide(&mut self, vote: Vote) -> ServerId {
        self.outcome = (vote, self.round);
        self.state = self.state_under(vote.leader);
        self.settled_at_ms = None;
        if self.state == PeerState::Leading {
            self.established.clear();
        }
        vote.leader
    }

    fn state_under(&self, leader: ServerId) -> PeerState {
        if leader == self.me { PeerState::Leading } else { self.learns_as }
    }

    /// What this server says to voters now.
    fn current(&self) -> Notification {
        let (vote, round) = if self.state == PeerState::Looking { (self.proposal, self.round) } else { self.outcome };
        Notification { state: self.state, vote, round, has_version: true }
    }
}
