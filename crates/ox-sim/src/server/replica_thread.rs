//! The replica thread of production, cut into steps between which other threads run.

use super::log::Work;
use super::member::{Member, PeerInput};
use super::process::Process;
use super::{Report, Track};
use crate::checkers::{self, no_false_expiry};
use crate::env::Env;
use crate::event::{Event, Who};
use ox_history::Time;
use ox_proto::Zxid;
use ox_replica::{Now, Submission};
use std::collections::VecDeque;

/// How long the loop sleeps when nothing is due.
const PATIENCE_MS: i64 = 1_000;

/// Where in its loop the thread stands.
pub(crate) enum Phase {
    /// Waiting for input.
    Idle,
    /// Taking what the disk has done and peers have said, one per step.
    Hearing(VecDeque<Report>, VecDeque<PeerInput>),
    /// Taking submissions, one per step.
    Stepping(VecDeque<Submission>),
    /// Applying what is committed, one hold of the state per step. What the disk holds is told in portions.
    Applying,
}

impl Process {
    pub(crate) fn wake_replica(&mut self, env: &mut Env, who: Who) {
        if !std::mem::replace(&mut self.replica_is_planned, true) {
            let delay = self.thread_delay(env);
            env.plan_in(delay, Event::Replica(who));
        }
    }

    /// Takes steps until the thread is interrupted or has nothing to do.
    pub(crate) fn replica_step(&mut self, env: &mut Env, track: &mut Track, who: Who) {
        self.replica_is_planned = false;
        if self.is_stopping {
            return; // production leaves its loop; the log is finished by the stop job
        }
        loop {
            let goes_on = match &mut self.phase {
                Phase::Idle => self.take_input(env, who),
                Phase::Hearing(reports, peers) => {
                    if let Some(report) = reports.pop_front() {
                        self.take_report(env, track, who, report);
                    } else if let Some(input) = peers.pop_front() {
                        self.take_peer_input(env, track, who, input);
                    } else {
                        self.settle(env);
                        self.flush(env, track, who);
                        self.look_at_clock(env);
                        self.phase = Phase::Stepping(std::mem::take(&mut self.inbox.submissions));
                    }
                    true
                }
                Phase::Stepping(submissions) => match submissions.pop_front() {
                    Some(submission) => self.take_submission(env, track, who, submission),
                    None => self.finish_stepping(env, track, who),
                },
                Phase::Applying => self.apply(env, track, who),
            };
            if env.failure.is_some() || !goes_on {
                return;
            }
            if env.preempts() {
                return self.wake_replica(env, who);
            }
        }
    }

    fn take_input(&mut self, env: &mut Env, who: Who) -> bool {
        let now = self.now(env);
        if let Some(late_ms) = self.replica.on_turn(now, std::mem::take(&mut self.patience_ms), || 0) {
            env.note(format_args!("replica: late by {late_ms} ms"));
            env.marks.pauses_noticed += 1;
        }
        let is_due = self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms);
        if self.inbox.is_empty() && !self.has_heard() && !is_due {
            self.sleep(env, now, who);
            return false;
        }
        if let Some(durable) = self.inbox.durable.take() {
            self.report_durable(env, durable);
        }
        if let Some(space) = self.inbox.space.take() {
            let (before, usable_bytes) = (self.replica.writes(), space.usable_bytes());
            self.replica.on_space(self.now(env), usable_bytes, space.low_water_bytes);
            if self.replica.writes() != before {
                env.note(format_args!("replica: {usable_bytes} bytes left, writes {:?}", self.replica.writes()));
            }
        }
        if let Some(version) = self.inbox.config_stored.take() {
            self.replica.on_config_stored(version);
        }
        self.snapshot_due = self.inbox.snapshot_due.take().or(self.snapshot_due);
        let Member { reports, peers, .. } = &mut self.member;
        self.phase = Phase::Hearing(std::mem::take(reports), std::mem::take(peers));
        true
    }

    /// Whether disk or peers have said something.
    pub(crate) fn has_heard(&self) -> bool {
        !self.member.reports.is_empty() || !self.member.peers.is_empty()
    }

    /// Waits for input, and for the next deadline, but not too long.
    fn sleep(&mut self, env: &mut Env, now: Now, who: Who) {
        self.patience_ms = self.replica.rest_ms(now).map_or(PATIENCE_MS, |rest_ms| rest_ms.min(PATIENCE_MS));
        let wakes_at = Time(env.now.0 + self.patience_ms * 1000);
        if self.timer != Some(wakes_at) {
            self.timer = Some(wakes_at);
            env.plan_in(self.patience_ms * 1000, Event::Replica(who));
        }
    }

    fn look_at_clock(&mut self, env: &mut Env) {
        let now = self.now(env);
        if self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms) {
            self.on_time(env, now);
        }
    }

    fn on_time(&mut self, env: &mut Env, now: Now) {
        let sessions = self.replica.session_count();
        self.replica.on_time(now, &self.state);
        self.proposed.push_back((self.replica.last_proposed(), env.now));
        env.note(format_args!("replica: on time, {sessions} sessions, proposed {}", self.replica.last_proposed()));
        let expired = std::mem::take(&mut self.replica.tallies_mut().expired);
        if !env.plan.is_ensemble()
            && let Err(finding) = no_false_expiry::check(self, env, &expired)
        {
            finding.report(env);
        }
    }

    /// Tells what the disk holds, sometimes only a part of it first: any part is true.
    fn report_durable(&mut self, env: &mut Env, durable: Zxid) {
        let (applied, now) = (self.state.last_zxid(), self.now(env));
        let is_alone = self.member.reports.is_empty();
        if applied < durable && is_alone && env.dice.chance(300) {
            let part = Zxid(env.dice.between(applied.0, durable.0 - 1));
            self.replica.on_durable(now, part);
            self.inbox.durable = self.inbox.durable.max(Some(durable));
        } else {
            self.replica.on_durable(now, durable);
        }
    }

    fn take_submission(&mut self, env: &mut Env, track: &mut Track, who: Who, submission: Submission) -> bool {
        let now = self.now(env);
        env.note(format_args!("replica: {} items", submission.items.len()));
        env.trace.bytes(&submission.bytes);
        let taken = submission.load();
        self.replica.step(now, submission, &self.state, &mut self.outboxes);
        self.totals.took(taken, self.replica.load());
        self.proposed.push_back((self.replica.last_proposed(), env.now));
        if self.replica.log_is_full() {
            self.flush(env, track, who);
        }
        self.look_at_role(env, track, who);
        true
    }

    fn finish_stepping(&mut self, env: &mut Env, track: &mut Track, who: Who) -> bool {
        self.settle(env);
        self.flush(env, track, who);
        self.look_at_role(env, track, who);
        self.post(env, who);
        self.phase = Phase::Applying;
        true
    }

    pub(super) fn hand_over_log(&mut self, env: &mut Env, track: &mut Track, who: Who) {
        if let Some(batch) = self.replica.take_log(self.now(env)) {
            env.note(format_args!("replica: batch {} to {}", batch.first, batch.last));
            if let Err(finding) = env.journal.hand_over(track, &batch, &mut self.proposed) {
                return finding.report(env);
            }
            self.log_queue.push_back(Work::Batch(batch));
            self.wake_log(env, who);
        }
    }

    fn apply(&mut self, env: &mut Env, track: &mut Track, who: Who) -> bool {
        if self.replica.has_committed() {
            let before = self.state.last_zxid();
            let now = self.now(env);
            let applied = self.replica.apply(now, &mut self.state, &mut self.outboxes);
            env.note(format_args!("replica: applied {applied}, at {}", self.state.last_zxid()));
            if 0 < applied {
                checkers::after_apply(self, env, track, before, applied);
            }
            if 0 < applied && self.replica.is_serving() {
                self.show(env);
            }
            self.look_at_role(env, track, who);
            self.post(env, who); // while the state is held
            self.proposed.push_back((self.replica.last_proposed(), env.now));
            return true;
        }
        self.settle(env);
        self.flush(env, track, who);
        self.post(env, who);
        self.totals.hold(self.replica.load());
        env.marks.parked += std::mem::take(&mut self.replica.tallies_mut().parked);
        if let Some(due) = self.snapshot_due.filter(|due| *due <= self.state.last_zxid() && self.replica.is_serving()) {
            env.note(format_args!("replica: snapshot due at {due}"));
            self.snapshot_due = None;
            self.snapshot(env, who);
        }
        self.phase = Phase::Idle;
        true
    }

    pub(crate) fn replica_is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Hands the outboxes to the I/O threads.
    fn post(&mut self, env: &mut Env, who: Who) {
        for thread in 0..self.io.len() {
            if !self.outboxes.0[thread].is_empty() {
                let outbox = std::mem::take(&mut self.outboxes.0[thread]);
                self.io[thread].mailbox.push_back(outbox);
                self.wake_io(env, who, thread);
            }
        }
    }
}
