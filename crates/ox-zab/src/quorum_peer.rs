//! One member of an ensemble (`QuorumPeer`): runs elections, then leads or learns, and starts over.
//!
//! ```text
//!              elected: me                    step down                disk is idle
//!   Looking ─────────────────► Leading ───────────────────► Leaving ─────────────────► Looking
//!      └──────► Dialing ─► Learning ───────────────────────────┘
//! ```
//! Votes, hellos and accepted epochs are made only from what the disk has reported. A role ends only when the disk has
//! finished its jobs, so that nothing of an old role takes effect in a new one (R4).

#![expect(clippy::wildcard_enum_match_arm, reason = "a role handles the events that concern it")]

mod bootstrap;
mod connect_to_leader;
mod unestablished_leader;

use crate::config_pair::ConfigPair;
use crate::context::Context;
use crate::disk_pressure::DiskPressure;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason};
use crate::election::{Election, ElectionConnection, ElectionSettings, Outgoing};
use crate::epoch::{Epoch, Epochs};
use crate::leader::{Leader, LeaderInit};
use crate::learner::{Learner, LearnerInit};
use crate::liveness::Traffic;
use crate::message::{EncodedTxn, LearnerKind, Message};
use crate::observer_master::{ObserverMaster, ServingState};
use crate::options::PeerOptions;
use crate::recent_log::RecentLog;
use crate::timing::Timing;
use crate::vote::{Vote, VoteNotification};
use connect_to_leader::ConnectAttempts;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_proto::quorum::notification::PeerState;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    pub server: ServerId,
    pub configs: ConfigPair,
    pub timing: Timing,
    pub election: ElectionSettings,
    pub options: PeerOptions,
}

/// What a member has recovered from its disk.
#[derive(Debug)]
pub struct Recovered {
    pub epochs: Epochs,
    pub history: RecentLog,
    pub eligibility: Eligibility,
}

/// Whether a member may vote and be counted with the history on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It may, with all of its history.
    HasHistory,
    /// The data directory is empty: the member is new, or has lost its disk. It may vote after bootstrap, or after a
    /// leader has synchronised it.
    Empty,
    /// The files may lack acknowledged transactions. The member needs a leader's snapshot.
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
    /// The role has ended; the disk still works for it. `next` is the leader that follows without an election.
    Leaving {
        next: Option<ServerId>,
    },
}

/// A configuration gives this learner another leader or another kind.
#[derive(Clone, Copy, Debug)]
struct RoleChange {
    /// Applied before the role ends, so that the requesting client gets its reply.
    after: Zxid,
    next: Option<ServerId>,
}

/// The state machine of a member.
#[derive(Debug)]
pub struct QuorumPeer {
    settings: PeerSettings,
    kind: LearnerKind,
    role_change: Option<RoleChange>,
    epochs: Epochs,
    /// The highest epoch that a voter is known to have accepted.
    known_accepted: Epoch,
    election: Election,
    role: Role,
    history: RecentLog,
    durable: Zxid,
    applied: Zxid,
    /// The last transaction that this member knows to be committed.
    committed: Zxid,
    /// Serves observers, while this member is a follower.
    observer_master: Option<Box<ObserverMaster>>,
    /// An observer that lost its leader does not start an election before this time.
    look_again_at_ms: i64,
    disk_jobs: usize,
    attempts: ConnectAttempts,
    wants_snapshot: bool,
    /// A leader refused this member's history, which may be ahead of the leader's.
    was_rejected: bool,
    eligibility: Eligibility,
    /// The disk has files that are not used, because they are in doubt.
    has_quarantined_files: bool,
    /// Voters that have reported to be empty.
    empty: BTreeSet<ServerId>,
    /// When this empty member initialises its log, unless a voter contradicts.
    bootstrap_at_ms: Option<i64>,
    disk_pressure: DiskPressure,
}

impl QuorumPeer {
    /// A member that has just started, with its whole log applied.
    pub fn new(settings: PeerSettings, recovered: Recovered) -> Self {
        let Recovered { epochs, history, eligibility } = recovered;
        let last = history.last();
        let kind = settings.configs.kind_of(settings.server);
        let own = Vote { leader: settings.server, zxid: last, epoch: epochs.current.0 };
        Self {
            election: Election::new(settings.server, learner_state(kind), settings.election, own),
            settings,
            kind,
            role_change: None,
            epochs,
            known_accepted: Epoch::ZERO,
            role: Role::Looking,
            history,
            durable: last,
            applied: last,
            committed: Zxid::ZERO,
            observer_master: None,
            look_again_at_ms: i64::MIN,
            disk_jobs: 0,
            attempts: ConnectAttempts::default(),
            wants_snapshot: false,
            was_rejected: false,
            eligibility,
            has_quarantined_files: eligibility == Eligibility::Quarantined,
            empty: BTreeSet::new(),
            bootstrap_at_ms: None,
            disk_pressure: DiskPressure::default(),
        }
    }

    pub fn start(&mut self, now_ms: i64, out: &mut Effects) {
        self.start_election(now_ms, out);
    }

    pub fn state(&self) -> PeerState {
        match self.role {
            Role::Looking | Role::Leaving { .. } => PeerState::Looking,
            Role::Leading(_) | Role::Dialing { .. } | Role::Learning(_) => self.election.state(),
        }
    }

    pub fn leader(&self) -> Option<&Leader> {
        if let Role::Leading(leader) = &self.role { Some(leader) } else { None }
    }

    pub fn learner(&self) -> Option<&Learner> {
        if let Role::Learning(learner) = &self.role { Some(learner) } else { None }
    }

    pub fn observer_master(&self) -> Option<&ObserverMaster> {
        self.observer_master.as_deref()
    }

    /// The leader that this member has elected, connects to or follows.
    pub fn leader_id(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking | Role::Leaving { .. } => None,
            Role::Leading(_) => Some(self.settings.server),
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(_) => Some(self.election.vote().leader),
        }
    }

    pub fn configs(&self) -> &ConfigPair {
        &self.settings.configs
    }

    pub fn eligibility(&self) -> Eligibility {
        self.eligibility
    }

    /// Follower or observer, when this server does not lead.
    pub fn kind(&self) -> LearnerKind {
        self.kind
    }

    /// Whether the disk has files of a history that is in doubt.
    pub fn has_quarantined_files(&self) -> bool {
        self.has_quarantined_files && self.eligibility == Eligibility::Quarantined
    }

    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// When the caller has to call [`Self::on_time`].
    pub fn deadline(&self) -> Option<i64> {
        match &self.role {
            Role::Looking => self.election.deadline().into_iter().chain(self.bootstrap_at_ms).min(),
            Role::Leading(leader) => Some(leader.deadline()),
            Role::Dialing { again_at_ms, .. } => {
                again_at_ms.or(self.bootstrap_at_ms).into_iter().chain(self.connect_deadline()).min()
            }
            Role::Learning(learner) => {
                let of_observers = self.observer_master.as_ref().and_then(|master| master.deadline());
                learner.deadline().into_iter().chain(of_observers).chain(self.connect_deadline()).min()
            }
            Role::Leaving { .. } => Some(self.look_again_at_ms).filter(|_| self.is_idle()),
        }
    }

    pub fn on_time(&mut self, now_ms: i64, out: &mut Effects) {
        let is_open = matches!(self.role, Role::Looking | Role::Dialing { .. });
        if is_open && self.bootstrap_at_ms.take_if(|at| *at <= now_ms).is_some() {
            self.disk_jobs += 1;
            out.push(Effect::Disk(DiskJob::InitializeLog));
        }
        if self.connect_deadline().is_some_and(|at| at <= now_ms) {
            return self.end_role(now_ms, Reason::Timeout, out);
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
                self.with_leader(now_ms, out, |leader, cx| leader.on_time(cx));
                self.step_down_if_disk_low(now_ms, out);
            }
            Role::Learning(_) => {
                self.with_learner(now_ms, out, |learner, cx| learner.on_time(cx));
                self.with_observer_master(now_ms, out, |master, cx| master.on_time(cx));
            }
            Role::Leaving { .. } => self.finish_leaving(now_ms, out),
        }
    }

    /// Reports whether the disk is nearly full. A leader whose disk is low steps down if a quorum remains; a voter
    /// whose disk is low does not stand for election.
    pub fn on_disk_pressure(&mut self, now_ms: i64, is_low: bool, out: &mut Effects) {
        self.disk_pressure.set_low(is_low);
        self.step_down_if_disk_low(now_ms, out);
    }

    fn step_down_if_disk_low(&mut self, now_ms: i64, out: &mut Effects) {
        let can_be_replaced = self.leader().is_some_and(Leader::can_be_replaced);
        if can_be_replaced && self.disk_pressure.should_step_down(now_ms, self.settings.timing.init_ms()) {
            self.end_role(now_ms, Reason::DiskLow, out);
        }
    }

    /// A notification arrived on the election port.
    pub fn on_notification(&mut self, now_ms: i64, from: ServerId, note: VoteNotification, out: &mut Effects) {
        if matches!(self.role, Role::Leaving { .. }) {
            return; // the vote depends on the disk
        }
        if self.has_lost_support(now_ms, from, &note) {
            return self.end_role(now_ms, Reason::LostSupport, out);
        }
        self.note_empty_voter(now_ms, from, &note, out);
        self.note_leader_vote(now_ms, from, &note);
        let mut notes = Outgoing::new();
        let elected = self.election.on_notification(now_ms, from, note, self.settings.configs.quorums(), &mut notes);
        self.after_election(now_ms, elected, notes, out);
        self.yield_to_other_leader(now_ms, out);
    }

    /// A server reported its committed configuration. A LOOKING member adopts it if it is newer and the sender is a
    /// member (K102).
    pub fn on_config(&mut self, now_ms: i64, from: ServerId, ensemble: Arc<Ensemble>, out: &mut Effects) {
        let configs = &self.settings.configs;
        let is_news = configs.committed().version() < ensemble.version();
        if !matches!(self.role, Role::Looking) || !configs.is_dynamic() || !configs.is_member(from) || !is_news {
            return;
        }
        let is_same = configs.committed().is_same(&ensemble);
        let effect = Effect::ActivateConfig(ensemble, None);
        if self.apply_config(&effect) {
            out.push(effect);
            if !is_same {
                self.start_election(now_ms, out);
            }
        }
    }

    pub fn on_election_link(&mut self, now_ms: i64, server: ServerId, link: ElectionConnection, out: &mut Effects) {
        let mut notes = Outgoing::new();
        let elected = self.election.on_link(now_ms, server, link, self.settings.configs.quorums(), &mut notes);
        if !matches!(self.role, Role::Leaving { .. }) {
            self.after_election(now_ms, elected, notes, out);
        }
    }

    /// A connection attempt to `leader` succeeded or failed. The role may have changed meanwhile.
    pub fn on_dialed(&mut self, now_ms: i64, leader: ServerId, link: Option<LinkId>, out: &mut Effects) {
        if !matches!(self.role, Role::Dialing { leader: dialled, .. } if dialled == leader) {
            out.extend(link.map(Effect::Close));
            return;
        }
        let Some(link) = link else { return self.dial_again(now_ms, leader, out) };
        self.bootstrap_at_ms = None; // the leader decides
        let claim = LearnerInit {
            server: self.settings.server,
            kind: self.kind,
            epochs: self.epochs,
            last: self.durable,
            config_version: self.settings.configs.committed().version(),
            is_dynamic: self.settings.configs.is_dynamic(),
            wants_snapshot: self.wants_snapshot,
            eligibility: self.eligibility,
        };
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let PeerSettings { timing, options, .. } = self.settings;
        let learner = Learner::new(claim, timing, link, options.request_window_bytes, &mut cx);
        self.role = Role::Learning(Box::new(learner));
    }

    pub fn on_link(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_link(cx, link)),
            _ if self.observer_master.is_some() => {
                self.with_observer_master(now_ms, out, |master, cx| master.on_link(cx.now_ms, link))
            }
            _ => out.push(Effect::Close(link)),
        }
    }

    pub fn on_link_gone(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, _| leader.on_link_gone(link)),
            Role::Learning(learner) if learner.link() == link => {
                // A proxy may accept before the leader listens.
                let leader = self.election.vote().leader;
                self.was_rejected |= learner.awaits_sync_choice();
                if learner.has_leader_info() {
                    self.end_role(now_ms, Reason::LinkLost, out);
                } else {
                    self.dial_again(now_ms, leader, out);
                }
            }
            _ => self.with_observer_master(now_ms, out, |master, _| master.on_link_gone(link)),
        }
        self.trim();
    }

    /// Bytes were received or sent, perhaps only a part of a packet.
    pub fn on_traffic(&mut self, now_ms: i64, link: LinkId, moved: Traffic) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_traffic(now_ms, link, moved),
            Role::Learning(learner) if learner.link() == link => learner.on_traffic(now_ms, moved),
            _ => self.observer_master.iter_mut().for_each(|master| master.on_traffic(now_ms, link, moved)),
        }
    }

    /// The socket has accepted packets of [`Effect::Send`]; `bytes` is the sum of their [`Message::flow_bytes`].
    pub fn on_sent(&mut self, now_ms: i64, link: LinkId, bytes: usize, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_sent(cx, link, bytes)),
            Role::Learning(learner) if learner.link() == link => learner.on_sent(out, bytes),
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_sent(cx, link, bytes)),
        }
        self.trim();
    }

    fn trim(&mut self) {
        let of_leader = self.leader().and_then(Leader::pinned);
        let of_observer_master = self.observer_master.as_ref().and_then(|master| master.pinned());
        self.history.trim(self.applied, of_leader.or(of_observer_master).unwrap_or(Zxid(i64::MAX)));
    }

    /// Sends a packet that concerns clients: after all commits so far, and subject to the send window of its link.
    pub fn send(&mut self, link: LinkId, message: Message, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(leader) => leader.send(out, link, message),
            Role::Learning(learner) if learner.link() == link => learner.send(out, message),
            _ => self.observer_master.iter_mut().for_each(|master| master.send(out, link, message.clone())),
        }
    }

    /// False if packets of this link have to wait, because the disk has to finish a job first.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        match &self.role {
            Role::Learning(learner) if learner.link() == link => learner.takes_packets() && self.role_change.is_none(),
            _ => true,
        }
    }

    pub fn on_message(&mut self, now_ms: i64, link: LinkId, message: Message, out: &mut Effects) {
        match &self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_message(cx, link, message)),
            Role::Learning(learner) if learner.link() == link => {
                self.with_learner(now_ms, out, |learner, cx| learner.on_message(message, cx));
            }
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_message(cx, link, message)),
        }
    }

    /// The peer violated the protocol. A learner ends its role; a leader closes the link.
    pub fn on_violation(&mut self, now_ms: i64, link: LinkId, reason: Reason, out: &mut Effects) {
        if self.learner().is_some_and(|learner| learner.link() == link) {
            self.end_role(now_ms, reason, out);
        } else {
            out.push(Effect::Close(link));
            self.on_link_gone(now_ms, link, out);
        }
    }

    /// Result of [`Effect::ReadLog`]: the on-disk log contains what the learner lacks before `below`, or does not.
    pub fn on_log_read(&mut self, now_ms: i64, link: LinkId, below: Option<Zxid>, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_log_read(cx, link, below)),
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_log_read(cx, link, below)),
        }
    }

    /// The leader's snapshot was received completely.
    pub fn on_snapshot_received(&mut self, now_ms: i64) {
        if let Role::Learning(learner) = &mut self.role {
            learner.on_snapshot_received(now_ms);
        }
    }

    pub fn on_done(&mut self, now_ms: i64, done: DiskDone, out: &mut Effects) {
        self.disk_jobs -= 1;
        match done {
            DiskDone::AcceptedEpoch(epoch) => self.epochs.accepted = epoch,
            DiskDone::CurrentEpoch(epoch) => {
                self.epochs.current = epoch;
                (self.wants_snapshot, self.was_rejected, self.eligibility) = (false, false, Eligibility::HasHistory);
            }
            DiskDone::Installed(zxid) => (self.durable, self.applied, self.committed) = (zxid, zxid, zxid),
            DiskDone::Truncated(Some(zxid)) => {
                self.durable = zxid;
                (self.applied, self.committed) = (self.applied.min(zxid), self.committed.min(zxid));
                self.history.truncate(zxid);
                if self.settings.configs.drop_proposed_after(zxid) {
                    out.push(Effect::ConfigProposed(Arc::clone(self.settings.configs.committed())));
                }
            }
            DiskDone::Truncated(None) => (),
            DiskDone::LogInitialized if self.eligibility == Eligibility::Empty => {
                self.eligibility = Eligibility::HasHistory
            }
            DiskDone::LogInitialized => (),
        }
        match &self.role {
            Role::Looking if done == DiskDone::LogInitialized => self.start_election(now_ms, out),
            Role::Dialing { leader, .. } if done == DiskDone::LogInitialized => out.push(Effect::Dial(*leader)),
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_done(cx, done)),
            Role::Learning(_) => self.with_learner(now_ms, out, |learner, cx| learner.on_done(done, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => self.finish_leaving(now_ms, out),
        }
    }

    /// The log is durable up to `durable`.
    pub fn on_durable(&mut self, now_ms: i64, durable: Zxid, out: &mut Effects) {
        self.durable = durable.max(self.durable);
        match &self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_durable(cx, durable)),
            Role::Learning(_) => self.with_learner(now_ms, out, |learner, cx| learner.on_durable(durable, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => self.finish_leaving(now_ms, out),
        }
    }

    /// The state has applied up to `applied`.
    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
        self.trim();
        if let Role::Leading(leader) = &mut self.role {
            leader.on_applied(applied);
        }
        self.observer_master.iter_mut().for_each(|master| master.on_applied(applied));
    }

    /// Proposes transactions of an established leader.
    pub fn propose(&mut self, now_ms: i64, txns: impl IntoIterator<Item = EncodedTxn>, out: &mut Effects) {
        self.with_leader(now_ms, out, |leader, cx| leader.propose(cx, txns));
    }

    /// Requests a proof of leadership, with everything up to `after` committed. [`Effect::Synced`] reports it.
    pub fn on_sync(&mut self, id: u64, after: Zxid) {
        if let Role::Leading(leader) = &mut self.role {
            leader.on_sync(id, after);
        }
    }

    /// Ends an iteration of the driver's loop.
    pub fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        if let Role::Leading(_) = self.role {
            self.with_leader(now_ms, out, |leader, cx| leader.flush(cx));
        }
        if self.role_change.is_some_and(|moving| moving.after <= self.applied) {
            self.end_role(now_ms, Reason::Reconfigured, out);
        }
    }

    /// Ends the role, and starts an election.
    pub fn step_down(&mut self, now_ms: i64, reason: Reason, out: &mut Effects) {
        self.end_role(now_ms, reason, out);
    }

    fn with_leader(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Leader, &mut Context<'_>)) {
        let from = out.len();
        if let Role::Leading(leader) = &mut self.role {
            step(leader, &mut Context { now_ms, history: &mut self.history, out });
        }
        self.after_step(now_ms, from, out);
        self.yield_to_higher_epoch(now_ms, out);
    }

    fn with_learner(&mut self, now_ms: i64, out: &mut Effects, step: impl FnOnce(&mut Learner, &mut Context<'_>)) {
        let from = out.len();
        if let Role::Learning(learner) = &mut self.role {
            step(learner, &mut Context { now_ms, history: &mut self.history, out });
        }
        self.after_step(now_ms, from, out);
    }

    fn with_observer_master(
        &mut self,
        now_ms: i64,
        out: &mut Effects,
        step: impl FnOnce(&mut ObserverMaster, &mut Context<'_>),
    ) {
        if let Some(master) = &mut self.observer_master {
            step(master, &mut Context { now_ms, history: &mut self.history, out });
        }
    }

    /// Handles effects of a role that concern the whole member.
    fn after_step(&mut self, now_ms: i64, from: usize, out: &mut Effects) {
        let (mut left, mut up_to_date, mut has_config) = (None, None, false);
        for effect in &out[from..] {
            match effect {
                Effect::Disk(_) => self.disk_jobs += 1,
                Effect::Established(epoch) => {
                    self.election.on_epoch(epoch.0);
                    self.attempts.reset();
                }
                Effect::UpToDate(epoch) => {
                    self.election.on_epoch(epoch.0);
                    self.attempts.reset();
                    up_to_date = Some(*epoch);
                }
                Effect::Commit(zxid) => self.committed = self.committed.max(*zxid),
                Effect::StepDown(reason) => left = Some(reason.clone()),
                Effect::ConfigProposed(_) | Effect::ActivateConfig(..) => has_config = true,
                _ => (),
            }
        }
        if has_config {
            for effect in out.split_off(from) {
                if self.apply_config(&effect) {
                    if let (Some(master), Effect::ActivateConfig(ensemble, leader)) =
                        (&mut self.observer_master, &effect)
                    {
                        master.on_activate(ensemble, *leader);
                    }
                    out.push(effect);
                }
            }
        }
        if let Some(reason) = left {
            out.retain(|effect| !matches!(effect, Effect::StepDown(_)));
            return self.end_role(now_ms, reason, out);
        }
        if let Some(epoch) = up_to_date {
            self.start_observer_master(now_ms, epoch, out);
        }
        let committed = self.committed;
        self.with_observer_master(now_ms, out, |master, cx| master.on_commit(cx, committed));
    }

    fn start_observer_master(&mut self, now_ms: i64, epoch: Epoch, out: &mut Effects) {
        let PeerSettings { timing, options, .. } = self.settings;
        if options.serves_observers && self.kind == LearnerKind::Follower {
            let committed_config = self.settings.configs.committed();
            let (config, config_version) = (committed_config.to_string().into(), committed_config.version());
            let (committed, applied) = (self.committed, self.applied);
            let office = ServingState { epoch, config, config_version, committed, applied };
            self.observer_master = Some(Box::new(ObserverMaster::new(office, timing, options, now_ms)));
            out.push(Effect::ServeObservers);
        }
    }

    /// Updates the configurations and this member's role. False if the effect brings nothing new.
    fn apply_config(&mut self, effect: &Effect) -> bool {
        let configs = &mut self.settings.configs;
        let (ensemble, leader) = match effect {
            Effect::ConfigProposed(_) | Effect::ActivateConfig(..) if !configs.is_dynamic() => return false,
            Effect::ConfigProposed(ensemble) => {
                configs.set_proposed(Arc::clone(ensemble));
                return true;
            }
            Effect::ActivateConfig(ensemble, leader) => (ensemble, *leader),
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
        self.election.set_learner_state(learner_state(kind));
        if let Role::Learning(learner) = &self.role {
            let old = self.election.vote().leader;
            let has_other_leader =
                leader.map_or_else(|| !has_same_address(old, &before, ensemble), |leader| leader != old);
            if is_other || has_other_leader {
                let waits = leader.is_some() && learner.is_active();
                let after = if waits { Zxid(ensemble.version()) } else { Zxid(i64::MIN) };
                self.role_change = Some(RoleChange { after, next: leader });
            }
        }
        true
    }

    fn end_role(&mut self, now_ms: i64, reason: Reason, out: &mut Effects) {
        self.note_connect_failure(now_ms);
        self.wants_snapshot |= reason == Reason::NeedsSnapshot;
        let moving = self.role_change.take().and_then(|moving| moving.next);
        let next = if let Reason::HandedOver(next) = reason { Some(next) } else { moving };
        let role = std::mem::replace(&mut self.role, Role::Leaving { next });
        match &role {
            Role::Leading(leader) => {
                self.known_accepted = self.known_accepted.max(leader.highest_accepted());
                out.extend(leader.links().map(Effect::Close));
            }
            Role::Learning(learner) => out.push(Effect::Close(learner.link())),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => (),
        }
        if let Some(master) = self.observer_master.take() {
            out.extend(master.links().map(Effect::Close));
        }
        let delay_ms = self.settings.options.observer_delay_ms;
        if self.kind == LearnerKind::Observer && matches!(role, Role::Learning(_) | Role::Dialing { .. }) {
            self.look_again_at_ms = now_ms + jitter_ms(delay_ms, now_ms, self.settings.server);
        }
        out.push(Effect::StepDown(reason));
        self.finish_leaving(now_ms, out);
    }

    /// Whether the disk has finished everything for the old role.
    fn is_idle(&self) -> bool {
        self.disk_jobs == 0 && self.durable == self.history.last()
    }

    /// Starts an election, or follows the designated leader, as soon as the disk is idle and an observer's delay is
    /// over.
    fn finish_leaving(&mut self, now_ms: i64, out: &mut Effects) {
        let Role::Leaving { next } = self.role else { return };
        if !self.is_idle() || now_ms < self.look_again_at_ms {
            return;
        }
        match next.filter(|_| self.eligibility == Eligibility::HasHistory) {
            None => self.start_election(now_ms, out),
            Some(leader) => {
                self.election.set_designated_leader(leader, self.durable);
                self.after_election(now_ms, Some(leader), Outgoing::new(), out);
            }
        }
    }

    fn start_election(&mut self, now_ms: i64, out: &mut Effects) {
        self.role = Role::Looking;
        out.push(Effect::Looking);
        let mut notes = Outgoing::new();
        self.election.set_fallback(self.fallback_vote());
        let elected = self.election.start_round(now_ms, self.own_vote(), self.settings.configs.quorums(), &mut notes);
        self.after_election(now_ms, elected, notes, out);
        self.check_bootstrap(now_ms);
    }

    /// Whether another voter should lead: the disk is low, or this server is a voter only in a proposed configuration.
    /// If no quorum exists without it, a low disk does not matter.
    fn should_abstain(&self) -> bool {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let is_disk_low = self.disk_pressure.is_low() && quorums.are_reached(|server| server != me);
        is_disk_low || !quorums.committed.is_voter(me)
    }

    /// The vote of a voter that abstains, for the case that no other voter has its history.
    fn fallback_vote(&self) -> Option<Vote> {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let may_stand = self.eligibility == Eligibility::HasHistory && quorums.is_voter(me) && self.should_abstain();
        may_stand.then_some(Vote { leader: me, zxid: self.durable, epoch: self.epochs.current.0 })
    }

    fn own_vote(&self) -> Vote {
        let (zxid, Epoch(epoch)) = (self.durable, self.epochs.current);
        let server = self.settings.server;
        if self.kind == LearnerKind::Observer {
            Vote::abstain(Zxid(i64::MIN), i64::MIN)
        } else if self.eligibility != Eligibility::HasHistory {
            // No server counts a vote with this zxid. Empty members recognise by the epoch that a history exists.
            let epoch = if self.has_quarantined_files() { 0 } else { -1 };
            Vote { leader: server, zxid: Zxid(-1), epoch }
        } else if !self.should_abstain() {
            Vote { leader: server, zxid, epoch }
        } else {
            let fallback = self.fallback_vote().filter(|_| self.was_rejected);
            fallback.unwrap_or(Vote::abstain(zxid, epoch))
        }
    }

    fn after_election(&mut self, now_ms: i64, elected: Option<ServerId>, notes: Outgoing, out: &mut Effects) {
        out.extend(notes.into_iter().map(|(to, note)| Effect::Notify(to, note)));
        let Some(leader) = elected else { return };
        if leader != self.settings.server {
            self.role = Role::Dialing { leader, again_at_ms: None };
            self.start_connecting(now_ms, leader);
            // An empty member decides whether to bootstrap before it dials.
            if self.disk_jobs == 0 && self.bootstrap_at_ms.is_none() {
                out.push(Effect::Dial(leader));
            }
            return;
        }
        out.push(Effect::Listen);
        let PeerSettings { server, timing, configs, options, .. } = self.settings.clone();
        let candidate = LeaderInit { server, epochs: self.epochs, known_accepted: self.known_accepted, options };
        let from = out.len();
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let leader = Leader::new(candidate, timing, configs, self.applied, &mut cx);
        self.role = Role::Leading(Box::new(leader));
        self.after_step(now_ms, from, out);
    }
}

/// A pseudo-random time below the limit, so that servers that lost their leader at the same moment do not return
/// together.
fn jitter_ms(limit_ms: i64, now_ms: i64, server: ServerId) -> i64 {
    let mixed = (now_ms.wrapping_mul(31).wrapping_add(server.0)).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let limit = limit_ms.max(1).unsigned_abs();
    ((mixed >> 32) % limit).cast_signed()
}

fn learner_state(kind: LearnerKind) -> PeerState {
    match kind {
        LearnerKind::Follower => PeerState::Following,
        LearnerKind::Observer => PeerState::Observing,
    }
}

/// Whether a leader is a voter of both configurations, with the same quorum address.
fn has_same_address(leader: ServerId, before: &Ensemble, after: &Ensemble) -> bool {
    let at = |ensemble: &Ensemble| {
        let votes = ensemble.voters().any(|voter| voter == leader);
        votes.then(|| ensemble.members()[&leader].quorum.clone())
    };
    at(before).is_some() && at(before) == at(after)
}
