//! Fast leader election (`FastLeaderElection`): servers exchange votes, adopt better ones, and elect the candidate of a
//! quorum.
//!
//! ```text
//!          start_round                quorum for own vote                 finalize wait is over
//!   (any) ────────────► collecting ◄───────────────────────► finalizing ─────────────────────► elected
//!                        ▲     │          a better vote
//!                        └─────┘ a better vote or a later round: adopt it, notify all voters
//!                        quorum of servers that have a leader, including that leader ────────► elected
//! ```
//! A server that is not LOOKING replies to those that are with the leader it has. A round is the logical clock of an
//! election. It is not stored on disk, so the higher round always wins, whichever server started it.

mod connections;
mod left_out;

pub use connections::ElectionConnection;
pub(crate) use left_out::Absence;

use crate::quorum::Quorums;
use crate::vote::{Abstention, Vote, VoteNotification};
use connections::ElectionConnections;
use left_out::LeftOut;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeMap;

/// How long a LOOKING server that abstains waits before it stands for election after all, in units of the first
/// notification interval. The intervals double, so this is the third repetition of its vote.
const STAND_AFTER_WAITS: i64 = 7;

/// The longest interval at which a LOOKING server repeats its vote. The others elect a leader without it if its vote
/// differs from theirs: as an observer, as a voter with weight 0, as a candidate that they leave out. They do not notify
/// it of the leader, and after a long outage an interval of Apache's 60 s would delay it by as much.
const NOTIFICATION_MAX_MS: i64 = 2_000;

/// The round of a leader that a configuration has designated.
const DESIGNATED_ROUND: i64 = -1;

#[derive(Clone, Copy, Debug)]
pub struct ElectionSettings {
    /// How long a server with a quorum waits for better votes (Apache's finalizeWait).
    pub finalize_wait_ms: i64,
    /// The first interval at which a server repeats its vote; it doubles each time.
    pub min_notification_ms: i64,
    pub max_notification_ms: i64,
}

impl Default for ElectionSettings {
    fn default() -> Self {
        Self { finalize_wait_ms: 200, min_notification_ms: 200, max_notification_ms: 60_000 }
    }
}

/// Notifications to send, with their receivers.
pub(crate) type Outgoing = Vec<(ServerId, VoteNotification)>;

/// One server's part in elections.
#[derive(Debug)]
pub struct Election {
    me: ServerId,
    settings: ElectionSettings,
    state: PeerState,
    /// The state of this server when another one leads.
    learner_state: PeerState,
    round: i64,
    /// This server's own candidacy, or its abstention.
    own: Vote,
    /// The candidacy of a server that abstains, for the case that no other voter has its history: its disk is low, or
    /// it is a voter only in a proposed configuration.
    fallback: Option<Vote>,
    proposal: Vote,
    /// Votes of the current round (Apache's recvset).
    votes: BTreeMap<ServerId, VoteNotification>,
    /// Notifications of servers that have a leader (Apache's outofelection).
    established: BTreeMap<ServerId, VoteNotification>,
    /// The outcome of the last election, and its round.
    outcome: (Vote, i64),
    /// The latest round before this one that another voter is in.
    earlier: Option<i64>,
    links: ElectionConnections,
    left_out: LeftOut,
    /// LOOKING voters that abstain because they lack data, as they last notified. Only reported.
    abstaining: BTreeMap<ServerId, Abstention>,
    /// When the current round began.
    began_ms: i64,
    wait_ms: i64,
    /// The sum of the notification intervals that have passed in this election.
    waited_ms: i64,
    resend_at_ms: i64,
    finalize_at_ms: Option<i64>,
}

impl Election {
    /// `learner_state` is Following for voters, and Observing for observers, which only ask for the leader.
    pub fn new(me: ServerId, learner_state: PeerState, settings: ElectionSettings, own: Vote) -> Self {
        Self {
            me,
            settings,
            state: PeerState::Looking,
            learner_state,
            round: 0,
            own,
            fallback: None,
            proposal: own,
            votes: BTreeMap::new(),
            established: BTreeMap::new(),
            outcome: (Vote { leader: me, ..own }, DESIGNATED_ROUND),
            earlier: None,
            links: ElectionConnections::default(),
            left_out: LeftOut::default(),
            abstaining: BTreeMap::new(),
            began_ms: 0,
            wait_ms: settings.min_notification_ms,
            waited_ms: 0,
            resend_at_ms: i64::MAX,
            finalize_at_ms: None,
        }
    }

    /// Whether `server` cast the vote that elected the current leader.
    pub(crate) fn was_elected_by(&self, server: ServerId) -> bool {
        let (vote, round) = self.outcome;
        self.votes.get(&server).is_some_and(|note| note.vote.leader == vote.leader && note.round == round)
    }

    pub fn state(&self) -> PeerState {
        self.state
    }

    pub fn round(&self) -> i64 {
        self.round
    }

    /// The current vote of a LOOKING server; otherwise the vote that elected its leader.
    pub fn vote(&self) -> Vote {
        if self.state == PeerState::Looking { self.proposal } else { self.outcome.0 }
    }

    /// Whether an elected leader is down: its connection broke, and there is no new one. This does not hold for a
    /// designated leader, because Apache's servers close election connections when they adopt a configuration.
    pub(crate) fn knows_down(&self, leader: ServerId) -> bool {
        let (_, round) = self.outcome;
        round != DESIGNATED_ROUND && self.links.is_down(leader)
    }

    /// Starts a round. `own` is this server's candidacy, or [`Vote::abstain`] if it must not be elected.
    pub fn start_round(&mut self, now_ms: i64, own: Vote, quorums: &Quorums, out: &mut Outgoing) -> Option<ServerId> {
        self.state = PeerState::Looking;
        self.round = self.round.saturating_add(1); // another server may have sent any number
        self.own = own;
        self.votes.clear();
        self.established.clear();
        self.earlier = None;
        (self.began_ms, self.wait_ms, self.waited_ms) = (now_ms, self.settings.min_notification_ms, 0);
        self.propose(now_ms, own, quorums, out);
        self.check_quorum(now_ms, quorums)
    }

    /// When the caller has to call [`Self::on_time`].
    pub fn deadline(&self) -> Option<i64> {
        let looks = self.state == PeerState::Looking;
        let others = self.finalize_at_ms.into_iter().chain(self.left_out.next_end_ms(self.began_ms));
        looks.then(|| others.fold(self.resend_at_ms, i64::min))
    }

    /// Repeats the vote if its interval is over, and decides if the wait for better votes is over. Returns the elected
    /// leader.
    pub fn on_time(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) -> Option<ServerId> {
        if self.state != PeerState::Looking {
            return None;
        }
        if self.finalize_at_ms.is_some_and(|settled| settled <= now_ms) {
            return Some(self.decide(self.proposal));
        }
        if self.left_out.end(now_ms, self.began_ms) {
            self.recount(now_ms, quorums, out);
            if let Some(elected) = self.check_quorum(now_ms, quorums) {
                return Some(elected);
            }
        }
        if self.resend_at_ms <= now_ms {
            self.join_earlier_round(now_ms, quorums, out);
            self.waited_ms = self.waited_ms.saturating_add(self.wait_ms);
            if STAND_AFTER_WAITS <= self.waited_ms / self.settings.min_notification_ms.max(1) {
                self.stand_for_election(now_ms, quorums, out);
            }
            self.notify_all(now_ms, quorums, out);
            self.wait_ms = (self.wait_ms * 2).min(self.settings.max_notification_ms).min(NOTIFICATION_MAX_MS);
            self.resend_at_ms = now_ms + self.wait_ms;
        }
        None
    }

    pub fn on_link(
        &mut self,
        now_ms: i64,
        server: ServerId,
        link: ElectionConnection,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        self.links.set(server, link);
        if link == ElectionConnection::Up {
            self.left_out.remove(server); // a new connection needs packets in both directions
            out.push((server, self.current()));
        }
        if self.state != PeerState::Looking {
            return None;
        }
        self.recount(now_ms, quorums, out);
        self.check_quorum(now_ms, quorums)
    }

    /// Whether there is an election connection with a server.
    pub fn is_connected(&self, server: ServerId) -> bool {
        self.links.is_up(server)
    }

    /// Connected voters that abstain because they lack data.
    pub(crate) fn abstaining(&self) -> impl Iterator<Item = (ServerId, Abstention)> {
        let voters = self.abstaining.iter().map(|(server, reason)| (*server, *reason));
        voters.filter(|(server, _)| self.is_connected(*server))
    }

    /// A notification arrived. Returns the elected leader, if this decides the election.
    pub fn on_notification(
        &mut self,
        now_ms: i64,
        from: ServerId,
        note: VoteNotification,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        let is_looking = self.state == PeerState::Looking;
        if !quorums.is_voter(from) {
            // A server that is not a voter asks for the leader until it has one. Two observers must not reply to each
            // other forever.
            if note.state == PeerState::Looking {
                let (vote, _) = self.outcome;
                out.push((from, VoteNotification { state: self.state, vote, round: self.round, has_version: true }));
            }
            return None;
        }
        match note.vote.abstention().filter(|_| note.state == PeerState::Looking) {
            Some(reason) => _ = self.abstaining.insert(from, reason),
            None => _ = self.abstaining.remove(&from),
        }
        if note.state == PeerState::Looking {
            self.established.remove(&from); // the sender has no leader any more
        }
        if !is_looking {
            if note.state == PeerState::Looking {
                let (_, round) = self.outcome;
                if round <= note.round {
                    self.votes.entry(from).or_insert(note); // the sender could take part in another election
                }
                out.push((from, self.current()));
            } else {
                self.established.insert(from, note);
            }
            return None;
        }
        // An observer ignores older rounds: its reply would be replied to, without end.
        if note.state == PeerState::Looking && note.round < self.round && quorums.is_voter(self.me) {
            out.push((from, self.current()));
        }
        if !quorums.is_voter(note.vote.leader) {
            return None;
        }
        match note.state {
            PeerState::Looking => self.on_looking(now_ms, from, note, quorums, out),
            PeerState::Following | PeerState::Leading => self.on_established(now_ms, from, note, quorums),
            PeerState::Observing => None,
        }
    }

    /// Sets the candidacy of a server that abstains.
    pub fn set_fallback(&mut self, fallback: Option<Vote>) {
        self.fallback = fallback;
    }

    pub fn set_learner_state(&mut self, learner_state: PeerState) {
        self.learner_state = learner_state;
    }

    /// A configuration designates the leader, without an election.
    pub fn set_designated_leader(&mut self, leader: ServerId, zxid: Zxid) {
        // Compat: epoch and round are unknown until the leader is established.
        self.outcome = (Vote { leader, zxid, epoch: -1 }, DESIGNATED_ROUND);
        self.state = self.state_under(leader);
        self.finalize_at_ms = None;
        self.established.clear(); // these are about the previous leader
    }

    /// The leader is established in `epoch`, which the vote reports from now on.
    pub fn on_epoch(&mut self, epoch: i64) {
        self.outcome.0.epoch = epoch;
        self.left_out.clear();
    }

    fn on_looking(
        &mut self,
        now_ms: i64,
        from: ServerId,
        note: VoteNotification,
        quorums: &Quorums,
        out: &mut Outgoing,
    ) -> Option<ServerId> {
        if self.own.zxid == Vote::UNKNOWN || note.vote.zxid == Vote::UNKNOWN {
            // A server that does not vote only asks for the leader; it asks again soon if votes change.
            if self.own.zxid == Vote::UNKNOWN && self.votes.insert(from, note) != Some(note) {
                self.repeat_soon(now_ms);
            }
            return None;
        }
        let may_lead = !self.is_left_out(note.vote.leader, quorums);
        let is_better = may_lead && note.vote.beats(&self.proposal, quorums);
        if self.finalize_at_ms.is_some() && !is_better && note.round != self.round {
            return None;
        }
        if self.round < note.round {
            self.round = note.round;
            self.votes.clear();
            let best = if may_lead && note.vote.beats(&self.own, quorums) { note.vote } else { self.own };
            self.propose(now_ms, best, quorums, out);
        } else if note.round < self.round {
            self.earlier = self.earlier.max(Some(note.round));
            return None;
        } else if is_better {
            self.propose(now_ms, note.vote, quorums, out);
        } else if note.vote != self.proposal
            && !self.votes.contains_key(&from)
            && quorums.is_voter(self.proposal.leader)
        {
            // The sender has just become LOOKING and missed our last notification. Apache makes it wait for the next
            // one.
            out.push((from, self.current()));
        }
        self.votes.insert(from, note);
        self.check_quorum(now_ms, quorums)
    }

    /// No voter joins the round of a server that abstains, so it joins theirs. It may be needed: as a voter that only
    /// abstains, or by servers that know a configuration that this one does not.
    fn join_earlier_round(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let is_alone = self.votes.keys().all(|server| *server == self.me);
        if let Some(earlier) = self.earlier.take().filter(|_| is_alone && !quorums.is_voter(self.own.leader)) {
            self.round = earlier;
            self.votes.clear();
            self.propose(now_ms, self.own, quorums, out);
        }
    }

    /// Something may have been committed under a proposed configuration that only its own voters know. Then one of them
    /// has to lead, although they abstain; Apache waits forever.
    fn stand_for_election(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let has_rival = |fallback: &Vote| {
            // A candidate with weight 0 gets no votes, so it is no rival.
            let mut rivals = self.votes.values().filter(|note| quorums.weight(note.vote.leader) != 0);
            rivals.any(|note| (fallback.epoch, fallback.zxid) <= (note.vote.epoch, note.vote.zxid))
        };
        let Some(fallback) = self.fallback else { return };
        if self.own == fallback {
            // The candidacy did not succeed. Other voters may have dropped another candidate for this one, so a new
            // round starts.
            self.own = Vote::abstain(fallback.zxid, fallback.epoch);
            self.round = self.round.saturating_add(1);
            self.votes.clear();
            self.propose(now_ms, self.own, quorums, out);
        } else if !has_rival(&fallback) {
            self.own = fallback;
            self.propose(now_ms, fallback, quorums, out);
        }
    }

    fn on_established(
        &mut self,
        now_ms: i64,
        from: ServerId,
        note: VoteNotification,
        quorums: &Quorums,
    ) -> Option<ServerId> {
        if note.round == self.round {
            // Compat: votes of the current round are compared without their epochs.
            self.votes.insert(from, VoteNotification { has_version: false, ..note });
            if self.has_leader(&self.votes, &note, quorums) {
                return Some(self.decide(note.vote));
            }
        }
        let is_news = self.established.insert(from, note) != Some(note);
        if self.has_leader(&self.established, &note, quorums) {
            self.round = note.round;
            return Some(self.decide(note.vote));
        }
        if is_news {
            self.repeat_soon(now_ms); // the other voters can confirm the leader by now
        }
        None
    }

    /// Ends a long wait: the next notifications are likely to name the leader.
    fn repeat_soon(&mut self, now_ms: i64) {
        self.wait_ms = self.settings.min_notification_ms;
        self.resend_at_ms = self.resend_at_ms.min(now_ms + self.wait_ms);
    }

    /// Whether a quorum follows the leader that `note` names, and that leader confirms it: its followers may not have
    /// noticed yet that it is down.
    fn has_leader(
        &self,
        votes: &BTreeMap<ServerId, VoteNotification>,
        note: &VoteNotification,
        quorums: &Quorums,
    ) -> bool {
        let leader = note.vote.leader;
        let is_there = if leader == self.me {
            self.round == note.round && self.own.zxid != Vote::UNKNOWN
        } else {
            votes.get(&leader).is_some_and(|own| own.state == PeerState::Leading)
        };
        // Other servers may not know a configuration that is only proposed.
        is_there && quorums.committed.is_reached(|server| votes.get(&server).is_some_and(|own| own.agrees_with(note)))
    }

    /// Decides if no better vote can arrive, or starts the wait for better votes.
    fn check_quorum(&mut self, now_ms: i64, quorums: &Quorums) -> Option<ServerId> {
        let mine = self.current();
        let agrees = |server: ServerId| self.votes.get(&server).is_some_and(|note| note.agrees_with(&mine));
        if !quorums.may_elect(agrees) {
            self.finalize_at_ms = None;
            return None;
        }
        // Every voter has either this vote, or is down or left out.
        let is_gone = |voter| voter != self.me && (self.links.is_down(voter) || self.is_left_out(voter, quorums));
        let is_unanimous = quorums.voters().into_iter().all(|voter| agrees(voter) || is_gone(voter));
        if is_unanimous {
            return Some(self.decide(self.proposal));
        }
        self.finalize_at_ms = self.finalize_at_ms.or(Some(now_ms + self.settings.finalize_wait_ms));
        None
    }

    fn propose(&mut self, now_ms: i64, vote: Vote, quorums: &Quorums, out: &mut Outgoing) {
        self.proposal = vote;
        self.finalize_at_ms = None;
        if quorums.is_voter(vote.leader) && vote.zxid != Vote::UNKNOWN {
            self.votes.insert(self.me, self.current());
        }
        self.notify_all(now_ms, quorums, out);
    }

    fn notify_all(&mut self, now_ms: i64, quorums: &Quorums, out: &mut Outgoing) {
        let note = self.current();
        out.extend(quorums.voters().into_iter().filter(|voter| *voter != self.me).map(|voter| (voter, note)));
        self.resend_at_ms = now_ms + self.wait_ms;
    }

    fn decide(&mut self, vote: Vote) -> ServerId {
        self.outcome = (vote, self.round);
        self.state = self.state_under(vote.leader);
        self.finalize_at_ms = None;
        if self.state == PeerState::Leading {
            self.established.clear();
        }
        vote.leader
    }

    fn state_under(&self, leader: ServerId) -> PeerState {
        if leader == self.me { PeerState::Leading } else { self.learner_state }
    }

    /// The notification that this server sends now.
    fn current(&self) -> VoteNotification {
        let (vote, round) = if self.state == PeerState::Looking { (self.proposal, self.round) } else { self.outcome };
        VoteNotification { state: self.state, vote, round, has_version: true }
    }
}
