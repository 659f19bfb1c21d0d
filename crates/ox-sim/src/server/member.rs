//! A member's part of the replica thread: processes input from peers and executes effects.

use super::ExpectedDisk;
use super::peers_thread::LinkCommand;
use super::process::Process;
use super::unidentified::Connections;
use crate::checkers::quorums::Decision;
use crate::checkers::{configs, elections, leaders, sent_is_durable};
use crate::env::Env;
use crate::event::{Event, Job, ProcessId};
use crate::faults::Fault;
use crate::net::WireId;
use crate::server::reference_log::Change;
use ox_driver::config_change::ConfigChange;
use ox_driver::links::{HeldPackets, LinkEvent, Packets};
use ox_driver::log_writer::LogWork;
use ox_driver::server_log::JobReport;
use ox_history::Time;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_replica::{LogJob, ReplicaEffect, ReplicaInput};
use ox_store::LogDiff;
use ox_tree::State;
use ox_zab::{
    DiskDone, DiskJob, ElectionConnection, Epoch, Input, LearnerKind, LinkId, LogDiffRange, Message, Origin, PeerState,
    QuorumPeer, Reason, ServerId, VoteNotification,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Input from other servers and from the wires to them.
pub(crate) enum PeerInput {
    Notification(usize, VoteNotification, Option<Arc<Ensemble>>),
    Election(usize, ElectionConnection),
    /// A dial to this leader has succeeded or failed.
    Dialed(usize, Option<LinkId>),
    /// The hello of a learner has arrived.
    LearnerConnected(LinkId),
    Link(LinkEvent),
    /// A snapshot was received and loaded.
    SnapshotLoaded(LinkId, Box<State>),
    /// An attacker opens this many connections to the quorum port.
    Flood(usize, Origin),
    /// A search of the on-disk log for a log diff has ended.
    LogSearched(LinkId, Zxid, Option<Box<LogDiff>>),
}

/// State that only members have.
#[derive(Default)]
pub(crate) struct Member {
    pub(crate) peers: VecDeque<PeerInput>,
    pub(crate) reports: VecDeque<JobReport>,
    /// Packets that the replica has not taken.
    pub(super) held: HeldPackets,
    pub(super) unidentified: Connections,
    pub(crate) is_listening: bool,
    /// The committed configuration, if reconfiguration is enabled.
    pub(crate) ensemble: Option<Arc<Ensemble>>,
    /// Searches for log diffs that have not begun yet.
    log_searches: BTreeMap<LinkId, LogDiffRange>,
    pub(super) found: BTreeMap<LinkId, Box<LogDiff>>,
    /// The epochs that leaders have sent in LEADERINFO.
    pub(crate) leader_epochs: BTreeMap<LinkId, Epoch>,
    /// The epoch that it led at the last check.
    pub(crate) leads: Option<Epoch>,
    pub(crate) serves: bool,
    /// When `serves` last changed.
    pub(crate) serves_since: Time,
    /// When each server was last heard on a wire.
    pub(crate) last_seen: BTreeMap<usize, Time>,
}

pub(crate) fn server_id(number: usize) -> ServerId {
    ServerId(i64::try_from(number).unwrap_or(0) + 1)
}

pub(crate) fn number(server: ServerId) -> usize {
    usize::try_from(server.0 - 1).unwrap_or(0)
}

pub(super) fn link(wire: WireId) -> LinkId {
    LinkId(wire as u64)
}

impl Process {
    /// Queues input from a peer.
    pub(crate) fn on_peer(&mut self, env: &mut Env, pid: ProcessId, input: PeerInput) {
        self.member.peers.push_back(input);
        self.wake_replica(env, pid);
    }

    /// Processes a completed disk job.
    pub(super) fn take_report(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        report: JobReport,
    ) {
        let JobReport { done, state } = report;
        env.note(format_args!("replica: disk job completed: {done:?}"));
        if let Some(state) = state {
            self.state = *state;
            self.show_config(env);
        }
        self.pass(env, ReplicaInput::Done(done));
        self.maybe_flush(env, expected, pid);
    }

    /// Processes one input from a peer.
    pub(super) fn take_peer_input(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        input: PeerInput,
    ) {
        match input {
            PeerInput::Notification(from, note, config) => {
                env.note(format_args!("peer {}: {from} sends {note:?}", pid.server));
                if let Some(config) = config {
                    self.pass(env, ReplicaInput::Peer(Input::Config(server_id(from), config)));
                }
                self.pass(env, ReplicaInput::Peer(Input::Notification(server_id(from), note)));
            }
            PeerInput::Election(peer, link) => {
                env.note(format_args!("peer {}: election connection to {peer} is {link:?}", pid.server));
                self.pass(env, ReplicaInput::Peer(Input::ElectionLink(server_id(peer), link)));
            }
            PeerInput::Dialed(leader, link) => {
                link.into_iter().for_each(|link| self.member.held.open(link));
                self.pass(env, ReplicaInput::Peer(Input::Dialed(server_id(leader), link)));
            }
            PeerInput::LearnerConnected(link) => {
                self.member.held.open(link);
                let leads = self.replica.status().peer_state() == Some(PeerState::Leading);
                env.coverage.observer_master_links += u64::from(!leads && self.replica.status().is_serving());
                self.pass(env, ReplicaInput::Peer(Input::LinkOpened(link)));
            }
            PeerInput::Link(event) => self.take_link_event(env, expected, pid, event),
            PeerInput::SnapshotLoaded(link, state) => {
                self.take_packets(env, expected, pid);
                self.pass(env, ReplicaInput::SnapshotReceived(link, state));
            }
            PeerInput::Flood(count, origin) => self.flood(env, pid, count, origin),
            PeerInput::LogSearched(link, below, found) => {
                env.note(format_args!(
                    "peer {}: searched a log diff for {}: found {}",
                    pid.server,
                    link.0,
                    found.is_some()
                ));
                let below = found.is_some().then_some(below);
                self.member.found.extend(found.map(|found| (link, found)));
                self.pass(env, ReplicaInput::Peer(Input::LogRead(link, below)));
            }
        }
        self.maybe_flush(env, expected, pid);
    }

    /// Production ends a batch after one input, or after several.
    pub(super) fn maybe_flush(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) {
        if self.effects.has_log() || env.rng.chance(env.plan.flush_per_mille) {
            self.flush(env, expected, pid);
        }
        self.update_role(env, expected, pid);
    }

    /// Ends a batch of inputs, and executes the effects.
    pub(super) fn flush(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) {
        let mut has_effects = false;
        loop {
            self.pass(env, ReplicaInput::Flush);
            if self.effects.is_empty() {
                return self.report_consumed(env, pid, has_effects);
            }
            has_effects = true;
            for effect in self.effects.take() {
                if let Err(finding) = sent_is_durable::check(self, env, expected, pid, &effect) {
                    return finding.report(env);
                }
                self.perform(env, expected, pid, effect);
            }
        }
    }

    fn perform(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId, effect: ReplicaEffect) {
        match effect {
            ReplicaEffect::Log(batch) => self.push_log(env, expected, pid, batch),
            ReplicaEffect::Notify(to, note) => {
                env.note(format_args!("peer {}: notifies {to} of {note:?}", pid.server));
                env.notify(pid.server, number(to), (note, self.member.ensemble.clone()));
            }
            ReplicaEffect::Dial(leader) => {
                env.note(format_args!("peer {}: dials {leader}", pid.server));
                let master = self.replica.status().peer().and_then(|peer| choose_observer_master(env, peer, pid));
                env.dial(pid, number(leader), master);
            }
            ReplicaEffect::Send(link, message) => {
                if !matches!(message, Message::Ping(_) | Message::Pong(..)) {
                    env.note(format_args!("peer {}: sends {} on {}", pid.server, short(&message), link.0));
                }
                self.command(env, pid, LinkCommand::Send(link, Packets::from(&message)));
            }
            ReplicaEffect::SendSnapshot(link) => {
                env.note(format_args!("peer {}: sends a snapshot at {}", pid.server, self.state.last_zxid()));
                self.member.found.remove(&link);
                self.command(env, pid, LinkCommand::Snapshot(link, self.state.freeze()));
            }
            ReplicaEffect::ReadLog(link, search) => {
                env.coverage.continued_diffs += u64::from(search.continues);
                self.member.log_searches.insert(link, search);
                let delay = self.thread_delay(env);
                env.schedule_in(delay, Event::Job(Job::ReadLog(pid, link)));
            }
            ReplicaEffect::SendLogDiff(link) => match self.member.found.remove(&link) {
                Some(found) => self.send_log_diff(env, pid, link, found),
                // An announced DIFF must not be skipped.
                None => self.command(env, pid, LinkCommand::Close(link)),
            },
            ReplicaEffect::Close(link) => {
                self.forget_link(link);
                self.command(env, pid, LinkCommand::Close(link));
            }
            ReplicaEffect::Disk(job) => self.give_job(env, expected, pid, job),
            ReplicaEffect::Listen | ReplicaEffect::ServeObservers => self.member.is_listening = true,
            ReplicaEffect::StepDown(reason) => {
                self.member.is_listening = false;
                env.note(format_args!("peer {}: leaves its role: {reason:?}", pid.server));
                env.coverage.roles_left += 1;
                env.coverage.disk_stall_step_downs += u64::from(reason == Reason::DiskStalled);
                env.coverage.rollover_step_downs += u64::from(reason == Reason::ZxidRollover);
                env.coverage.disk_low_step_downs += u64::from(reason == Reason::DiskLow);
            }
            ReplicaEffect::Looking => {
                env.note(format_args!("peer {}: is LOOKING", pid.server));
                self.member.is_listening = false;
            }
            ReplicaEffect::ConfigProposed(ensemble) => self.on_config_proposed(env, pid, ensemble),
            ReplicaEffect::ActivateConfig { committed, proposed, leader } => {
                let version = committed.version();
                env.note(format_args!("peer {}: configuration {version:x} is active, {leader:?} leads", pid.server));
                env.coverage.configs += 1;
                self.activate(env, pid, committed, proposed);
            }
        }
    }

    /// Writes that a configuration is proposed or withdrawn. A joining voter may lose its disk now.
    fn on_config_proposed(&mut self, env: &mut Env, pid: ProcessId, ensemble: Arc<Ensemble>) {
        let active = self.member.ensemble.as_ref().map_or(0, |ensemble| ensemble.version());
        let is_newer = active < ensemble.version();
        let leads = self.replica.status().peer_state() == Some(PeerState::Leading);
        if is_newer && leads && env.rng.chance(env.plan.empty_joiner_per_mille) && !env.is_healed {
            let delay = env.rng.between(0, 20_000);
            env.schedule_in(delay, Event::Fault(Fault::EmptyJoiner));
        }
        let change = if is_newer { ConfigChange::Proposed(ensemble) } else { ConfigChange::Kept };
        self.write_config(env, pid, change);
    }

    /// Publishes the configuration in `/zookeeper/config`.
    pub(crate) fn show_config(&mut self, env: &Env) {
        let now = self.now(env);
        if let Some(ensemble) = &self.member.ensemble {
            self.state.set_config(&ensemble.to_string(), ensemble.version(), now.wall_ms);
        }
    }

    /// Puts a committed configuration into use.
    fn activate(&mut self, env: &mut Env, pid: ProcessId, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) {
        if let Err(finding) = configs::check(env, &committed) {
            return finding.report(env);
        }
        self.member.ensemble = Some(Arc::clone(&committed));
        if !self.replica.status().is_serving() {
            self.show_config(env); // a serving member gets it by the transaction, and its clients get the event
        }
        self.write_config(env, pid, ConfigChange::Committed(committed, proposed));
    }

    fn write_config(&mut self, env: &mut Env, pid: ProcessId, change: ConfigChange) {
        self.log_queue.push(LogWork::Config(change));
        self.wake_log(env, pid);
    }

    /// Takes the search for a log diff, unless the link has been closed.
    pub(crate) fn take_log_search(&mut self, link: LinkId) -> Option<LogDiffRange> {
        self.member.log_searches.remove(&link)
    }

    fn give_job(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId, job: LogJob) {
        let (job, frozen) = match job {
            LogJob::AcceptedEpoch(epoch) => (DiskJob::AcceptedEpoch(epoch), None),
            LogJob::CurrentEpoch(epoch) => (DiskJob::CurrentEpoch(epoch), None),
            LogJob::Truncate(zxid) => (DiskJob::Truncate(zxid), None),
            LogJob::InitializeLog => (DiskJob::InitializeLog, None),
            LogJob::Install(snapshot) => {
                self.state = *snapshot;
                self.show_config(env);
                (DiskJob::Install(self.state.last_zxid()), Some(self.state.freeze()))
            }
        };
        env.note(format_args!("peer {}: {job:?}", pid.server));
        expected.begin(job);
        self.log_queue.push(LogWork::Job(job, frozen));
        self.wake_log(env, pid);
    }

    /// Notes whether this server has begun to lead or to serve.
    pub(super) fn update_role(&mut self, env: &mut Env, expected: &ExpectedDisk, pid: ProcessId) {
        let Some(peer) = self.replica.status().peer() else { return };
        let leads = peer.role().leader().filter(|leader| leader.is_established()).and_then(ox_zab::Leader::epoch);
        if leads != self.member.leads {
            self.member.leads = leads;
            if let Some(epoch) = leads {
                env.note(format_args!("peer {}: leads epoch {epoch}", pid.server));
                env.coverage.leaders += 1;
                let judged = leaders::check(env, expected, pid, epoch).and_then(|()| elections::check(env, pid));
                if let Err(finding) = judged {
                    return finding.report(env);
                }
                env.decisions.push(Decision::Leader(pid, epoch, peer.configs().quorums().committed.clone()));
            }
        }
        let serves = self.replica.status().is_serving();
        let has_changed = serves != std::mem::replace(&mut self.member.serves, serves);
        if has_changed {
            self.member.serves_since = env.now;
        }
        if has_changed && serves {
            let last = self.state.last_zxid();
            env.note(format_args!("peer {}: serves at {last} as {:?}", pid.server, self.replica.status().peer_state()));
            // A leader that is established after a later one decides nothing.
            let is_last = env.leaders.last_key_value().is_some_and(|(_, leader)| *leader == pid);
            if self.replica.status().peer_state() == Some(PeerState::Leading) && is_last {
                env.history.starts.push(env.now);
            }
            self.show(env);
        }
    }

    /// Clients may see the state from now on.
    pub(super) fn show(&self, env: &mut Env) {
        let (last, now, before) = (self.state.last_zxid(), env.now, env.reference_log.shown);
        if let Err(finding) = env.reference_log.show(last, now) {
            return finding.report(env);
        }
        if before < last
            && let Some(peer) = self.replica.status().peer()
        {
            env.decisions.push(Decision::Visible(last, peer.configs().quorums().committed.clone()));
        }
    }
}

/// The server that an observer dials instead of the leader, whether or not it serves observers.
fn choose_observer_master(env: &mut Env, peer: &QuorumPeer, pid: ProcessId) -> Option<usize> {
    let observes = peer.configs().kind_of(server_id(pid.server)) == LearnerKind::Observer;
    if !observes || !env.plan.observer_masters || env.rng.chance(250) {
        return None;
    }
    let voters: Vec<usize> = peer.configs().committed().voters().map(number).collect();
    Some(*env.rng.pick(&voters))
}

pub(super) fn short(message: &Message) -> String {
    let mut text = format!("{message:?}");
    text.truncate(text.floor_char_boundary(100));
    text
}

impl ExpectedDisk {
    fn begin(&mut self, job: DiskJob) {
        let number = |epoch: Epoch| u32::try_from(epoch.0).unwrap_or(0);
        match job {
            DiskJob::AcceptedEpoch(epoch) => self.epochs_begun.accepted = number(epoch),
            DiskJob::CurrentEpoch(epoch) => self.epochs_begun.current = number(epoch),
            DiskJob::Truncate(zxid) => self.change = Change::Truncate(zxid),
            DiskJob::Install(zxid) => self.change = Change::Install(zxid),
            DiskJob::InitializeLog => (),
        }
    }

    pub(crate) fn done(&mut self, done: DiskDone, reference_log: &super::ReferenceLog) {
        match done {
            DiskDone::AcceptedEpoch(_) => self.epochs.accepted = self.epochs_begun.accepted,
            DiskDone::CurrentEpoch(_) => self.epochs.current = self.epochs_begun.current,
            DiskDone::Truncated(end) => {
                self.change = Change::None;
                if let Some(end) = end {
                    self.last = reference_log.truncated_end(self.last, end);
                    self.synced = self.synced.min(self.last);
                }
            }
            DiskDone::Installed(zxid) => {
                self.change = Change::None;
                (self.last, self.synced) = (zxid, zxid);
            }
            DiskDone::LogInitialized => (),
        }
    }
}
