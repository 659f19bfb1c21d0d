//! A process of a server: the same parts as in production, with steps instead of threads.
//!
//! ```text
//! I/O threads --submissions--> inbox -> replica thread --batches--> log queue -> log job
//!      ^                                  |        ^                                |
//!      +------------- outboxes -----------+        +------------ durable -----------+
//! ```

use super::ExpectedDisk;
use super::config;
use super::io_thread::{IoThread, global_limits};
use super::member::{Member, server_id};
use super::peers_thread::PeersThread;
use super::replica_thread::ReplicaThread;
use crate::env::Env;
use crate::event::{Event, Job, ProcessId};
use crate::plan::Plan;
use crate::server::WALL_START_MS;
use bytes::Bytes;
use ox_driver::client_io::GlobalLimits;
use ox_driver::log_writer::{GroupLimits, LogQueue, LogWriter};
use ox_driver::replica_loop::{ReplicaInbox, show_config};
use ox_driver::server_log::ServerLog;
use ox_driver::space_check::SpaceCheck;
use ox_history::Time;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_replica::{LocalSessions, Now, Replica, ReplicaSettings, Throttle, ThrottleSettings};
use ox_store::{FreeSpace, OpenOutcome, Opened, OpenedMember, StartSnapshot, Store};
use ox_tree::{FrozenView, State};
use ox_zab::{
    ConfigPair, ElectionSettings, EncodedTxn, Epoch, Epochs, PeerOptions, PeerSettings, QuorumPeer, RecentLog,
    Recovered, Timing,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Process {
    pub(crate) state: State,
    pub(crate) replica_thread: ReplicaThread,
    pub(crate) store: Store,
    /// `None` while a job writes to it.
    pub(crate) log: Option<LogWriter>,
    pub(crate) log_queue: LogQueue,
    pub(crate) member: Member,
    pub(crate) peers_thread: PeersThread,
    pub(crate) log_is_scheduled: bool,
    pub(crate) space_check: SpaceCheck,
    /// Input of the replica thread.
    pub(crate) inbox: ReplicaInbox,
    /// Proposal times, each with the last zxid proposed by then.
    pub(crate) proposed: VecDeque<(Zxid, Time)>,
    /// The state for the next snapshot job.
    pub(crate) frozen: Option<FrozenView>,
    pub(crate) io: Vec<IoThread>,
    pub(crate) next_thread: usize,
    /// The limits on all clients together.
    pub(crate) limits: GlobalLimits,
    /// Limits the rate of new connections.
    pub(crate) throttle: RefCell<Option<Throttle>>,
    /// The process accepts no connections and acknowledges nothing any more.
    pub(crate) is_stopping: bool,
    /// No thread of the process runs before this time.
    frozen_until: Time,
    /// Factor by which the threads are slowed down, and until when.
    stalled: (i64, Time),
    started: Time,
    wall_ahead_ms: i64,
}

impl Process {
    /// Creates the process of a standalone server.
    pub(crate) fn standalone(
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        (opened, space): (Opened, FreeSpace),
        wall_ahead_ms: i64,
    ) -> Self {
        let settings = replica_settings(env, pid, opened.session_clock_ms);
        let now = now(env, env.now, wall_ahead_ms);
        let peer = QuorumPeer::standalone(server_id(pid.server), opened.state.last_zxid());
        let replica = Replica::new(settings, peer, &opened.state, now);
        let log = ServerLog::Standalone(Box::new(opened.log), opened.store.clone());
        let mut process = Self::new(env, (opened.store, log), opened.state, replica, wall_ahead_ms);
        let starts_snapshot = opened.report.start_snapshot == StartSnapshot::Due;
        process.start_replica(env, expected, pid, (space, starts_snapshot));
        process.begin(env, pid);
        process
    }

    /// Creates the process of a member, which starts as LOOKING.
    pub(crate) fn member(
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        (opened, space): (OpenedMember, FreeSpace),
        files: Option<(Ensemble, Option<Ensemble>)>,
        wall_ahead_ms: i64,
    ) -> Self {
        let settings = replica_settings(env, pid, opened.session_clock_ms);
        let now = now(env, env.now, wall_ahead_ms);
        let ox_store::StoredEpochs { accepted, current } = opened.log.epochs();
        let epochs = Epochs { accepted: Epoch(i64::from(accepted)), current: Epoch(i64::from(current)) };
        let kept_max = env.plan.commit_log;
        let (state, history, standing) = match opened.outcome {
            OpenOutcome::Loaded(loaded) => {
                let last = loaded.state.last_zxid();
                let before = loaded.recent_txns.first().map_or(last, |first| Zxid(first.zxid.0 - 1));
                let mut history = RecentLog::new(before, kept_max, 1 << 20).with_pinned_max(env.plan.pinned_bytes);
                for logged in loaded.recent_txns {
                    history.push(EncodedTxn { zxid: logged.zxid, record: Bytes::from(logged.record) });
                }
                history.trim(last, Zxid(i64::MAX));
                (loaded.state, history, ox_zab::Eligibility::HasHistory)
            }
            nothing @ (OpenOutcome::Empty | OpenOutcome::Quarantined(_)) => {
                let state = State::new(crate::jobs::tree_options(&env.plan));
                let is_empty = matches!(nothing, OpenOutcome::Empty);
                let standing = if is_empty { ox_zab::Eligibility::Empty } else { ox_zab::Eligibility::Quarantined };
                let history = RecentLog::new(Zxid::ZERO, kept_max, 1 << 20).with_pinned_max(env.plan.pinned_bytes);
                (state, history, standing)
            }
        };
        let configs = match files {
            Some(files) => config::configs(files, state.config()),
            None => ConfigPair::fixed(config::first(&env.plan)),
        };
        let active = configs.is_dynamic().then(|| Arc::clone(configs.committed()));
        let peer = QuorumPeer::new(
            peer_settings(&env.plan, pid, configs),
            Recovered { epochs, history, eligibility: standing },
        );
        let replica = Replica::new(settings, peer, &state, now);
        let log = ServerLog::Member(Box::new(opened.log));
        let mut process = Self::new(env, (opened.store, log), state, replica, wall_ahead_ms);
        if let Some(ensemble) = &active {
            show_config(&mut process.state, ensemble, now.wall_ms);
        }
        process.member.ensemble = active;
        process.start_replica(env, expected, pid, (space, false));
        process.begin(env, pid);
        process
    }

    fn new(env: &Env, (store, log): (Store, ServerLog), state: State, replica: Replica, wall_ahead_ms: i64) -> Self {
        let threads = env.plan.io_threads;
        let now = now(env, env.now, wall_ahead_ms);
        let records_max = Some(env.plan.batch_records);
        let limits = GroupLimits { records_max, flush_delay: Duration::ZERO, poll_max: Duration::ZERO };
        Self {
            replica_thread: ReplicaThread::new(env, replica, now),
            store,
            log: Some(LogWriter::new(log, limits)),
            log_queue: LogQueue::default(),
            member: Member::default(),
            peers_thread: PeersThread::new(&env.plan),
            log_is_scheduled: false,
            space_check: SpaceCheck::new(env.plan.is_ensemble()),
            inbox: ReplicaInbox::default(),
            proposed: VecDeque::new(),
            frozen: None,
            io: (0..threads).map(|thread| IoThread::new(&env.plan, thread, now)).collect(),
            next_thread: 0,
            limits: global_limits(&env.plan),
            throttle: RefCell::new(throttle(&env.plan, now)),
            is_stopping: false,
            frozen_until: Time(0),
            stalled: (1, Time(0)),
            started: env.now,
            wall_ahead_ms,
            state,
        }
    }

    fn begin(&mut self, env: &mut Env, pid: ProcessId) {
        self.wake_replica(env, pid);
        (0..self.io.len()).for_each(|thread| self.wake_io(env, pid, thread));
        env.schedule_in(0, Event::Job(Job::Maintain(pid)));
    }

    /// Both clocks, as this process reads them.
    pub(crate) fn now(&self, env: &Env) -> Now {
        now(env, self.started, self.wall_ahead_ms)
    }

    /// The time until the next step of one of its threads.
    pub(crate) fn thread_delay(&self, env: &mut Env) -> i64 {
        let delay = env.rng.skewed(env.plan.thread_delay_us);
        let (factor, until) = self.stalled;
        // A step is not delayed beyond the end of the stall.
        if env.now < until { (delay * factor).min(until.0 - env.now.0) } else { delay }
    }

    /// Slows all threads down until the given time.
    pub(crate) fn stall(&mut self, factor: i64, until: Time) {
        self.stalled = (factor, until);
    }

    /// Ends the slowdown for the steps that follow. Steps that are delayed already stay delayed until its planned end.
    pub(crate) fn end_stall(&mut self) {
        self.stalled.0 = 1;
    }

    /// Stops all threads until the given time.
    pub(crate) fn freeze(&mut self, until: Time) {
        self.frozen_until = self.frozen_until.max(until);
    }

    /// The time since which no freeze or stall has delayed the process.
    pub(crate) fn runs_since(&self) -> Time {
        self.frozen_until.max(self.stalled.1).max(self.started)
    }

    /// When the process resumes, if it is frozen now.
    pub(crate) fn frozen(&self, now: Time) -> Option<Time> {
        (now < self.frozen_until).then_some(self.frozen_until)
    }

    pub(crate) fn set_wall_ahead(&mut self, wall_ahead_ms: i64) {
        self.wall_ahead_ms = wall_ahead_ms;
    }

    pub(crate) fn wake_log(&mut self, env: &mut Env, pid: ProcessId) {
        if !std::mem::replace(&mut self.log_is_scheduled, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Job(Job::Log(pid)));
        }
    }
}

fn replica_settings(env: &Env, pid: ProcessId, session_clock_ms: i64) -> ReplicaSettings {
    ReplicaSettings {
        tick_ms: env.plan.tick_ms,
        server: u8::try_from(pid.server + 1).unwrap_or(u8::MAX),
        session_clock_ms,
        threads: env.plan.io_threads,
        sweep_interval_ms: env.plan.sweep_ms,
        sweep_per_minute: env.plan.sweep_per_minute,
        sweep_never_used_ms: env.plan.never_used_ms,
        change_rules: ox_proto::ensemble::ChangeRules { standalone_enabled: false, ..Default::default() },
        local_sessions: if env.plan.local_sessions { LocalSessions::Upgrade } else { LocalSessions::Off },
        leader_serves: true,
        read_only_after_ms: env.plan.read_only.then(|| i64::from(env.plan.tick_ms)),
        park_limit_ms: env.plan.park_limit_ms,
        sessions_per_address: 0,
        audits: false,
        epoch_txns: if env.plan.epoch_txns == 0 { u32::MAX } else { env.plan.epoch_txns },
    }
}

fn peer_settings(plan: &Plan, pid: ProcessId, configs: ConfigPair) -> PeerSettings {
    let server = server_id(pid.server);
    let (tick_ms, init_ticks, sync_ticks) = (i64::from(plan.tick_ms), plan.init_ticks, plan.sync_ticks);
    PeerSettings {
        server,
        configs,
        timing: Timing { tick_ms, init_ticks, sync_ticks },
        election: ElectionSettings { max_notification_ms: plan.election_wait_ms, ..ElectionSettings::default() },
        options: PeerOptions {
            serves_observers: plan.observer_masters,
            observer_delay_ms: tick_ms,
            learner_window_bytes: plan.learner_window_bytes,
            request_window_bytes: plan.request_window_bytes,
            ..PeerOptions::default()
        },
    }
}

fn throttle(plan: &Plan, now: Now) -> Option<Throttle> {
    let settings = ThrottleSettings {
        tokens: plan.connection_tokens,
        fill_time_ms: 50,
        fill_count: 1,
        freeze_time_ms: None,
        drop_increase: 0.0,
        drop_decrease: 0.0,
        decrease_ratio: 0.0,
        weights: None,
    };
    Throttle::new(settings, now)
}

fn now(env: &Env, started: Time, wall_ahead_ms: i64) -> Now {
    let mono_ms = (env.now.0 - started.0) / 1000;
    Now { mono_ms, wall_ms: WALL_START_MS + env.now.0 / 1000 + wall_ahead_ms }
}
