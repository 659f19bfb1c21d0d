//! One run of a server: the same parts as in production, with steps in place of threads.
//!
//! ```text
//! I/O threads --submissions--> inbox -> replica thread --batches--> log queue -> log job
//!      ^                                  |        ^                                |
//!      +------------- outboxes -----------+        +------------ durable -----------+
//! ```

use super::io_thread::IoThread;
use super::replica_thread::Phase;
use crate::env::Env;
use crate::event::{Event, Job, Who};
use crate::server::WALL_START_MS;
use ox_history::Time;
use ox_proto::Zxid;
use ox_replica::{LogBatch, Now, Replica, ReplicaSettings, Submission};
use ox_store::{Opened, StartSnapshot, Store, TxnLog};
use ox_tree::outbox::Outboxes;
use ox_tree::{Frozen, State};
use std::collections::VecDeque;
use std::sync::Arc;

/// How often idle connections are looked for.
const IDLE_CHECK_US: i64 = 1_000_000;

/// What has come in for the replica thread.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) submissions: VecDeque<Submission>,
    pub(crate) durable: Option<Zxid>,
    pub(crate) snapshot_due: Option<Zxid>,
    pub(crate) disk_is_low: Option<bool>,
}

impl Inbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.submissions.is_empty()
            && self.durable.is_none()
            && self.snapshot_due.is_none()
            && self.disk_is_low.is_none()
    }
}

pub(crate) struct Process {
    pub(crate) state: State,
    pub(crate) replica: Replica,
    pub(crate) outboxes: Outboxes,
    pub(crate) store: Store,
    /// Away while a job writes.
    pub(crate) log: Option<TxnLog>,
    pub(crate) log_queue: VecDeque<Arc<LogBatch>>,
    pub(crate) log_is_planned: bool,
    pub(crate) inbox: Inbox,
    /// When transactions were made: each moment with the last of them.
    pub(crate) proposed: VecDeque<(Zxid, Time)>,
    pub(crate) phase: Phase,
    pub(crate) replica_is_planned: bool,
    /// The deadline that the replica thread will be woken for.
    pub(crate) timer_ms: Option<i64>,
    pub(crate) snapshot_due: Option<Zxid>,
    /// Waiting for the snapshot job.
    pub(crate) frozen: Option<Frozen>,
    pub(crate) is_snapshotting: bool,
    pub(crate) io: Vec<IoThread>,
    pub(crate) next_thread: usize,
    pub(crate) disk_was_low: bool,
    /// No connection is accepted, nothing is acknowledged any more.
    pub(crate) is_stopping: bool,
    started: Time,
    wall_ahead_ms: i64,
}

impl Process {
    pub(crate) fn new(env: &mut Env, who: Who, opened: Opened, wall_ahead_ms: i64) -> Self {
        let threads = env.plan.io_threads;
        let settings = ReplicaSettings {
            tick_ms: env.plan.tick_ms,
            server: 1,
            session_clock_ms: opened.session_clock_ms,
            threads,
            sweep_interval_ms: env.plan.sweep_ms,
            sweep_per_minute: 60_000,
            sweep_never_used_ms: 0,
        };
        let now = now(env, env.now, wall_ahead_ms);
        let replica = Replica::standalone(settings, &opened.state, now);
        let mut process = Self {
            replica,
            outboxes: Outboxes::new(threads),
            store: opened.store,
            log: Some(opened.log),
            log_queue: VecDeque::new(),
            log_is_planned: false,
            inbox: Inbox::default(),
            proposed: VecDeque::new(),
            phase: Phase::Idle,
            replica_is_planned: false,
            timer_ms: None,
            snapshot_due: None,
            frozen: None,
            is_snapshotting: false,
            io: (0..threads).map(|_| IoThread::default()).collect(),
            next_thread: 0,
            disk_was_low: false,
            is_stopping: false,
            started: env.now,
            wall_ahead_ms,
            state: opened.state,
        };
        if opened.report.start_snapshot == StartSnapshot::Due {
            process.snapshot(env, who);
        }
        process.wake_replica(env, who);
        env.plan_in(IDLE_CHECK_US, Event::Idle(who));
        env.plan_in(0, Event::Job(Job::Maintain(who)));
        process
    }

    /// Both clocks as this process reads them.
    pub(crate) fn now(&self, env: &Env) -> Now {
        now(env, self.started, self.wall_ahead_ms)
    }

    pub(crate) fn set_wall_ahead(&mut self, wall_ahead_ms: i64) {
        self.wall_ahead_ms = wall_ahead_ms;
    }

    /// Freezes the state for a snapshot, unless one is being written.
    pub(crate) fn snapshot(&mut self, env: &mut Env, who: Who) {
        if self.frozen.is_some() || self.is_snapshotting {
            return;
        }
        self.frozen = Some(self.state.freeze());
        let delay = env.thread_delay();
        env.plan_in(delay, Event::Job(Job::Snapshot(who)));
    }

    pub(crate) fn wake_log(&mut self, env: &mut Env, who: Who) {
        if !std::mem::replace(&mut self.log_is_planned, true) {
            let delay = env.thread_delay();
            env.plan_in(delay, Event::Job(Job::Log(who)));
        }
    }

    pub(crate) fn look_for_idle(&mut self, env: &mut Env, who: Who) {
        for thread in 0..self.io.len() {
            self.io[thread].looks_for_idle = true;
            self.wake_io(env, who, thread);
        }
        env.plan_in(IDLE_CHECK_US, Event::Idle(who));
    }
}

fn now(env: &Env, started: Time, wall_ahead_ms: i64) -> Now {
    let mono_ms = (env.now.0 - started.0) / 1000;
    Now { mono_ms, wall_ms: WALL_START_MS + env.now.0 / 1000 + wall_ahead_ms }
}
