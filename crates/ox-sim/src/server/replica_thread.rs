//! The replica thread of a process: runs the replica loop of production (`ox-driver/src/replica_loop.rs`), and can be
//! preempted between any two of its steps.

use super::ExpectedDisk;
use super::process::Process;
use super::sim_replica_host::SimReplicaHost;
use crate::checkers::{self, no_false_expiry};
use crate::env::Env;
use crate::event::{Event, ProcessId};
use ox_driver::replica_loop::{LatestVote, PeerEvent, ReplicaInbox, ReplicaLoop, ReplicaLoopSettings, ReplicaStage};
use ox_history::Time;
use ox_proto::Zxid;
use ox_replica::{Now, Replica, ReplicaStatus};
use ox_store::FreeSpace;
use ox_zab::ServerId;
use std::time::Duration;

/// The longest wait of the loop when nothing is due.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The replica loop and its wake-ups.
pub(crate) struct ReplicaThread {
    /// `None` while a step runs.
    running: Option<Box<ReplicaLoop>>,
    /// The timeout of the present wait, and when it ends.
    timeout: Duration,
    wakes_at: Time,
    /// When a timer wakes the thread.
    timer: Option<Time>,
    is_scheduled: bool,
}

impl ReplicaThread {
    pub(crate) fn new(env: &Env, replica: Replica, now: Now) -> Self {
        let settings = ReplicaLoopSettings {
            tick_ms: env.plan.tick_ms,
            io_threads: env.plan.io_threads,
            link_chunk_bytes: env.plan.link_chunk_bytes,
            consumed_report_bytes: (env.plan.held_bytes / 16).max(1),
        };
        Self {
            running: Some(Box::new(ReplicaLoop::new(settings, replica, now))),
            timeout: Duration::ZERO,
            wakes_at: env.now,
            timer: None,
            is_scheduled: false,
        }
    }

    fn replica_loop(&self) -> &ReplicaLoop {
        self.running.as_ref().expect("no step runs")
    }

    pub(crate) fn replica_loop_mut(&mut self) -> &mut ReplicaLoop {
        self.running.as_mut().expect("no step runs")
    }

    pub(crate) fn status(&self) -> ReplicaStatus<'_> {
        self.replica_loop().replica().status()
    }

    pub(crate) fn is_writing_snapshot(&self) -> bool {
        self.replica_loop().is_writing_snapshot()
    }

    /// Whether no iteration runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.replica_loop().stage() == ReplicaStage::Idle
    }
}

impl Process {
    /// What the replica reports about itself.
    pub(crate) fn status(&self) -> ReplicaStatus<'_> {
        self.replica_thread.status()
    }

    /// Queues an event of the peers thread.
    pub(crate) fn on_peer(&mut self, env: &mut Env, pid: ProcessId, event: PeerEvent) {
        self.inbox.peers.push(event);
        self.wake_replica(env, pid);
    }

    pub(crate) fn on_vote(&mut self, env: &mut Env, pid: ProcessId, from: ServerId, vote: LatestVote) {
        self.inbox.add_vote(from, vote);
        self.wake_replica(env, pid);
    }

    pub(crate) fn wake_replica(&mut self, env: &mut Env, pid: ProcessId) {
        if !std::mem::replace(&mut self.replica_thread.is_scheduled, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Replica(pid));
        }
    }

    /// Starts the replica, and sometimes a snapshot of its state.
    pub(super) fn start_replica(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        (space, starts_snapshot): (FreeSpace, bool),
    ) {
        let now = self.now(env);
        self.run_loop(env, expected, pid, |replica_loop, host| {
            if starts_snapshot {
                replica_loop.start_snapshot(host);
            }
            replica_loop.start(now, space, host);
        });
    }

    /// Runs a part of the replica loop, and the checks that follow it.
    fn run_loop(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        run: impl FnOnce(&mut ReplicaLoop, &mut SimReplicaHost<'_>),
    ) {
        let before = self.state.last_zxid();
        let mut running = self.replica_thread.running.take().expect("no step runs inside another");
        let mut host = SimReplicaHost { process: self, env, expected, pid, applied: 0 };
        run(&mut running, &mut host);
        let applied = host.applied;
        let counters = running.counters_mut();
        env.coverage.parked += std::mem::take(&mut counters.parked);
        let expired = std::mem::take(&mut counters.expired);
        self.replica_thread.running = Some(running);
        self.note_proposed(env, self.status().last_proposed());
        if !expired.is_empty() && !env.plan.is_ensemble() {
            no_false_expiry::check(self, env, &expired).unwrap_or_else(|finding| finding.report(env));
        }
        if 0 < applied {
            env.note(format_args!("replica: applied {applied}, at {}", self.state.last_zxid()));
            checkers::after_apply(self, env, expected, before, applied);
            if self.status().is_serving() {
                self.show(env);
            }
        }
        self.update_role(env, expected, pid);
    }

    /// Takes steps until the thread is preempted or has nothing to do.
    pub(crate) fn replica_step(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) {
        self.replica_thread.is_scheduled = false;
        if self.is_stopping {
            return; // production leaves its loop; the stop job finishes the log
        }
        loop {
            let now = self.now(env);
            if self.replica_thread.is_idle() {
                if self.inbox.is_empty() && env.now < self.replica_thread.wakes_at {
                    return self.sleep(env, pid);
                }
                let (timeout, input) = (self.replica_thread.timeout, self.take_input(env));
                self.run_loop(env, expected, pid, |replica_loop, host| replica_loop.begin(now, timeout, input, host));
            } else {
                self.run_loop(env, expected, pid, |replica_loop, host| _ = replica_loop.step(now, host));
                if self.replica_thread.is_idle() {
                    let timeout = self.replica_thread.replica_loop().timeout(now, WAIT_MAX);
                    let wait_us = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
                    (self.replica_thread.timeout, self.replica_thread.wakes_at) = (timeout, Time(env.now.0 + wait_us));
                }
            }
            if env.failure.is_some() {
                return;
            }
            if env.preempts() {
                return self.wake_replica(env, pid);
            }
        }
    }

    /// Waits for input until the end of the timeout.
    fn sleep(&mut self, env: &mut Env, pid: ProcessId) {
        let ReplicaThread { wakes_at, timer, .. } = &mut self.replica_thread;
        if timer.is_none_or(|timer| timer <= env.now || *wakes_at < timer) {
            *timer = Some(*wakes_at);
            env.schedule_in(wakes_at.0 - env.now.0, Event::Replica(pid));
        }
    }

    /// Takes the input, sometimes only what could have arrived somewhat earlier: production takes its input at any time.
    fn take_input(&mut self, env: &mut Env) -> ReplicaInbox {
        let mut input = std::mem::take(&mut self.inbox);
        let applied = self.state.last_zxid();
        if let Some(durable) = input.durable
            && applied < durable
            && input.reports.is_empty()
            && env.rng.chance(300)
        {
            // Every earlier position is durable too. The log thread reports a job after everything before it.
            input.durable = Some(Zxid(env.rng.between(applied.0, durable.0 - 1)));
            self.inbox.durable = Some(durable);
        }
        let splits = |_: &PeerEvent| env.rng.chance(env.plan.flush_per_mille);
        if let Some(last) = input.peers.iter().position(splits)
            && last + 1 < input.peers.len()
        {
            self.inbox.peers = input.peers.split_off(last + 1);
            self.inbox.votes = std::mem::take(&mut input.votes);
        }
        input
    }

    /// Notes when the last proposed transaction was proposed.
    pub(super) fn note_proposed(&mut self, env: &Env, last: Zxid) {
        if self.proposed.back().is_none_or(|(before, _)| *before != last) {
            self.proposed.push_back((last, env.now));
        }
    }
}
