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

mod bootstrap;
mod connect_to_leader;
mod unestablished_leader;

use crate::config_pair::Configs;
use crate::context::Context;
use crate::disk_pressure::Room;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason};
use crate::election::{Election, ElectionSettings, Link, Outgoing};
use crate::epoch::{Epoch, Epochs};
use crate::leader::{Candidate, Leader};
use crate::learner::{Claim, Learner};
use crate::liveness::Moved;
use crate::message::{LearnerKind, Message, Txn};
use crate::observer_master::{Master, Office};
use crate::options::PeerOptions;
use crate::recent_log::History;
use crate::timing::Timing;
use crate::vote::{Notification, Vote};
use connect_to_leader::Reach;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the configuration says about a member.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Its number.
    pub server: ServerId,
    /// Who is there, and who votes.
    pub configs: Configs,
    /// Of the ensemble.
    pub timing: Timing,
    /// Of elections.
    pub election: ElectionSettings,
    /// What most members leave alone.
    pub options: PeerOptions,
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
    Dialing {
        leader: ServerId,
        again_at_ms: Option<i64>,
    },
    Learning(Box<Learner>),
    /// What comes then, if that is known: this leader, without an election.
    Leaving {
        next: Option<ServerId>,
    },
}

/// A learner that a configuration sends elsewhere.
#[derive(Clone, Copy, Debug)]
struct Moving {
    /// Applied first, so that who asked for it has the answer.
    after: Zxid,
    next: Option<ServerId>,
}

/// The machine.
#[derive(Debug)]
pub struct Peer {
    settings: PeerSettings,
    kind: LearnerKind,
    moving: Option<Moving>,
    epochs: Epochs,
    /// The highest epoch that a voter is known to have accepted.
    known: Epoch,
    election: Election,
    role: Role,
    history: History,
    durable: Zxid,
    applied: Zxid,
    /// Everything up to here is agreed on, as far as this member has heard.
    committed: Zxid,
    /// A follower's observers.
    master: Option<Box<Master>>,
    /// Until then an observer does not look for a leader.
    rests_until_ms: i64,
    jobs: usize,
    reach: Reach,
    wants_snapshot: bool,
    /// A leader did not want this history, which may be longer than its own.
    is_turned_away: bool,
    standing: Standing,
    /// There are files of a history, which is in doubt.
    has_doubts: bool,
    /// Voters that have nothing.
    empty: BTreeSet<ServerId>,
    /// When that is believed.
    found_at_ms: Option<i64>,
    room: Room,
}

impl Peer {
    /// A member that has just started, with everything in its log applied.
    pub fn new(settings: PeerSettings, recovered: Recovered) -> Self {
        let Recovered { epochs, history, standing } = recovered;
        let last = history.last();
        let kind = settings.configs.kind_of(settings.server);
        let own = Vote { leader: settings.server, zxid: last, epoch: epochs.current.0 };
        Self {
            election: Election::new(settings.server, learns_as(kind), settings.election, own),
            settings,
            kind,
            moving: None,
            epochs,
            known: Epoch::ZERO,
            role: Role::Looking,
            history,
            durable: last,
            applied: last,
            committed: Zxid::ZERO,
            master: None,
            rests_until_ms: i64::MIN,
            jobs: 0,
            reach: Reach::default(),
            wants_snapshot: false,
            is_turned_away: false,
            standing,
            has_doubts: standing == Standing::Quarantined,
            empty: BTreeSet::new(),
            found_at_ms: None,
            room: Room::default(),
        }
    }

    /// Starts to look for a leader.
    pub fn start(&mut self, now_ms: i64, out: &mut Effects) {
        self.look(now_ms, out);
    }

    /// What this member is doing.
    pub fn state(&self) -> PeerState {
        match self.role {
            Role::Looking | Role::Leaving { .. } => PeerState::Looking,
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

    /// As follower that serves observers.
    pub fn master(&self) -> Option<&Master> {
        self.master.as_deref()
    }

    /// Who leads, as far as this member knows.
    pub fn leader_id(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking | Role::Leaving { .. } => None,
            Role::Leading(_) => Some(self.settings.server),
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(_) => Some(self.election.vote().leader),
        }
    }

    /// The configurations it knows.
    pub fn configs(&self) -> &Configs {
        &self.settings.configs
    }

    /// What it may claim.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What it is when somebody else leads.
    pub fn kind(&self) -> LearnerKind {
        self.kind
    }

    /// Whether there are files of a history which is in doubt.
    pub fn has_doubts(&self) -> bool {
        self.has_doubts && self.standing == Standing::Quarantined
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
            Role::Dialing { again_at_ms, .. } => {
                again_at_ms.or(self.found_at_ms).into_iter().chain(self.reach_deadline()).min()
            }
            Role::Learning(learner) => {
                let of_observers = self.master.as_ref().and_then(|master| master.deadline());
                learner.deadline().into_iter().chain(of_observers).chain(self.reach_deadline()).min()
            }
            Role::Leaving { .. } => Some(self.rests_until_ms).filter(|_| self.is_idle()),
        }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now_ms: i64, out: &mut Effects) {
        let is_open = matches!(self.role, Role::Looking | Role::Dialing { .. });
        if is_open && self.found_at_ms.take_if(|at| *at <= now_ms).is_some() {
            self.jobs += 1;
            out.push(Effect::Disk(DiskJob::Found));
        }
        if self.reach_deadline().is_some_and(|at| at <= now_ms) {
            return self.leave(now_ms, Reason::Silence, out);
        }
        match &mut self.role {
            Role::Looking => {
                let mut notes = Outgoing::new();
                let elected = self.election.on_time(now_ms, self.settings.configs.quorums(), &mut notes);
                self.after_election(now_ms, elected, notes, out);
            }
            Role::Dialing { leader, again_at_ms, .. } => {
                if again_at_ms.take_if(|at| *at <= now_ms).is_some() {
                    out.push(Effect::Dial(*leader));
                }
            }
            Role::Leading(_) => {
                self.probe_others(now_ms, out);
                self.lead(now_ms, out, |leader, cx| leader.on_time(cx));
                self.give_way(now_ms, out);
            }
            Role::Learning(_) => {
                self.learn(now_ms, out, |learner, cx| learner.on_time(cx));
                self.serve(now_ms, out, |master, cx| master.on_time(cx));
            }
            Role::Leaving { .. } => self.leave_further(now_ms, out),
        }
    }

    /// The disk is nearly full, or is not. Who has no room gives up its office if others can go on, and stands back in
    /// elections.
    pub fn on_room(&mut self, now_ms: i64, is_low: bool, out: &mut Effects) {
        self.room.measured(is_low);
        self.give_way(now_ms, out);
    }

    fn give_way(&mut self, now_ms: i64, out: &mut Effects) {
        let can_be_replaced = self.leader().is_some_and(Leader::can_be_replaced);
        if can_be_replaced && self.room.gives_up(now_ms, self.settings.timing.init_ms()) {
            self.leave(now_ms, Reason::NoRoom, out);
        }
    }

    /// A server says something on the election port.
    pub fn on_notification(&mut self, now_ms: i64, from: ServerId, note: Notification, out: &mut Effects) {
        if matches!(self.role, Role::Leaving { .. }) {
            return; // the vote is not known yet
        }
        if self.is_deserted(now_ms, from, &note) {
            return self.leave(now_ms, Reason::Deserted, out);
        }
        self.note_emptiness(now_ms, from, &note, out);
        self.note_vote_of_leader(now_ms, from, &note);
        let mut notes = Outgoing::new();
        let elected = self.election.on_notification(now_ms, from, note, self.settings.configs.quorums(), &mut notes);
        self.after_election(now_ms, elected, notes, out);
        self.yield_to_other_leader(now_ms, out);
    }

    /// A server says which configuration is in force. It counts if it is newer, and comes from a server that is known
    /// (K102), while nobody leads.
    pub fn on_config(&mut self, now_ms: i64, from: ServerId, ensemble: Arc<Ensemble>, out: &mut Effects) {
        let configs = &self.settings.configs;
        let is_news = configs.committed().version() < ensemble.version();
        if !matches!(self.role, Role::Looking) || !configs.is_dynamic() || !configs.is_member(from) || !is_news {
            return;
        }
        let is_same = configs.committed().is_same(&ensemble);
        let effect = Effect::Activate(ensemble, None);
        if self.takes_config(&effect) {
            out.push(effect);
            if !is_same {
                self.look(now_ms, out);
            }
        }
    }

    /// An election connection has come up or gone down.
    pub fn on_election_link(&mut self, now_ms: i64, server: ServerId, link: Link, out: &mut Effects) {
        let mut notes = Outgoing::new();
        let elected = self.election.on_link(now_ms, server, link, self.settings.configs.quorums(), &mut notes);
        if !matches!(self.role, Role::Leaving { .. }) {
            self.after_election(now_ms, elected, notes, out);
        }
    }

    /// A dial to `leader` has succeeded or failed. It may have been given up meanwhile.
    pub fn on_dialed(&mut self, now_ms: i64, leader: ServerId, link: Option<LinkId>, out: &mut Effects) {
        if !matches!(self.role, Role::Dialing { leader: dialled, .. } if dialled == leader) {
            out.extend(link.map(Effect::Close));
            return;
        }
        let Some(link) = link else { return self.dial_again(now_ms, leader, out) };
        self.found_at_ms = None; // the leader knows better
        let claim = Claim {
            server: self.settings.server,
            kind: self.kind,
            epochs: self.epochs,
            last: self.durable,
            config_version: self.settings.configs.committed().version(),
            is_dynamic: self.settings.configs.is_dynamic(),
            wants_snapshot: self.wants_snapshot,
            standing: self.standing,
        };
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let PeerSettings { timing, options, .. } = self.settings;
        let learner = Learner::new(claim, timing, link, options.request_window_bytes, &mut cx);
        self.role = Role::Learning(Box::new(learner));
    }

    /// A learner has connected.
    pub fn on_link(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_link(cx, link)),
            _ if self.master.is_some() => self.serve(now_ms, out, |master, cx| master.on_link(cx.now_ms, link)),
            _ => out.push(Effect::Close(link)),
        }
    }

    /// A connection is gone.
    pub fn on_link_gone(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, _| leader.on_link_gone(link)),
            Role::Learning(learner) if learner.link() == link => {
                // Whoever stands before a leader may take connections that the leader does not take yet.
                let leader = self.election.vote().leader;
                self.is_turned_away |= learner.is_judged();
                if learner.has_heard() {
                    self.leave(now_ms, Reason::LinkLost, out);
                } else {
                    self.dial_again(now_ms, leader, out);
                }
            }
            _ => self.serve(now_ms, out, |master, _| master.on_link_gone(link)),
        }
        self.trim();
    }

    /// Bytes have come or gone, also less than a packet.
    pub fn on_progress(&mut self, now_ms: i64, link: LinkId, moved: Moved) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_progress(now_ms, link, moved),
            Role::Learning(learner) if learner.link() == link => learner.on_progress(now_ms, moved),
            _ => self.master.iter_mut().for_each(|master| master.on_progress(now_ms, link, moved)),
        }
    }

    /// The socket of a link has taken packets of [`Effect::Send`], so many bytes by [`Message::flow_bytes`].
    pub fn on_sent(&mut self, now_ms: i64, link: LinkId, bytes: usize, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_sent(cx, link, bytes)),
            Role::Learning(learner) if learner.link() == link => learner.on_sent(out, bytes),
            _ => self.serve(now_ms, out, |master, cx| master.on_sent(cx, link, bytes)),
        }
        self.trim();
    }

    /// Drops what is applied and no learner lacks.
    fn trim(&mut self) {
        let of_leader = self.leader().and_then(Leader::pinned);
        let of_master = self.master.as_ref().and_then(|master| master.pinned());
        self.history.trim(self.applied, of_leader.or(of_master).unwrap_or(Zxid(i64::MAX)));
    }

    /// Sends a packet that is not about history: behind the commits before it, and not faster than its link takes it.
    pub fn send(&mut self, link: LinkId, message: Message, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(leader) => leader.send(out, link, message),
            Role::Learning(learner) if learner.link() == link => learner.send(out, message),
            _ => self.master.iter_mut().for_each(|master| master.send(out, link, message.clone())),
        }
    }

    /// Whether a link's packets are taken now; others wait.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        match &self.role {
            Role::Learning(learner) if learner.link() == link => learner.takes_packets() && self.moving.is_none(),
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
            _ => self.serve(now_ms, out, |master, cx| master.on_message(cx, link, message)),
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
        match self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_looked_up(cx, link, below)),
            _ => self.serve(now_ms, out, |master, cx| master.on_looked_up(cx, link, below)),
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
                (self.wants_snapshot, self.is_turned_away, self.standing) = (false, false, Standing::History);
            }
            DiskDone::Installed(zxid) => (self.durable, self.applied, self.committed) = (zxid, zxid, zxid),
            DiskDone::Truncated(Some(zxid)) => {
                self.durable = zxid;
                (self.applied, self.committed) = (self.applied.min(zxid), self.committed.min(zxid));
                self.history.truncate(zxid);
                if self.settings.configs.forget_behind(zxid) {
                    out.push(Effect::Seen(Arc::clone(self.settings.configs.committed())));
                }
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
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => self.leave_further(now_ms, out),
        }
    }

    /// The disk holds everything up to `durable`.
    pub fn on_durable(&mut self, now_ms: i64, durable: Zxid, out: &mut Effects) {
        self.durable = durable.max(self.durable);
        match &self.role {
            Role::Leading(_) => self.lead(now_ms, out, |leader, cx| leader.on_durable(cx, durable)),
            Role::Learning(_) => self.learn(now_ms, out, |learner, cx| learner.on_durable(durable, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => self.leave_further(now_ms, out),
        }
    }

    /// The state contains everything up to `applied`.
    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
        self.trim();
        if let Role::Leading(leader) = &mut self.role {
            leader.on_applied(applied);
        }
        self.master.iter_mut().for_each(|master| master.on_applied(applied));
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
        if self.moving.is_some_and(|moving| moving.after <= self.applied) {
            self.leave(now_ms, Reason::Reconfigured, out);
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
        self.yield_to_higher_epoch(now_ms, out);
    }

    fn learn(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Learner, &mut Context<'_>)) {
        let from = out.len();
        if let Role::Learning(learner) = &mut self.role {
            step(learner, &mut Context { now_ms, history: &mut self.history, out });
        }
        self.after_step(now_ms, from, out);
    }

    fn serve(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Master, &mut Context<'_>)) {
        if let Some(master) = &mut self.master {
            step(master, &mut Context { now_ms, history: &mut self.history, out });
        }
    }

    /// Notes what a role has asked for that concerns the whole.
    fn after_step(&mut self, now_ms: i64, from: usize, out: &mut Effects) {
        let (mut left, mut up_to_date, mut has_config) = (None, None, false);
        for effect in &out[from..] {
            match effect {
                Effect::Disk(_) => self.jobs += 1,
                Effect::Established(epoch) => {
                    self.election.on_epoch(epoch.0);
                    self.reach.reset();
                }
                Effect::UpToDate(epoch) => {
                    self.election.on_epoch(epoch.0);
                    self.reach.reset();
                    up_to_date = Some(*epoch);
                }
                Effect::Commit(zxid) => self.committed = self.committed.max(*zxid),
                Effect::Leave(reason) => left = Some(reason.clone()),
                Effect::Seen(_) | Effect::Activate(..) => has_config = true,
                _ => (),
            }
        }
        if has_config {
            for effect in out.split_off(from) {
                if self.takes_config(&effect) {
                    if let (Some(master), Effect::Activate(ensemble, leader)) = (&mut self.master, &effect) {
                        master.on_activate(ensemble, *leader);
                    }
                    out.push(effect);
                }
            }
        }
        if let Some(reason) = left {
            out.retain(|effect| !matches!(effect, Effect::Leave(_)));
            return self.leave(now_ms, reason, out);
        }
        if let Some(epoch) = up_to_date {
            self.begin_to_serve(now_ms, epoch, out);
        }
        let committed = self.committed;
        self.serve(now_ms, out, |master, cx| master.on_commit(cx, committed));
    }

    /// Lets observers come.
    fn begin_to_serve(&mut self, now_ms: i64, epoch: Epoch, out: &mut Effects) {
        let PeerSettings { timing, options, .. } = self.settings;
        if options.serves_observers && self.kind == LearnerKind::Follower {
            let in_force = self.settings.configs.committed();
            let (config, config_version) = (in_force.to_string().into(), in_force.version());
            let (committed, applied) = (self.committed, self.applied);
            let office = Office { epoch, config, config_version, committed, applied };
            self.master = Some(Box::new(Master::new(office, timing, options, now_ms)));
            out.push(Effect::ServeObservers);
        }
    }

    /// Notes what a configuration changes for this member. False if it changes nothing.
    fn takes_config(&mut self, effect: &Effect) -> bool {
        let configs = &mut self.settings.configs;
        let (ensemble, leader) = match effect {
            Effect::Seen(_) | Effect::Activate(..) if !configs.is_dynamic() => return false,
            Effect::Seen(ensemble) => {
                configs.see(Arc::clone(ensemble));
                return true;
            }
            Effect::Activate(ensemble, leader) => (ensemble, *leader),
            _ => return true,
        };
        let before = Arc::clone(configs.committed());
        if !configs.commit(Arc::clone(ensemble)) {
            return false;
        }
        if before.is_same(ensemble) {
            return true;
        }
        let kind = configs.kind_of(self.settings.server);
        let is_other = std::mem::replace(&mut self.kind, kind) != kind;
        self.election.set_learns_as(learns_as(kind));
        if let Role::Learning(learner) = &self.role {
            let old = self.election.vote().leader;
            let has_other_leader =
                leader.map_or_else(|| !is_found_alike(old, &before, ensemble), |leader| leader != old);
            if is_other || has_other_leader {
                let waits = leader.is_some() && learner.is_active();
                let after = if waits { Zxid(ensemble.version()) } else { Zxid(i64::MIN) };
                self.moving = Some(Moving { after, next: leader });
            }
        }
        true
    }

    fn leave(&mut self, now_ms: i64, reason: Reason, out: &mut Effects) {
        self.note_unreached(now_ms);
        self.wants_snapshot |= reason == Reason::NeedsSnapshot;
        let moving = self.moving.take().and_then(|moving| moving.next);
        let next = if let Reason::HandedOver(next) = reason { Some(next) } else { moving };
        let role = std::mem::replace(&mut self.role, Role::Leaving { next });
        match &role {
            Role::Leading(leader) => {
                self.known = self.known.max(leader.highest_accepted());
                out.extend(leader.links().map(Effect::Close));
            }
            Role::Learning(learner) => out.push(Effect::Close(learner.link())),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => (),
        }
        if let Some(master) = self.master.take() {
            out.extend(master.links().map(Effect::Close));
        }
        let rest_ms = self.settings.options.observer_rest_ms;
        if self.kind == LearnerKind::Observer && matches!(role, Role::Learning(_) | Role::Dialing { .. }) {
            self.rests_until_ms = now_ms + below(rest_ms, now_ms, self.settings.server);
        }
        out.push(Effect::Leave(reason));
        self.leave_further(now_ms, out);
    }

    /// Whether the disk has nothing of the old role to do.
    fn is_idle(&self) -> bool {
        self.jobs == 0 && self.durable == self.history.last()
    }

    /// Looks for a leader as soon as the disk is ready, and an observer has rested.
    fn leave_further(&mut self, now_ms: i64, out: &mut Effects) {
        let Role::Leaving { next } = self.role else { return };
        if !self.is_idle() || now_ms < self.rests_until_ms {
            return;
        }
        match next.filter(|_| self.standing == Standing::History) {
            None => self.look(now_ms, out),
            Some(leader) => {
                self.election.appoint(leader, self.durable);
                self.after_election(now_ms, Some(leader), Outgoing::new(), out);
            }
        }
    }

    fn look(&mut self, now_ms: i64, out: &mut Effects) {
        self.role = Role::Looking;
        out.push(Effect::Looking);
        let mut notes = Outgoing::new();
        self.election.set_fallback(self.fallback_vote());
        let elected = self.election.look(now_ms, self.own_vote(), self.settings.configs.quorums(), &mut notes);
        self.after_election(now_ms, elected, notes, out);
        self.count_empty(now_ms);
    }

    /// Whether others should lead: it has no room, or is a voter only in a configuration which is not in force. Where
    /// nothing can be agreed on without it, that its disk is full concerns everybody.
    fn stands_back(&self) -> bool {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let has_no_room = self.room.is_low() && quorums.are_reached(|server| server != me);
        has_no_room || !quorums.committed.is_voter(me)
    }

    /// The vote for itself of a voter that stands back.
    fn fallback_vote(&self) -> Option<Vote> {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let may_stand = self.standing == Standing::History && quorums.is_voter(me) && self.stands_back();
        may_stand.then_some(Vote { leader: me, zxid: self.durable, epoch: self.epochs.current.0 })
    }

    fn own_vote(&self) -> Vote {
        let (zxid, Epoch(epoch)) = (self.durable, self.epochs.current);
        let server = self.settings.server;
        if self.kind == LearnerKind::Observer {
            Vote::nobody(Zxid(i64::MIN), i64::MIN)
        } else if self.standing != Standing::History {
            // Nobody counts a vote without an end. But those who have nothing see by the epoch that there was a history.
            let epoch = if self.has_doubts() { 0 } else { -1 };
            Vote { leader: server, zxid: Zxid(-1), epoch }
        } else if !self.stands_back() {
            Vote { leader: server, zxid, epoch }
        } else {
            let fallback = self.fallback_vote().filter(|_| self.is_turned_away);
            fallback.unwrap_or(Vote::nobody(zxid, epoch))
        }
    }

    fn after_election(&mut self, now_ms: i64, elected: Option<ServerId>, notes: Outgoing, out: &mut Effects) {
        out.extend(notes.into_iter().map(|(to, note)| Effect::Notify(to, note)));
        let Some(leader) = elected else { return };
        if leader != self.settings.server {
            self.role = Role::Dialing { leader, again_at_ms: None };
            self.begin_to_reach(now_ms, leader);
            // Who has nothing knows first whether that is right: the leader is told, and the disk is prepared.
            if self.jobs == 0 && self.found_at_ms.is_none() {
                out.push(Effect::Dial(leader));
            }
            return;
        }
        out.push(Effect::Listen);
        let PeerSettings { server, timing, configs, options, .. } = self.settings.clone();
        let candidate = Candidate { server, epochs: self.epochs, known: self.known, options };
        let from = out.len();
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let leader = Leader::new(candidate, timing, configs, self.applied, &mut cx);
        self.role = Role::Leading(Box::new(leader));
        self.after_step(now_ms, from, out);
    }
}

/// Some time below a limit, which servers that ask at the same moment do not share.
fn below(limit_ms: i64, now_ms: i64, server: ServerId) -> i64 {
    let mixed = (now_ms.wrapping_mul(31).wrapping_add(server.0)).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let limit = limit_ms.max(1).unsigned_abs();
    ((mixed >> 32) % limit).cast_signed()
}

fn learns_as(kind: LearnerKind) -> PeerState {
    match kind {
        LearnerKind::Follower => PeerState::Following,
        LearnerKind::Observer => PeerState::Observing,
    }
}

/// Whether a leader votes in both configurations, and is found at the same place.
fn is_found_alike(leader: ServerId, before: &Ensemble, after: &Ensemble) -> bool {
    let at = |ensemble: &Ensemble| {
        let votes = ensemble.voters().any(|voter| voter == leader);
        votes.then(|| ensemble.members()[&leader].quorum.clone())
    };
    at(before).is_some() && at(before) == at(after)
}
