//! The iteration of the thread that runs the replica: inputs in, effects out. It never waits for the disk.
//!
//! One iteration takes what has arrived ([`ReplicaLoop::begin`]), and processes it step by step ([`ReplicaLoop::step`]):
//!
//! | step | file | |
//! |---|---|---|
//! | [`ReplicaStage::Reports`] | | passes one finished disk job to the replica |
//! | [`ReplicaStage::Peers`] | `peer_events.rs` | passes one event of the peers thread, or one notification; packets as far as the replica takes them |
//! | [`ReplicaStage::Submissions`] | | passes timers that are due, then one submission of an I/O thread |
//! | [`ReplicaStage::Apply`] | | applies committed transactions, one write lock per step |
//! | [`ReplicaStage::Snapshot`] | | starts a snapshot if one is due |
//!
//! The state is locked for reading from the first input of a batch until its effects are executed (`execute.rs`), because
//! some of them replace the state. Log batches and disk jobs go to the log thread, packets to the peers thread, replies
//! and events to the I/O threads.
//!
//! The invariant that keeps events before the states that they announce: outboxes are posted before the write lock is
//! released under which they were filled.

mod execute;
#[cfg(test)]
mod fake;
mod log_diff_reads;
mod peer_commands;
mod peer_events;
mod replica_host;
mod replica_inbox;
#[cfg(test)]
mod tests;

pub use peer_commands::PeerCommand;
pub use replica_host::{ReplicaHost, StateWriter};
pub use replica_inbox::{LatestVote, PeerEvent, ReplicaInbox};

use crate::limits::POSTED_BYTES_MAX;
use crate::links::HeldPackets;
use crate::server_log::JobReport;
use crate::snapshot_schedule::SnapshotSchedule;
use log_diff_reads::LogDiffReads;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_replica::{Now, PauseDetector, Replica, ReplicaCounters, ReplicaEffects, ReplicaInput, Submission};
use ox_store::{FreeSpace, LogDiff};
use ox_tree::State;
use ox_zab::Input;
use std::collections::btree_map;
use std::error::Error;
use std::time::Duration;
use std::vec;

#[derive(Clone, Copy, Debug)]
pub struct ReplicaLoopSettings {
    pub tick_ms: i32,
    /// Number of I/O threads.
    pub io_threads: usize,
    /// Approximate bytes of packets in one command to the peers thread.
    pub link_chunk_bytes: usize,
    /// Bytes of processed packets after which they are reported to the peers thread, even if it has no other command.
    pub consumed_report_bytes: usize,
}

/// The next step of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaStage {
    /// The iteration is over.
    #[default]
    Idle,
    Reports,
    Peers,
    Submissions,
    Apply,
    Snapshot,
}

/// What an iteration has taken and not processed yet.
#[derive(Default)]
struct Taken {
    reports: vec::IntoIter<JobReport>,
    peers: vec::IntoIter<PeerEvent>,
    votes: btree_map::IntoIter<ServerId, LatestVote>,
    submissions: vec::IntoIter<Submission>,
}

pub struct ReplicaLoop {
    settings: ReplicaLoopSettings,
    stage: ReplicaStage,
    /// The time of this iteration. Timers must not see a later one: the time after a pause is first seen by the pause
    /// detector of the next iteration, which gives sessions their full timeout again before any of them expires.
    now: Now,
    taken: Taken,
    replica: Replica,
    effects: ReplicaEffects,
    pause_detector: PauseDetector,
    /// Packets that the replica has not taken.
    held: HeldPackets,
    log_diff_reads: LogDiffReads<Box<LogDiff>>,
    snapshots: SnapshotSchedule,
    /// A state to be restored when no snapshot of the present one is being written.
    restore: Option<Box<State>>,
}

impl ReplicaLoop {
    pub fn new(settings: ReplicaLoopSettings, replica: Replica, now: Now) -> Self {
        Self {
            stage: ReplicaStage::Idle,
            now,
            taken: Taken::default(),
            effects: ReplicaEffects::new(settings.io_threads),
            pause_detector: PauseDetector::new(settings.tick_ms, now.mono_ms),
            held: HeldPackets::default(),
            log_diff_reads: LogDiffReads::default(),
            snapshots: SnapshotSchedule::default(),
            restore: None,
            settings,
            replica,
        }
    }

    /// Starts the server with the measured disk space: a member whose disk is low does not stand for election.
    pub fn start<H: ReplicaHost>(&mut self, now: Now, space: FreeSpace, host: &mut H) {
        self.pass(now, space_input(space), host);
        if self.replica.status().peer().is_some() {
            self.pass(now, ReplicaInput::Peer(Input::Start), host);
        }
        self.execute_effects(now, host);
    }

    /// How long the thread may wait for input, `max` at most.
    pub fn timeout(&self, now: Now, max: Duration) -> Duration {
        if self.replica.has_committed() {
            return Duration::ZERO;
        }
        let rest = self.replica.rest_ms(now).map(|rest_ms| Duration::from_millis(rest_ms.unsigned_abs()));
        rest.map_or(max, |rest| rest.min(max))
    }

    /// Whether a timer is due.
    pub fn is_due(&self, now: Now) -> bool {
        self.replica.deadline().is_some_and(|deadline_ms| deadline_ms <= now.mono_ms)
    }

    /// Begins an iteration with what has arrived. `timeout` is how long the thread meant to wait for it: much more time
    /// than that is a pause of the process. Clients may have sent anything meanwhile, so none of them counts as silent.
    /// Work of this thread is no pause: I/O threads received input meanwhile.
    pub fn begin<H: ReplicaHost>(&mut self, now: Now, timeout: Duration, input: ReplicaInbox, host: &mut H) {
        self.now = now;
        let meant_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        if let Some(late_ms) = self.pause_detector.check(now.mono_ms, meant_ms, || host.worked_ms()) {
            self.pass(now, ReplicaInput::Pause, host);
            host.on_pause(late_ms);
        }
        let ReplicaInbox {
            submissions,
            durable,
            snapshot_due,
            space,
            limits,
            close_sessions,
            restore,
            reports,
            config_stored,
            peers,
            votes,
        } = input;
        if let Some(zxid) = durable {
            host.on_durable(now, zxid);
            self.pass(now, ReplicaInput::Durable(zxid), host);
        }
        if let Some(space) = space {
            self.pass(now, space_input(space), host);
        }
        if let Some(limits) = limits {
            self.pass(now, ReplicaInput::Limits(limits), host);
        }
        for session in close_sessions {
            self.pass(now, ReplicaInput::CloseSession(session), host);
        }
        if let Some(version) = config_stored {
            self.pass(now, ReplicaInput::ConfigStored(version), host);
        }
        snapshot_due.into_iter().for_each(|zxid| self.snapshots.on_due(zxid));
        self.restore = restore.or(self.restore.take());
        self.taken = Taken {
            reports: reports.into_iter(),
            peers: peers.into_iter(),
            votes: votes.into_iter(),
            submissions: submissions.into_iter(),
        };
        self.stage = ReplicaStage::Reports;
    }

    /// Takes the next step, and returns the one after it. The iteration is over when that is [`ReplicaStage::Idle`]. A
    /// later `now` than that of [`Self::begin`] counts from [`ReplicaStage::Apply`] on.
    pub fn step<H: ReplicaHost>(&mut self, now: Now, host: &mut H) -> ReplicaStage {
        if self.stage == ReplicaStage::Apply {
            self.now = now;
        }
        let now = self.now;
        self.stage = match self.stage {
            ReplicaStage::Idle => ReplicaStage::Idle,
            ReplicaStage::Reports => match self.taken.reports.next() {
                Some(report) => self.on_report(now, report, host),
                None => ReplicaStage::Peers,
            },
            ReplicaStage::Peers => self.next_peer_input(now, host),
            ReplicaStage::Submissions => match self.taken.submissions.next() {
                Some(submission) => self.on_submission(now, submission, host),
                None => {
                    self.flush(now, host);
                    self.post(host);
                    self.post_audit(now, host);
                    ReplicaStage::Apply
                }
            },
            ReplicaStage::Apply if self.replica.has_committed() => self.apply(now, host),
            ReplicaStage::Apply => {
                let held = self.replica.load();
                host.limits().set_held(held);
                self.flush(now, host);
                self.post(host);
                ReplicaStage::Snapshot
            }
            ReplicaStage::Snapshot => {
                if self.restore.is_none() {
                    self.start_due_snapshot(host);
                }
                self.start_restore(now, host);
                ReplicaStage::Idle
            }
        };
        self.stage
    }

    pub fn stage(&self) -> ReplicaStage {
        self.stage
    }

    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    pub fn counters_mut(&mut self) -> &mut ReplicaCounters {
        self.replica.counters_mut()
    }

    /// Whether a snapshot is being written.
    pub fn is_writing_snapshot(&self) -> bool {
        self.snapshots.is_writing()
    }

    /// Starts a snapshot of the state.
    pub fn start_snapshot<H: ReplicaHost>(&mut self, host: &mut H) {
        let frozen = host.state().freeze();
        host.release_state();
        self.snapshots.on_started();
        host.write_snapshot(frozen);
    }

    /// A snapshot that took `took` is written, or could not be.
    pub fn on_snapshot_finished(&mut self, now: Duration, took: Duration, failure: Option<&(dyn Error + 'static)>) {
        self.snapshots.on_finished(now, took, failure);
    }

    /// Passes one input to the replica. Log batches that it hands over are executed before the next input.
    fn pass<H: ReplicaHost>(&mut self, now: Now, input: ReplicaInput, host: &mut H) {
        self.replica.step(now, input, host.state(), &mut self.effects);
        if self.effects.has_log() {
            self.execute_effects(now, host);
        }
    }

    /// Ends a batch of inputs, and executes the effects.
    fn flush<H: ReplicaHost>(&mut self, now: Now, host: &mut H) {
        self.replica.step(now, ReplicaInput::Flush, host.state(), &mut self.effects);
        self.execute_effects(now, host);
    }

    /// Processes a finished disk job. The log thread may have recovered the state after it truncated the log.
    fn on_report<H: ReplicaHost>(&mut self, now: Now, report: JobReport, host: &mut H) -> ReplicaStage {
        let JobReport { done, state } = report;
        host.on_report(done);
        if let Some(state) = state {
            replace_state(now, *state, host);
        }
        self.pass(now, ReplicaInput::Done(done), host);
        ReplicaStage::Reports
    }

    fn on_submission<H: ReplicaHost>(&mut self, now: Now, submission: Submission, host: &mut H) -> ReplicaStage {
        host.on_submission(&submission);
        let taken = submission.load();
        self.effects.replies_max = host.limits().replies_max();
        self.pass(now, ReplicaInput::Clients(submission), host);
        let held = self.replica.load();
        host.limits().on_taken(taken, held);
        if POSTED_BYTES_MAX < self.effects.outboxes.bytes() {
            self.post(host);
        }
        ReplicaStage::Submissions
    }

    /// Applies committed transactions under the write lock, and posts the outboxes before the lock is released.
    fn apply<H: ReplicaHost>(&mut self, now: Now, host: &mut H) -> ReplicaStage {
        self.effects.replies_max = host.limits().replies_max();
        let mut writer = host.write_state();
        let applied = self.replica.apply(now, writer.state(), &mut self.effects);
        let fired = writer.state().take_fired();
        for (thread, outbox) in self.effects.outboxes.0.iter_mut().enumerate().filter(|(_, outbox)| !outbox.is_empty())
        {
            writer.post(thread, outbox.take());
        }
        drop(writer);
        self.post_audit(now, host);
        host.on_applied(&self.replica, applied, &fired);
        ReplicaStage::Apply
    }

    /// Starts a snapshot if one is due and the server serves.
    fn start_due_snapshot<H: ReplicaHost>(&mut self, host: &mut H) {
        let (now, is_serving) = (host.elapsed(), self.replica.status().is_serving());
        if self.snapshots.is_wanted(now, is_serving) {
            let applied = host.state().last_zxid();
            if self.snapshots.take_due(now, is_serving, applied) {
                self.start_snapshot(host);
            }
        }
        host.release_state();
    }

    /// Restores a state, unless a snapshot of the present one is being written: it would be the newest file.
    fn start_restore<H: ReplicaHost>(&mut self, now: Now, host: &mut H) {
        if self.snapshots.is_writing() {
            return;
        }
        if let Some(state) = self.restore.take() {
            self.pass(now, ReplicaInput::Restore(state), host);
            self.execute_effects(now, host);
            self.post(host);
            self.post_audit(now, host);
        }
    }

    /// Hands events to the audit thread.
    fn post_audit<H: ReplicaHost>(&mut self, now: Now, host: &mut H) {
        if !self.effects.audit.is_empty() {
            host.audit(now, &mut self.effects.audit);
            self.effects.audit.clear();
        }
    }

    /// Hands replies and events to the I/O threads.
    fn post<H: ReplicaHost>(&mut self, host: &mut H) {
        for (thread, outbox) in self.effects.outboxes.0.iter_mut().enumerate().filter(|(_, outbox)| !outbox.is_empty())
        {
            host.post(thread, outbox.take());
        }
    }
}

/// Replaces the state: by a leader's snapshot, or by the state that the log thread has recovered.
fn replace_state<H: ReplicaHost>(now: Now, new: State, host: &mut H) {
    let ensemble = host.ensemble();
    let mut writer = host.write_state();
    let old = std::mem::replace(writer.state(), new);
    if let Some(ensemble) = ensemble {
        show_config(writer.state(), &ensemble, now.wall_ms);
    }
    drop(writer);
    drop(old); // takes long, and needs no lock
}

/// Writes a configuration to the node `/zookeeper/config`.
pub fn show_config(state: &mut State, ensemble: &Ensemble, wall_ms: i64) {
    state.set_config(&ensemble.to_string(), ensemble.version(), wall_ms);
}

fn space_input(space: FreeSpace) -> ReplicaInput {
    ReplicaInput::DiskSpace { free_bytes: space.usable_bytes(), reserve_bytes: space.low_water_bytes }
}
