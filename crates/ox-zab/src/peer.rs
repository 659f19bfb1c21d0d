//! One member of an ensemble: looks for a leader, leads or learns, and starts over.
//!
//! ```text
//!              elected: me                      Leave                 disk is idle
//!   looking ─────────────────► leading ───────────────────► leaving ─────────────────► looking
//!      └─────► dialing ─► learning ──────────────────────────┘
//! ```
//! Every claim (vote, hello, promise) is made of what the disk has reported. Leaving a role waits for the disk, so that
//! nothing of an old role can happen in a new one (R4).

#![expect(clippy::wildcard_enum_match_arm, reason = "a role takes what concerns it, the others take nothing")]

use crate::context::Context;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason};
use crate::election::{Election, ElectionSettings, Link, Outgoing};
use crate::epoch::{Epoch, Epochs};
use crate::history::History;
use crate::leader::{Candidate, Leader};
use crate::learner::{Claim, Learner};
use crate::message::{LearnerKind, Message, Txn};
use crate::quorum::Quorums;
use crate::timing::Timing;
use crate::vote::{Notification, Vote};
use bytes::Bytes;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeSet;

/// How often a leader that does not answer yet is dialled, and how long in between.
const DIALS_MAX: u32 = 10;
const DIAL_PAUSE_MS: i64 = 100;

/// How long nobody may contradict before servers are believed to have nothing.
const DOUBT_MS: i64 = 400;

/// What the configuration says about a member.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Its number.
    pub server: ServerId,
    /// Whether it votes.
    pub kind: LearnerKind,
    /// Who votes.
    pub quorums: Quorums,
    /// The configuration's text.
    pub config: Bytes,
    /// The configuration's version.
    pub config_version: i64,
    /// Of the ensemble.
    pub timing: Timing,
    /// Of elections.
    pub election: ElectionSettings,
}

/// What a member's disk holds when it starts.
#[derive(Debug)]
pub struct Recovered {
    /// The epochs.
    pub epochs: Epochs,
    /// The recent part of the log.
    pub history: History,
    /// What may be claimed.
    pub standing: Standing,
}

/// What a member may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its history.
    History,
    /// Nothing is stored, and nobody has said that this is right: it may have been lost. It takes part when a quorum
    /// with it is known to have nothing either.
    Empty,
    /// What is in the files is in doubt: only a leader's history can help.
    Quarantined,
}

#[derive(Debug)]
enum Role {
    Looking,
    Leading(Box<Leader>),
    Dialing { leader: ServerId, again_at_ms: Option<i64> },
    Learning(Box<Learner>),
    Leaving,
}

/// The machine.
#[derive(Debug)]
pub struct Peer {
    settings: PeerSettings,
    epochs: Epochs,
    election: Election,
    role: Role,
    history: History,
    durable: Zxid,
    applied: Zxid,
    jobs: usize,
    /// Attempts to reach the leader.
    dials: u32,
    wants_snapshot: bool,
    standing: Standing,
    /// Voters that have nothing.
    empty: BTreeSet<ServerId>,
    /// When that is believed.
    found_at_ms: Option<i64>,
}

impl Peer {
    /// A member that has just started, with everything in its log applied.
    pub fn new(settings: PeerSettings, recovered: Recovered) -> Self {
        let Recovered { epochs, history, standing } = recovered;
        let last = history.last();
        let learns_as = match settings.kind {
            LearnerKind::Follower => PeerState::Following,
            LearnerKind::Observer => PeerState::Observing,
        };
        let own = Vote { leader: settings.server, zxid: last, epoch: epochs.current.0 };
        Self {
            election: Election::new(settings.server, learns_as, settings.election, own),
            settings,
            epochs,
            role: Role::Looking,
            history,
            durable: last,
            applied: last,
            jobs: 0,
            dials: 0,
            wants_snapshot: false,
            standing,
            empty: BTreeSet::new(),
            found_at_ms: None,
        }
    }

    /// Starts to look for a leader.
    pub fn start(&mut self, now_ms: i64, out: &mut Effects) {
        self.look(now_ms, out);
    }

    /// What this member is doing.
    pub fn state(&self) -> PeerState {
        match self.role {
            Role::Looking | Role::Leaving => PeerState::Looking,
            Role::Leading(_) | Role::Dialing { .. } | Role::Learning(_) => self.election.state(),
        }
    }

    /// As leader.
    pub fn leader(&self) -> Option<&Leader> {
        if let Role::Leading(leader) = &self.role { Some(leader) } else { None }
    }

    /// As learner.
    pub fn learner(&self) -> Option<&Learner> {
        if let Role::Learning(learner) = &self.role { Some(learner) } else { None }
    }

    /// Who leads, as far as this member knows.
    pub fn leader_id(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking | Role::Leaving => None,
            Role::Leading(_) => Some(self.settings.server),
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(_) => Some(self.election.vote().leader),
        }
    }

    /// What it may claim.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What its disk remembers.
    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// When [`Self::on_time`] wants to be called.
    pub fn deadline(&self) -> Option<i64> {
        match &self.role {
            Role::Looking => self.election.deadline().into_iter().chain(self.found_at_ms).min(),
            Role::Leading(leader) => Some(leader.deadline()),
            Role::Dialing { again_at_ms, .. } => again_at_ms.or(self.found_at_ms),
            Role::Learning(learner) => learner.deadline(),
            Role::Leaving => None,
        }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now_ms: i64, out: &mut Effects) {
        if self.found_at_ms.take_if(|at| *at <= now_ms).is_some() {
            self.jobs += 1;
            out.push(Effect::Disk(DiskJob::Found));
        }
        match &mut self.role {
            Role::Looking => {
                let mut notes = Outgoing::new();
                let elected = self.election.on_time(now_ms, &self.settings.quorums, &mut notes);
                self.after_election(now_ms, elected, notes, out);
            }
            Role::Dialing { leader, again_at_ms, .. } => {
                if again_at_ms.take_if(|at| *at <= now_ms).is_some() {
                    out.push(Effect::Dial(*leader));
                }
            }
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_time(cx)),
            Role::Learning(_) => self.learn(now_ms, out, |learner, cx| learner.on_time(cx)),
            Role::Leaving => (),
        }
    }

    /// A server says something on the election port.
    pub fn on_notification(&mut self, now_ms: i64, from: ServerId, note: Notification, out: &mut Effects) {
        if matches!(self.role, Role::Leaving) {
            return; // the vote is not known yet
        }
        self.note_emptiness(now_ms, from, &note, out);
        let mut notes = Outgoing::new();
        let elected = self.election.on_notification(now_ms, from, note, &self.settings.quorums, &mut notes);
        self.after_election(now_ms, elected, notes, out);
    }

    /// An election connection has come up or gone down.
    pub fn on_election_link(&mut self, now_ms: i64, server: ServerId, link: Link, out: &mut Effects) {
        let mut notes = Outgoing::new();
        let elected = self.election.on_link(now_ms, server, link, &self.settings.quorums, &mut notes);
        if !matches!(self.role, Role::Leaving) {
            self.after_election(now_ms, elected, notes, out);
        }
    }

    /// The leader was reached, or not.
    pub fn on_dialed(&mut self, now_ms: i64, link: Option<LinkId>, out: &mut Effects) {
        let Role::Dialing { leader, .. } = self.role else {
            out.extend(link.map(Effect::Close));
            return;
        };
        let Some(link) = link else { return self.dial_again(now_ms, leader, out) };
        let claim = Claim {
            server: self.settings.server,
            kind: self.settings.kind,
            epochs: self.epochs,
            last: self.durable,
            config_version: self.settings.config_version,
            wants_snapshot: self.wants_snapshot,
            standing: self.standing,
        };
        let mut cx = Context { now_ms, history: &mut self.history, out };
        self.role = Role::Learning(Box::new(Learner::new(claim, self.settings.timing, link, &mut cx)));
    }

    /// A learner has connected.
    pub fn on_link(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_link(cx, link)),
            _ => out.push(Effect::Close(link)),
        }
    }

    /// A connection is gone.
    pub fn on_link_gone(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_link_gone(link),
            Role::Learning(learner) if learner.link() == link => {
                // Whoever stands before a leader may take connections that the leader does not take yet.
                let leader = self.election.vote().leader;
                if learner.has_heard() {
                    self.leave(now_ms, Reason::LinkLost, out);
                } else {
                    self.dial_again(now_ms, leader, out);
                }
            }
            _ => (),
        }
    }

    /// The leader was not reached, or has said nothing.
    fn dial_again(&mut self, now_ms: i64, leader: ServerId, out: &mut Effects) {
        self.dials += 1;
        if DIALS_MAX <= self.dials || self.election.knows_gone(leader) {
            return self.leave(now_ms, Reason::LinkLost, out);
        }
        self.role = Role::Dialing { leader, again_at_ms: Some(now_ms + DIAL_PAUSE_MS) };
    }

    /// Bytes have come or gone, also less than a packet.
    pub fn on_progress(&mut self, now_ms: i64, link: LinkId) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_progress(now_ms, link),
            Role::Learning(learner) if learner.link() == link => learner.on_heard(now_ms),
            _ => (),
        }
    }

    /// Whether a link's packets are taken now; others wait.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        match &self.role {
            Role::Learning(learner) if learner.link() == link => learner.takes_packets(),
            _ => true,
        }
    }

    /// A packet.
    pub fn on_message(&mut self, now_ms: i64, link: LinkId, message: Message, out: &mut Effects) {
        match &self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_message(cx, link, message)),
            Role::Learning(learner) if learner.link() == link => {
                self.learn(now_ms, out, |learner, cx| learner.on_message(message, cx));
            }
            _ => (),
        }
    }

    /// The other end of a link has said something that cannot be: its word counts no more.
    pub fn on_violation(&mut self, now_ms: i64, link: LinkId, reason: Reason, out: &mut Effects) {
        if self.learner().is_some_and(|learner| learner.link() == link) {
            self.leave(now_ms, reason, out);
        } else {
            out.push(Effect::Close(link));
            self.on_link_gone(now_ms, link, out);
        }
    }

    /// The stored log has what a learner lacks before `below`; none if it has not.
    pub fn on_looked_up(&mut self, now_ms: i64, link: LinkId, below: Option<Zxid>, out: &mut Effects) {
        if let Role::Leading(_) = self.role {
            self.lead(now_ms, out, |leader, cx| leader.on_looked_up(cx, link, below));
        }
    }

    /// The leader's whole state has come in.
    pub fn on_loaded(&mut self, now_ms: i64) {
        if let Role::Learning(learner) = &mut self.role {
            learner.on_loaded(now_ms);
        }
    }

    /// The disk has finished a job.
    pub fn on_done(&mut self, now_ms: i64, done: DiskDone, out: &mut Effects) {
        self.jobs -= 1;
        match done {
            DiskDone::AcceptedEpoch(epoch) => self.epochs.accepted = epoch,
            DiskDone::CurrentEpoch(epoch) => {
                self.epochs.current = epoch;
                (self.wants_snapshot, self.standing) = (false, Standing::History);
            }
            DiskDone::Installed(zxid) => (self.durable, self.applied) = (zxid, zxid),
            DiskDone::Truncated(Some(zxid)) => {
                self.durable = zxid;
                self.applied = self.applied.min(zxid);
                self.history.truncate(zxid);
            }
            DiskDone::Truncated(None) => (),
            DiskDone::Founded if self.standing == Standing::Empty => self.standing = Standing::History,
            DiskDone::Founded => (),
        }
        match &self.role {
            Role::Looking if done == DiskDone::Founded => self.look(now_ms, out),
            Role::Dialing { leader, .. } if done == DiskDone::Founded => out.push(Effect::Dial(*leader)),
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_done(cx, done)),
            Role::Learning(_) => self.learn(now_ms, out, |learner, cx| learner.on_done(done, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving => self.leave_further(now_ms, out),
        }
    }

    /// The disk holds everything up to `durable`.
    pub fn on_durable(&mut self, now_ms: i64, durable: Zxid, out: &mut Effects) {
        self.durable = durable.max(self.durable);
        match &self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_durable(cx, durable)),
            Role::Learning(_) => self.learn(now_ms, out, |learner, cx| learner.on_durable(durable, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving => self.leave_further(now_ms, out),
        }
    }

    /// The state contains everything up to `applied`.
    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
        self.history.trim(applied);
        if let Role::Leading(leader) = &mut self.role {
            leader.on_applied(applied);
        }
    }

    /// Sends proposals of an established leader out.
    pub fn propose(&mut self, now_ms: i64, txns: impl IntoIterator<Item = Txn>, out: &mut Effects) {
        self.lead(now_ms, out, |leader, cx| leader.propose(cx, txns));
    }

    /// Asks the leadership to prove itself, behind everything up to `after`; answered by [`Effect::Synced`].
    pub fn on_sync(&mut self, id: u64, after: Zxid) {
        if let Role::Leading(leader) = &mut self.role {
            leader.on_sync(id, after);
        }
    }

    /// Ends a turn.
    pub fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        if let Role::Leading(_) = self.role {
            self.lead(now_ms, out, |leader, cx| leader.flush(cx));
        }
    }

    /// Gives up the role; the ensemble looks for another leader.
    pub fn step_down(&mut self, now_ms: i64, reason: Reason, out: &mut Effects) {
        self.leave(now_ms, reason, out);
    }

    fn lead(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Leader, &mut Context<'_>)) {
        let from = out.len();
        if let Role::Leading(leader) = &mut self.role {
            step(leader, &mut Context { now_ms, history: &mut self.history, out });
        }
        self.after_step(now_ms, from, out);
    }

    fn learn(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Learner, &mut Context<'_>)) {
        let from = out.len();
        if let Role::Learning(learner) = &mut self.role {
            step(learner, &mut Context { now_ms, history: &mut self.history, out });
        }
        self.after_step(now_ms, from, out);
    }

    /// Notes what a role has asked for that concerns the whole.
    fn after_step(&mut self, now_ms: i64, from: usize, out: &mut Effects) {
        let mut left = None;
        for effect in &out[from..] {
            match effect {
                Effect::Disk(_) => self.jobs += 1,
                Effect::Established(epoch) | Effect::UpToDate(epoch) => self.election.on_epoch(epoch.0),
                Effect::Leave(reason) => left = Some(reason.clone()),
                _ => (),
            }
        }
        if let Some(reason) = left {
            out.retain(|effect| !matches!(effect, Effect::Leave(_)));
            self.leave(now_ms, reason, out);
        }
    }

    fn leave(&mut self, now_ms: i64, reason: Reason, out: &mut Effects) {
        self.wants_snapshot |= reason == Reason::NeedsSnapshot;
        match std::mem::replace(&mut self.role, Role::Leaving) {
            Role::Leading(leader) => out.extend(leader.links().map(Effect::Close)),
            Role::Learning(learner) => out.push(Effect::Close(learner.link())),
            Role::Looking | Role::Dialing { .. } | Role::Leaving => (),
        }
        out.push(Effect::Leave(reason));
        self.leave_further(now_ms, out);
    }

    /// Looks for a leader as soon as the disk has nothing of the old role to do.
    fn leave_further(&mut self, now_ms: i64, out: &mut Effects) {
        if matches!(self.role, Role::Leaving) && self.jobs == 0 && self.durable == self.history.last() {
            self.look(now_ms, out);
        }
    }

    fn look(&mut self, now_ms: i64, out: &mut Effects) {
        self.role = Role::Looking;
        out.push(Effect::Looking);
        let mut notes = Outgoing::new();
        let elected = self.election.look(now_ms, self.own_vote(), &self.settings.quorums, &mut notes);
        self.after_election(now_ms, elected, notes, out);
    }

    /// A member that has nothing waits until it knows enough others that have nothing: then there is nothing to lose.
    /// Apache begins a connection with what it said last, however old; the truth follows at once, so it is waited for.
    fn note_emptiness(&mut self, now_ms: i64, from: ServerId, note: &Notification, out: &mut Effects) {
        let quorums = &self.settings.quorums;
        let is_open = matches!(self.role, Role::Looking | Role::Dialing { .. }) && self.standing == Standing::Empty;
        if !is_open || !quorums.is_voter(from) {
            return;
        }
        if Zxid::ZERO < note.vote.zxid || 0 < note.vote.epoch {
            self.standing = Standing::Quarantined;
            if let (Role::Dialing { leader, .. }, Some(_)) = (&self.role, self.found_at_ms.take()) {
                out.push(Effect::Dial(*leader));
            }
            return;
        }
        if note.state == PeerState::Looking {
            self.empty.insert(from);
        }
        let me = self.settings.server;
        if self.jobs == 0 && quorums.are_reached(|server| server == me || self.empty.contains(&server)) {
            self.found_at_ms.get_or_insert(now_ms + DOUBT_MS);
        }
    }

    fn own_vote(&self) -> Vote {
        let (zxid, Epoch(epoch)) = (self.durable, self.epochs.current);
        let server = self.settings.server;
        if self.settings.kind == LearnerKind::Observer {
            Vote::nobody(Zxid(i64::MIN), i64::MIN)
        } else if self.standing != Standing::History {
            Vote { leader: server, zxid: Zxid(-1), epoch: -1 }
        } else if self.settings.quorums.committed.is_voter(server) {
            Vote { leader: server, zxid, epoch }
        } else {
            Vote::nobody(zxid, epoch)
        }
    }

    fn after_election(&mut self, now_ms: i64, elected: Option<ServerId>, notes: Outgoing, out: &mut Effects) {
        out.extend(notes.into_iter().map(|(to, note)| Effect::Notify(to, note)));
        let Some(leader) = elected else { return };
        if leader != self.settings.server {
            (self.role, self.dials) = (Role::Dialing { leader, again_at_ms: None }, 0);
            // Who has nothing knows first whether that is right: the leader is told, and the disk is prepared.
            if self.jobs == 0 && self.found_at_ms.is_none() {
                out.push(Effect::Dial(leader));
            }
            return;
        }
        out.push(Effect::Listen);
        let PeerSettings { server, config, config_version, timing, quorums, .. } = self.settings.clone();
        let candidate = Candidate { server, epochs: self.epochs, config, config_version };
        let from = out.len();
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let leader = Leader::new(candidate, timing, quorums, self.applied, &mut cx);
        self.role = Role::Leading(Box::new(leader));
        self.after_step(now_ms, from, out);
    }
}

/// What a finished job reports.
impl DiskJob {
    /// The report that everything went well.
    pub fn done(self) -> DiskDone {
        match self {
            Self::AcceptedEpoch(epoch) => DiskDone::AcceptedEpoch(epoch),
            Self::CurrentEpoch(epoch) => DiskDone::CurrentEpoch(epoch),
            Self::Truncate(zxid) => DiskDone::Truncated(Some(zxid)),
            Self::Install(zxid) => DiskDone::Installed(zxid),
            Self::Found => DiskDone::Founded,
        }
    }
}
