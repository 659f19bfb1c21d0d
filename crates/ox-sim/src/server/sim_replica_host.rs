//! What the replica loop needs, in a simulated process; and the checks of what it does.

use super::ExpectedDisk;
use super::member::short;
use super::process::Process;
use crate::checkers::{configs, sent_is_durable};
use crate::env::Env;
use crate::event::{Event, Job, ProcessId};
use crate::faults::Fault;
use ox_driver::client_io::{GlobalLimits, memory_of};
use ox_driver::log_writer::LogWork;
use ox_driver::replica_loop::{LatestVote, PeerCommand, PeerEvent, ReplicaHost, StateWriter};
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_replica::outbox::Outbox;
use ox_replica::{LogBatch, Now, Replica, ReplicaEffect, Submission};
use ox_tree::watch::FiredCounts;
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, LinkId, LogDiffRange, Message, PeerState, Reason};
use std::sync::Arc;
use std::time::Duration;

/// The surroundings of one step of the replica loop.
pub(super) struct SimReplicaHost<'a> {
    pub(super) process: &'a mut Process,
    pub(super) env: &'a mut Env,
    pub(super) expected: &'a mut ExpectedDisk,
    pub(super) pid: ProcessId,
    /// Transactions that were applied.
    pub(super) applied: usize,
}

/// The state, as if it were locked for writing: no other thread runs during a step.
pub(super) struct SimStateWriter<'a> {
    process: &'a mut Process,
    env: &'a mut Env,
    pid: ProcessId,
}

impl StateWriter for SimStateWriter<'_> {
    fn state(&mut self) -> &mut State {
        &mut self.process.state
    }

    fn post(&mut self, thread: usize, outbox: Outbox) {
        self.process.post(self.env, self.pid, thread, outbox);
    }
}

impl Process {
    fn post(&mut self, env: &mut Env, pid: ProcessId, thread: usize, outbox: Outbox) {
        self.limits.on_posted(memory_of(&outbox));
        self.io[thread].mailbox.push(outbox);
        self.wake_io(env, pid, thread);
    }
}

impl SimReplicaHost<'_> {
    fn on_log(&mut self, replica: &Replica, batch: &LogBatch) {
        self.env.note(format_args!("replica: batch {} to {}", batch.first, batch.last));
        self.process.note_proposed(self.env, replica.status().last_proposed());
        let recorded = self.env.reference_log.record_batch(self.expected, batch, &mut self.process.proposed);
        recorded.unwrap_or_else(|finding| finding.report(self.env));
    }

    fn on_step_down(&mut self, reason: &Reason) {
        self.env.note(format_args!("peer {}: leaves its role: {reason:?}", self.pid.server));
        self.env.coverage.roles_left += 1;
        self.env.coverage.disk_stall_step_downs += u64::from(*reason == Reason::DiskStalled);
        self.env.coverage.rollover_step_downs += u64::from(*reason == Reason::ZxidRollover);
        self.env.coverage.disk_low_step_downs += u64::from(*reason == Reason::DiskLow);
    }

    /// A configuration is proposed or withdrawn. A joining voter may lose its disk now.
    fn on_config_proposed(&mut self, replica: &Replica, ensemble: &Ensemble) {
        let env = &mut *self.env;
        let active = self.process.member.ensemble.as_ref().map_or(0, |ensemble| ensemble.version());
        let leads = replica.status().peer_state() == Some(PeerState::Leading);
        let is_newer = active < ensemble.version();
        if is_newer && leads && env.rng.chance(env.plan.empty_joiner_per_mille) && !env.is_healed {
            let delay = env.rng.between(0, 20_000);
            env.schedule_in(delay, Event::Fault(Fault::EmptyJoiner));
        }
    }
}

impl ReplicaHost for SimReplicaHost<'_> {
    type StateWriter<'w>
        = SimStateWriter<'w>
    where
        Self: 'w;

    fn state(&mut self) -> &State {
        &self.process.state
    }

    fn release_state(&mut self) {}

    fn write_state(&mut self) -> SimStateWriter<'_> {
        SimStateWriter { process: self.process, env: self.env, pid: self.pid }
    }

    fn limits(&self) -> &GlobalLimits {
        &self.process.limits
    }

    fn post(&mut self, thread: usize, outbox: Outbox) {
        self.process.post(self.env, self.pid, thread, outbox);
    }

    fn push_log(&mut self, work: LogWork) {
        if let LogWork::Job(job, _) = &work {
            self.env.note(format_args!("peer {}: {job:?}", self.pid.server));
            self.expected.begin(*job);
        }
        self.process.log_queue.push(work);
        self.process.wake_log(self.env, self.pid);
    }

    fn command_peers(&mut self, commands: Vec<PeerCommand>) {
        self.process.command_peers(self.env, self.pid, commands);
    }

    fn search_log(&mut self, link: LinkId, range: LogDiffRange) {
        self.env.coverage.continued_diffs += u64::from(range.continues);
        self.process.member.log_searches.insert(link, range);
        let delay = self.process.thread_delay(self.env);
        self.env.schedule_in(delay, Event::Job(Job::ReadLog(self.pid, link)));
    }

    fn write_snapshot(&mut self, frozen: FrozenView) {
        self.env.note(format_args!("replica: snapshot at {}", frozen.last_zxid()));
        self.process.frozen = Some(frozen);
        let delay = self.process.thread_delay(self.env);
        self.env.schedule_in(delay, Event::Job(Job::Snapshot(self.pid)));
    }

    fn ensemble(&self) -> Option<Arc<Ensemble>> {
        self.process.member.ensemble.clone()
    }

    fn activate(&mut self, committed: &Arc<Ensemble>) {
        let version = committed.version();
        self.env.note(format_args!("peer {}: configuration {version:x} is active", self.pid.server));
        self.env.coverage.configs += 1;
        configs::check(self.env, committed).unwrap_or_else(|finding| finding.report(self.env));
        self.process.member.ensemble = Some(Arc::clone(committed));
    }

    fn elapsed(&self) -> Duration {
        self.env.elapsed()
    }

    fn worked_ms(&self) -> i64 {
        0
    }

    fn on_pause(&mut self, late_ms: i64) {
        self.env.note(format_args!("replica: paused for {late_ms} ms"));
        self.env.coverage.pauses_noticed += 1;
        self.env.history.pauses.push(self.env.now);
    }

    fn on_report(&mut self, done: DiskDone) {
        self.env.note(format_args!("replica: disk job completed: {done:?}"));
    }

    fn on_peer_event(&mut self, replica: &Replica, event: &PeerEvent) {
        let (env, server) = (&mut *self.env, self.pid.server);
        match event {
            PeerEvent::Election(peer, link) => {
                env.note(format_args!("peer {server}: election connection to {peer} is {link:?}"));
            }
            PeerEvent::LearnerConnected(..) => {
                let leads = replica.status().peer_state() == Some(PeerState::Leading);
                env.coverage.observer_master_links += u64::from(!leads && replica.status().is_serving());
            }
            PeerEvent::LogDiffRead(link, _, found) => {
                let found = found.is_some();
                env.note(format_args!("peer {server}: searched a log diff for {}: found {found}", link.0));
            }
            PeerEvent::Dialed(..) | PeerEvent::CannotListen => (),
            PeerEvent::Link(_) | PeerEvent::SnapshotLoaded(..) => (),
        }
    }

    fn on_vote(&mut self, _replica: &Replica, from: ServerId, vote: &LatestVote) {
        self.env.note(format_args!("peer {}: {from} sends {:?}", self.pid.server, vote.note));
    }

    fn on_packet(&mut self, _now: Now, link: LinkId, message: &Message) {
        if let Message::LeaderInfo(epoch) = message {
            self.process.member.leader_epochs.insert(link, *epoch);
        }
        if !matches!(message, Message::Ping(_) | Message::Pong(..)) {
            self.env.note(format_args!("peer {}: receives {}", self.pid.server, short(message)));
        }
    }

    fn on_submission(&mut self, submission: &Submission) {
        self.env.note(format_args!("replica: {} items", submission.entries.len()));
        self.env.trace.bytes(&submission.bytes);
    }

    fn on_effect(&mut self, _now: Now, replica: &Replica, effect: &ReplicaEffect) {
        let member = &self.process.member;
        if let Err(finding) = sent_is_durable::check((replica, member), self.env, self.expected, self.pid, effect) {
            return finding.report(self.env);
        }
        let (env, server) = (&mut *self.env, self.pid.server);
        match effect {
            ReplicaEffect::Log(batch) => self.on_log(replica, batch),
            ReplicaEffect::Notify(to, note) => env.note(format_args!("peer {server}: notifies {to} of {note:?}")),
            ReplicaEffect::Dial(leader) => env.note(format_args!("peer {server}: dials {leader}")),
            ReplicaEffect::Send(_, Message::Ping(_) | Message::Pong(..)) => (),
            ReplicaEffect::Send(link, message) => {
                env.note(format_args!("peer {server}: sends {} on {}", short(message), link.0));
            }
            ReplicaEffect::SendSnapshot(_) => {
                let last = self.process.state.last_zxid();
                env.note(format_args!("peer {server}: sends a snapshot at {last}"));
            }
            ReplicaEffect::StepDown(reason) => self.on_step_down(reason),
            ReplicaEffect::Looking => env.note(format_args!("peer {server}: is LOOKING")),
            ReplicaEffect::ConfigProposed(ensemble) => self.on_config_proposed(replica, ensemble),
            ReplicaEffect::Disk(_) | ReplicaEffect::ReadLog(..) | ReplicaEffect::SendLogDiff(_) => (),
            ReplicaEffect::Close(_) | ReplicaEffect::Listen | ReplicaEffect::ServeObservers => (),
            ReplicaEffect::ActivateConfig { .. } => (),
        }
    }

    fn on_applied(&mut self, _replica: &Replica, applied: usize, _fired: &FiredCounts) {
        self.applied += applied;
    }
}
