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
mod links;
mod reconfig;
mod status;
mod unestablished_leader;
mod votes;

use crate::config_pair::ConfigPair;
use crate::context::Context;
use crate::disk_pressure::DiskPressure;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, Reason};
use crate::election::{Election, ElectionConnection, ElectionSettings, Outgoing};
use crate::epoch::{Epoch, Epochs};
use crate::input::Input;
use crate::leader::{Leader, LeaderInit};
use crate::learner::Learner;
use crate::message::LearnerKind;
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
use reconfig::RoleChange;
pub use status::{MissingVotes, PeerStatus, RoleView};
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

/// The pause after a leader of a low epoch was refused twice; it doubles with each further refusal.
const REFUSAL_PAUSE_MS: i64 = 50;
const REFUSAL_DOUBLINGS_MAX: u32 = 5;

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
    /// An observer that lost its leader, and a voter that repeatedly refused one, do not start an election before this
    /// time.
    look_again_at_ms: i64,
    /// How many leaders in a row were refused because their epoch is below the accepted one.
    refused_leaders: u32,
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
            refused_leaders: 0,
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

    /// A standalone server: a quorum peer with one voter and no links, whose log ends with `last`. It leads without an
    /// election or an epoch, commits what its own disk has, and needs no [`Input::Start`].
    pub fn standalone(server: ServerId, last: Zxid) -> Self {
        let ensemble = Ensemble::of_numbers(0, [server], []).expect("one voter is a configuration");
        let timing = Timing { tick_ms: 0, init_ticks: 0, sync_ticks: 0 };
        let settings = PeerSettings {
            server,
            configs: ConfigPair::fixed(ensemble),
            timing,
            election: ElectionSettings::default(),
            options: PeerOptions::default(),
        };
        let epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
        let (configs, options) = (settings.configs.clone(), settings.options);
        let init = LeaderInit { server, epochs, known_accepted: Epoch::ZERO, options };
        let leader = Leader::standalone(init, timing, configs, last);
        let history = RecentLog::new(last, 0, 0);
        let recovered = Recovered { epochs, history, eligibility: Eligibility::HasHistory };
        Self { role: Role::Leading(Box::new(leader)), ..Self::new(settings, recovered) }
    }

    /// Processes one event. The effects are appended in the order in which they have to be executed.
    pub fn step(&mut self, now_ms: i64, input: Input, out: &mut Effects) {
        match input {
            Input::Start => self.start_election(now_ms, out),
            Input::Time => self.on_time(now_ms, out),
            Input::Pause => self.on_pause(now_ms),
            Input::Notification(from, note) => self.on_notification(now_ms, from, note, out),
            Input::Config(from, ensemble) => self.on_config(now_ms, from, ensemble, out),
            Input::ElectionLink(server, link) => self.on_election_link(now_ms, server, link, out),
            Input::Dialed(leader, link) => self.on_dialed(now_ms, leader, link, out),
            Input::LinkOpened(link) => self.on_link(now_ms, link, out),
            Input::LinkClosed(link) => self.on_link_gone(now_ms, link, out),
            Input::Traffic(link, moved) => self.on_traffic(now_ms, link, moved),
            Input::Sent(link, bytes) => self.on_sent(now_ms, link, bytes, out),
            Input::Packet(link, message) => self.on_message(now_ms, link, message, out),
            Input::Violation(link, reason) => self.on_violation(now_ms, link, reason, out),
            Input::LogRead(link, below) => self.on_log_read(now_ms, link, below, out),
            Input::SnapshotReceived => self.on_snapshot_received(now_ms),
            Input::Done(done) => self.on_done(now_ms, done, out),
            Input::Durable(zxid) => self.on_durable(now_ms, zxid, out),
            Input::Applied(zxid) => self.on_applied(zxid),
            Input::DiskLow(is_low) => self.on_disk_low(now_ms, is_low, out),
            Input::Propose(txns) => self.with_leader(now_ms, out, |leader, cx| leader.propose(cx, txns)),
            Input::ProposeUpTo(last) => self.with_leader(now_ms, out, |leader, cx| leader.propose_up_to(cx, last)),
            Input::StepDown(reason) => self.end_role(now_ms, reason, out),
            // Many of these make one batch, which ends with a proposal.
            Input::Sync(id, after) => return self.on_sync(id, after),
            Input::Send(link, message) => return self.send(link, message, out),
        }
        self.end_step(now_ms, out);
    }

    pub fn configs(&self) -> &ConfigPair {
        &self.settings.configs
    }

    /// When [`Input::Time`] is due.
    pub fn deadline(&self) -> Option<i64> {
        match &self.role {
            Role::Looking => self.election.deadline().into_iter().chain(self.bootstrap_at_ms).min(),
            Role::Leading(leader) => leader.deadline(),
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

    fn on_time(&mut self, now_ms: i64, out: &mut Effects) {
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

    fn on_disk_low(&mut self, now_ms: i64, is_low: bool, out: &mut Effects) {
        self.disk_pressure.set_low(is_low);
        self.step_down_if_disk_low(now_ms, out);
    }

    fn step_down_if_disk_low(&mut self, now_ms: i64, out: &mut Effects) {
        let can_be_replaced = self.role().leader().is_some_and(Leader::can_be_replaced);
        if can_be_replaced && self.disk_pressure.should_step_down(now_ms, self.settings.timing.init_ms()) {
            self.end_role(now_ms, Reason::DiskLow, out);
        }
    }

    fn on_notification(&mut self, now_ms: i64, from: ServerId, note: VoteNotification, out: &mut Effects) {
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
        self.review_connect_timeout();
        self.after_election(now_ms, elected, notes, out);
        self.yield_to_other_leader(now_ms, out);
    }

    fn on_election_link(&mut self, now_ms: i64, server: ServerId, link: ElectionConnection, out: &mut Effects) {
        let mut notes = Outgoing::new();
        let elected = self.election.on_link(now_ms, server, link, self.settings.configs.quorums(), &mut notes);
        if !matches!(self.role, Role::Leaving { .. }) {
            self.after_election(now_ms, elected, notes, out);
        }
    }

    fn trim(&mut self) {
        let of_leader = self.role().leader().and_then(Leader::pinned);
        let of_observer_master = self.observer_master.as_ref().and_then(|master| master.pinned());
        self.history.trim(self.applied, of_leader.or(of_observer_master).unwrap_or(Zxid(i64::MAX)));
    }

    fn on_snapshot_received(&mut self, now_ms: i64) {
        if let Role::Learning(learner) = &mut self.role {
            learner.on_snapshot_received(now_ms);
        }
    }

    fn on_done(&mut self, now_ms: i64, done: DiskDone, out: &mut Effects) {
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

    fn on_durable(&mut self, now_ms: i64, durable: Zxid, out: &mut Effects) {
        self.durable = durable.max(self.durable);
        match &self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_durable(cx, durable)),
            Role::Learning(_) => self.with_learner(now_ms, out, |learner, cx| learner.on_durable(durable, cx)),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => self.finish_leaving(now_ms, out),
        }
    }

    fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
        self.trim();
        if let Role::Leading(leader) = &mut self.role {
            leader.on_applied(applied);
        }
        self.observer_master.iter_mut().for_each(|master| master.on_applied(applied));
    }

    fn on_sync(&mut self, id: u64, after: Zxid) {
        if let Role::Leading(leader) = &mut self.role {
            leader.on_sync(id, after);
        }
    }

    /// Requests due proofs of leadership, and ends a role that waited for a transaction to be applied.
    fn end_step(&mut self, now_ms: i64, out: &mut Effects) {
        if let Role::Leading(_) = self.role {
            self.with_leader(now_ms, out, |leader, cx| leader.flush(cx));
        }
        if self.role_change.is_some_and(|moving| moving.after <= self.applied) {
            self.end_role(now_ms, Reason::Reconfigured, out);
        }
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
        self.pause_after_refusals(now_ms, &reason);
        out.push(Effect::StepDown(reason));
        self.finish_leaving(now_ms, out);
    }

    /// Pauses before the next election if an established leader is refused again and again, because it is elected again
    /// immediately. It raises its epoch after `initLimit`.
    fn pause_after_refusals(&mut self, now_ms: i64, reason: &Reason) {
        if !matches!(reason, Reason::OldEpoch(_)) {
            self.refused_leaders = 0;
            return;
        }
        if 0 < self.refused_leaders {
            let pause_ms = REFUSAL_PAUSE_MS << self.refused_leaders.min(REFUSAL_DOUBLINGS_MAX);
            self.look_again_at_ms = self.look_again_at_ms.max(now_ms + pause_ms);
        }
        self.refused_leaders += 1;
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
