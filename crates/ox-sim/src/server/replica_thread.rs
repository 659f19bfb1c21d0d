//! The replica thread of production, split into steps. Other threads may run between two steps.

use super::ExpectedDisk;
use super::member::{Member, PeerInput};
use super::process::Process;
use crate::checkers::{self, no_false_expiry};
use crate::env::Env;
use crate::event::{Event, ProcessId};
use ox_driver::client_io::memory_of;
use ox_driver::log_writer::{LogWork, QueuedBatch};
use ox_driver::server_log::JobReport;
use ox_history::Time;
use ox_proto::Zxid;
use ox_replica::{LogBatch, Now, ReplicaInput, Submission};
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest wait of the loop when nothing is due.
const PATIENCE_MS: i64 = 1_000;

/// The position of the thread in its loop.
pub(crate) enum Phase {
    Idle,
    /// Processes completed disk jobs and input from peers, one per step.
    Reporting(VecDeque<JobReport>, VecDeque<PeerInput>),
    /// Processes submissions, one per step.
    Stepping(VecDeque<Submission>),
    /// Applies committed transactions, one write lock per step. Durable positions are reported in several parts.
    Applying,
}

impl Process {
    pub(crate) fn wake_replica(&mut self, env: &mut Env, pid: ProcessId) {
        if !std::mem::replace(&mut self.replica_is_planned, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Replica(pid));
        }
    }

    /// Takes steps until the thread is interrupted or has nothing to do.
    pub(crate) fn replica_step(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) {
        self.replica_is_planned = false;
        if self.is_stopping {
            return; // production leaves its loop; the stop job finishes the log
        }
        loop {
            let goes_on = match &mut self.phase {
                Phase::Idle => self.take_input(env, pid),
                Phase::Reporting(reports, peers) => {
                    if let Some(report) = reports.pop_front() {
                        self.take_report(env, expected, pid, report);
                    } else if let Some(input) = peers.pop_front() {
                        self.take_peer_input(env, expected, pid, input);
                    } else {
                        self.take_packets(env, expected, pid);
                        self.flush(env, expected, pid);
                        self.look_at_clock(env);
                        self.phase = Phase::Stepping(std::mem::take(&mut self.inbox.submissions));
                    }
                    true
                }
                Phase::Stepping(submissions) => match submissions.pop_front() {
                    Some(submission) => self.take_submission(env, expected, pid, submission),
                    None => self.finish_stepping(env, expected, pid),
                },
                Phase::Applying => self.apply(env, expected, pid),
            };
            if env.failure.is_some() || !goes_on {
                return;
            }
            if env.preempts() {
                return self.wake_replica(env, pid);
            }
        }
    }

    fn take_input(&mut self, env: &mut Env, pid: ProcessId) -> bool {
        let now = self.now(env);
        let patience_ms = std::mem::take(&mut self.patience_ms);
        if let Some(late_ms) = self.pause_detector.check(now.mono_ms, patience_ms, || 0) {
            self.pass(env, ReplicaInput::Pause);
            env.note(format_args!("replica: paused for {late_ms} ms"));
            env.coverage.pauses_noticed += 1;
        }
        let is_due = self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms);
        if self.inbox.is_empty() && !self.has_peer_input() && !is_due {
            self.sleep(env, now, pid);
            return false;
        }
        if let Some(durable) = self.inbox.durable.take() {
            self.report_durable(env, durable);
        }
        if let Some(space) = self.inbox.space.take() {
            let (before, free_bytes) = (self.replica.status().writes(), space.usable_bytes());
            self.pass(env, ReplicaInput::DiskSpace { free_bytes, reserve_bytes: space.low_water_bytes });
            let writes = self.replica.status().writes();
            if writes != before {
                env.note(format_args!("replica: {free_bytes} bytes left, writes {writes:?}"));
            }
        }
        if let Some(version) = self.inbox.config_stored.take() {
            self.pass(env, ReplicaInput::ConfigStored(version));
        }
        self.inbox.snapshot_due.take().into_iter().for_each(|due| self.snapshots.on_due(due));
        let Member { reports, peers, .. } = &mut self.member;
        self.phase = Phase::Reporting(std::mem::take(reports), std::mem::take(peers));
        true
    }

    /// Whether a disk job has completed or a peer has sent something.
    pub(crate) fn has_peer_input(&self) -> bool {
        !self.member.reports.is_empty() || !self.member.peers.is_empty()
    }

    /// Waits for input until the next deadline, at most `PATIENCE_MS`.
    fn sleep(&mut self, env: &mut Env, now: Now, pid: ProcessId) {
        self.patience_ms = self.replica.rest_ms(now).map_or(PATIENCE_MS, |rest_ms| rest_ms.min(PATIENCE_MS));
        let wakes_at = Time(env.now.0 + self.patience_ms * 1000);
        if self.timer != Some(wakes_at) {
            self.timer = Some(wakes_at);
            env.schedule_in(self.patience_ms * 1000, Event::Replica(pid));
        }
    }

    fn look_at_clock(&mut self, env: &mut Env) {
        let now = self.now(env);
        if self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms) {
            self.on_time(env);
        }
    }

    fn on_time(&mut self, env: &mut Env) {
        let sessions = self.replica.status().session_count();
        self.pass(env, ReplicaInput::Time);
        let last = self.replica.status().last_proposed();
        env.note(format_args!("replica: timer, {sessions} sessions, proposed {last}"));
        let expired = std::mem::take(&mut self.replica.counters_mut().expired);
        if !env.plan.is_ensemble()
            && let Err(finding) = no_false_expiry::check(self, env, &expired)
        {
            finding.report(env);
        }
    }

    /// Reports the durable position, sometimes an earlier one first: every earlier position is durable too.
    fn report_durable(&mut self, env: &mut Env, durable: Zxid) {
        let applied = self.state.last_zxid();
        let is_alone = self.member.reports.is_empty();
        if applied < durable && is_alone && env.rng.chance(300) {
            let part = Zxid(env.rng.between(applied.0, durable.0 - 1));
            self.pass(env, ReplicaInput::Durable(part));
            self.inbox.durable = self.inbox.durable.max(Some(durable));
        } else {
            self.pass(env, ReplicaInput::Durable(durable));
        }
    }

    fn take_submission(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        submission: Submission,
    ) -> bool {
        env.note(format_args!("replica: {} items", submission.entries.len()));
        env.trace.bytes(&submission.bytes);
        let taken = submission.load();
        self.effects.replies_max = self.limits.replies_max();
        self.pass(env, ReplicaInput::Clients(submission));
        self.limits.on_taken(taken, self.replica.load());
        if self.effects.has_log() {
            self.flush(env, expected, pid);
        }
        self.update_role(env, expected, pid);
        true
    }

    fn finish_stepping(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) -> bool {
        self.flush(env, expected, pid);
        self.update_role(env, expected, pid);
        self.post(env, pid);
        self.phase = Phase::Applying;
        true
    }

    /// Passes one input to the replica.
    pub(crate) fn pass(&mut self, env: &Env, input: ReplicaInput) {
        self.replica.step(self.now(env), input, &self.state, &mut self.effects);
        self.note_proposed(env);
    }

    fn note_proposed(&mut self, env: &Env) {
        let last = self.replica.status().last_proposed();
        if self.proposed.back().is_none_or(|(before, _)| *before != last) {
            self.proposed.push_back((last, env.now));
        }
    }

    pub(super) fn push_log(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        batch: Arc<LogBatch>,
    ) {
        env.note(format_args!("replica: batch {} to {}", batch.first, batch.last));
        if let Err(finding) = env.reference_log.record_batch(expected, &batch, &mut self.proposed) {
            return finding.report(env);
        }
        self.log_queue.push(LogWork::Batch(QueuedBatch { batch, since: env.elapsed() }));
        self.wake_log(env, pid);
    }

    fn apply(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) -> bool {
        if self.replica.has_committed() {
            let before = self.state.last_zxid();
            let now = self.now(env);
            self.effects.replies_max = self.limits.replies_max();
            let applied = self.replica.apply(now, &mut self.state, &mut self.effects);
            env.note(format_args!("replica: applied {applied}, at {}", self.state.last_zxid()));
            if 0 < applied {
                checkers::after_apply(self, env, expected, before, applied);
            }
            if 0 < applied && self.replica.status().is_serving() {
                self.show(env);
            }
            self.update_role(env, expected, pid);
            self.post(env, pid); // while the state is locked
            self.note_proposed(env);
            return true;
        }
        self.flush(env, expected, pid);
        self.post(env, pid);
        self.limits.set_held(self.replica.load());
        env.coverage.parked += std::mem::take(&mut self.replica.counters_mut().parked);
        if self.snapshots.take_due(env.elapsed(), self.replica.status().is_serving(), self.state.last_zxid()) {
            env.note(format_args!("replica: snapshot at {}", self.state.last_zxid()));
            self.snapshot(env, pid);
        }
        self.phase = Phase::Idle;
        true
    }

    pub(crate) fn replica_is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Passes the outboxes to the I/O threads.
    fn post(&mut self, env: &mut Env, pid: ProcessId) {
        for thread in 0..self.io.len() {
            if !self.effects.outboxes.0[thread].is_empty() {
                let outbox = std::mem::take(&mut self.effects.outboxes.0[thread]);
                self.limits.on_posted(memory_of(&outbox));
                self.io[thread].mailbox.push(outbox);
                self.wake_io(env, pid, thread);
            }
        }
    }
}
