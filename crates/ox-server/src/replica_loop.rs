//! The thread that runs the replica: inputs in, effects out. It never waits for the disk.
//!
//! One iteration: take the inbox; `step` passes it to the replica under one read lock of the state, with timers that
//! are due, and executes the effects:
//! log batches and disk jobs go to the log thread, packets to the peers thread; `apply` applies committed transactions
//! under the write lock, and posts the outboxes to the I/O threads; a snapshot starts if one is due. `ensemble.rs`
//! contains what only a member does.

mod ensemble;
mod latency;
mod log_diff_reads;
mod role_log;
mod state_lock;

use crate::clock::thread_worked_ms;
use crate::inbox::Input;
use crate::limits::{EXPIRY_LINES_BURST, LOG_LINES_BURST, SUBMISSION_BYTES_MAX};
use crate::log_limit::LogLimit;
use crate::log_writer::SharedLogQueue;
use crate::peers::PeerCommands;
use crate::shared::Shared;
use crate::snapshotter::Snapshotter;
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ensemble::PeerChannel;
use ox_driver::log_writer::{LogWork, QueuedBatch};
use ox_replica::{ClientInput, LogBatch, Now, PauseDetector, Replica, ReplicaEffects, ReplicaInput};
use ox_store::FreeSpace;
use ox_zab::{Input as PeerInput, PeerState};
use state_lock::StateLock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub(crate) struct ReplicaLoop {
    shared: Arc<Shared>,
    replica: Replica,
    log: Arc<SharedLogQueue>,
    snapshotter: Snapshotter,
    effects: ReplicaEffects,
    pause_detector: PauseDetector,
    /// Digest mismatches that the metrics include.
    mismatches_reported: u64,
    /// Communication with other servers; `None` on a standalone server.
    peers: Option<PeerChannel>,
    quota_warnings: LogLimit,
    /// Limits the lines about expired sessions.
    expiry_log: LogLimit,
    /// Limits the lines about refused sessions.
    refusal_log: LogLimit,
}

impl Drop for ReplicaLoop {
    /// Ends the log thread, whichever way this thread ends. After a panic the server stops first, so that the end of
    /// the log thread is not reported as the cause.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop();
        }
        self.log.close();
    }
}

impl ReplicaLoop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        replica: Replica,
        log: Arc<SharedLogQueue>,
        snapshotter: Snapshotter,
        commands: Option<Arc<PeerCommands>>,
    ) -> Self {
        Self {
            peers: commands.map(|commands| PeerChannel::new(commands, Arc::clone(&shared))),
            quota_warnings: LogLimit::new(LOG_LINES_BURST),
            expiry_log: LogLimit::new(EXPIRY_LINES_BURST),
            refusal_log: LogLimit::new(LOG_LINES_BURST),
            effects: ReplicaEffects::new(shared.mailboxes.len()),
            pause_detector: PauseDetector::new(
                i32::try_from(shared.config.tick_ms).unwrap_or(i32::MAX),
                shared.clock.mono_ms(),
            ),
            mismatches_reported: 0,
            shared,
            replica,
            log,
            snapshotter,
        }
    }

    /// Runs until the server stops. Queued batches are still written then, but not acknowledged.
    pub(crate) fn run(mut self, heartbeat: &Heartbeat) {
        let shared = Arc::clone(&self.shared);
        if self.peers.is_some() {
            let (now, mut lock) = (shared.clock.now(), StateLock::new(&shared.state));
            self.pass(now, ReplicaInput::Peer(PeerInput::Start), &mut lock);
            self.execute_effects(now, &mut lock);
        }
        while !self.shared.is_stopping() {
            heartbeat.beat();
            let timeout = self.timeout();
            let input = self.shared.inbox.take(timeout);
            let mut lock = StateLock::new(&shared.state);
            self.detect_pause(timeout, &mut lock);
            self.step(input, &mut lock);
            drop(lock);
            self.apply();
            self.update_metrics();
            self.snapshotter.start_due(self.replica.status().is_serving());
        }
        // The synced position is recorded with all existing files, so a snapshot must not be written after that.
        self.snapshotter.wait();
        self.log.close();
    }

    /// Detects that the process was paused. Clients may have sent anything meanwhile, so none of them counts as silent.
    /// Work of this thread is no pause: I/O threads received input meanwhile.
    fn detect_pause(&mut self, timeout: Duration, lock: &mut StateLock<'_>) {
        let meant_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let now = self.shared.clock.now();
        if let Some(late_ms) = self.pause_detector.check(now.mono_ms, meant_ms, thread_worked_ms) {
            self.pass(now, ReplicaInput::Pause, lock);
            tracing::warn!(late_ms, "process was paused; every session gets its full timeout again");
        }
    }

    fn timeout(&self) -> Duration {
        if self.replica.has_committed() {
            return Duration::ZERO;
        }
        let rest = self.replica.rest_ms(self.shared.clock.now());
        rest.map_or(CHECK_INTERVAL, |rest| CHECK_INTERVAL.min(Duration::from_millis(rest.unsigned_abs())))
    }

    /// Reports free disk space. A member whose disk is low does not stand for election.
    pub(crate) fn report_space(&mut self, space: FreeSpace) {
        let shared = Arc::clone(&self.shared);
        self.pass(shared.clock.now(), space_input(space), &mut StateLock::new(&shared.state));
    }

    /// Passes one input to the replica.
    fn pass(&mut self, now: Now, input: ReplicaInput, lock: &mut StateLock<'_>) {
        self.replica.step(now, input, lock.get(), &mut self.effects);
    }

    fn step(&mut self, mut input: Input, lock: &mut StateLock<'_>) {
        let now = self.shared.clock.now();
        if let Some(zxid) = input.durable {
            self.pass(now, ReplicaInput::Durable(zxid), lock);
        }
        if let Some(space) = input.space {
            self.pass(now, space_input(space), lock);
        }
        self.process_peer_input(now, &mut input, lock);
        input.snapshot_due.into_iter().for_each(|zxid| self.snapshotter.on_due(zxid));
        if self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms) {
            self.pass(now, ReplicaInput::Time, lock);
        }
        self.note_input(&input);
        let began = Instant::now();
        let has_work = !input.submissions.is_empty();
        for submission in input.submissions {
            let taken = submission.load();
            self.effects.replies_max = self.shared.global_limits.replies_max();
            self.pass(now, ReplicaInput::Clients(submission), lock);
            self.shared.global_limits.on_taken(taken, self.replica.load());
            if self.effects.has_log() {
                self.execute_effects(now, lock);
            }
            if SUBMISSION_BYTES_MAX < self.effects.outboxes.bytes() {
                self.post();
            }
        }
        self.flush(now, lock);
        if has_work {
            self.shared.metrics.prep_process_time.note(elapsed_ms(began), 1);
        }
        for query in input.queries {
            query(&self.replica, lock.get());
        }
        self.post();
        self.post_audit(now);
    }

    /// Ends a batch of inputs, and executes the effects.
    fn flush(&mut self, now: Now, lock: &mut StateLock<'_>) {
        self.pass(now, ReplicaInput::Flush, lock);
        self.execute_effects(now, lock);
    }

    fn push_log(&self, batch: Arc<LogBatch>) {
        let (metrics, records) = (&self.shared.metrics, batch.records as u64);
        if self.orders_writes() {
            metrics.outstanding_changes_queued.add(records);
        }
        metrics.proposal_count.add(records);
        metrics.sync_processor_request_queued.add(records);
        self.log.push(LogWork::Batch(QueuedBatch { batch, since: self.shared.clock.elapsed() }));
    }

    /// Whether this server prepares transactions. Changes are outstanding there only, and not on learners.
    fn orders_writes(&self) -> bool {
        self.replica.status().peer_state().is_none_or(|state| state == PeerState::Leading)
    }

    fn note_input(&self, input: &Input) {
        let Some(submitted_at) = input.submitted_at else { return };
        let items = input.submissions.iter().flat_map(|submission| &submission.entries);
        let requests = items
            .filter(|item| matches!(item.input, ClientInput::Request { .. } | ClientInput::Connect { .. }))
            .count();
        if requests != 0 {
            let (metrics, requests) = (&self.shared.metrics, requests as u64);
            metrics.prep_processor_request_queued.add(requests);
            metrics.prep_processor_queue_size.note(requests.cast_signed() - 1, 1);
            metrics.prep_processor_queue_time_ms.note(elapsed_ms(submitted_at), requests);
        }
    }

    /// Applies committed transactions. The outboxes are posted while the state is locked, so that a client receives an
    /// event before any reply that shows the change.
    fn apply(&mut self) {
        let shared = Arc::clone(&self.shared);
        while self.replica.has_committed() {
            let (now, metrics) = (shared.clock.now(), &shared.metrics);
            let mut state = shared.state.write();
            let began = Instant::now();
            self.effects.replies_max = shared.global_limits.replies_max();
            let applied = self.replica.apply(now, &mut state, &mut self.effects) as u64;
            let fired = state.take_fired();
            self.post();
            drop(state);
            self.post_audit(now);
            metrics.write_batch_time_in_commit_processor.note(elapsed_ms(began), 1);
            metrics.commit_count.add(applied);
            if self.orders_writes() {
                metrics.outstanding_changes_removed.add(applied);
            }
            metrics.node_created_watch_count.merge(&fired.created);
            metrics.node_deleted_watch_count.merge(&fired.deleted);
            metrics.node_changed_watch_count.merge(&fired.changed);
            metrics.node_children_watch_count.merge(&fired.children);
        }
        shared.global_limits.set_held(self.replica.load());
        self.flush(shared.clock.now(), &mut StateLock::new(&shared.state));
        self.post();
    }

    /// Adds the replica's counters to the metrics.
    fn update_metrics(&mut self) {
        let metrics = &self.shared.metrics;
        let mismatches = self.replica.status().digest_mismatches();
        if self.mismatches_reported == 0 && 0 < mismatches {
            tracing::error!(
                "digest mismatch: this server's tree differs from its leader's; compare the output of the four-letter command hash of all members"
            );
        }
        metrics.digest_mismatches_count.add(mismatches - self.mismatches_reported);
        self.mismatches_reported = mismatches;
        let local = i64::try_from(self.replica.status().local_session_count()).unwrap_or(i64::MAX);
        self.shared.stats.local_sessions.store(local, Relaxed);
        let counters = self.replica.counters_mut();
        metrics.connection_revalidate_count.add(std::mem::take(&mut counters.resumed));
        metrics.parked_handshakes.add(std::mem::take(&mut counters.parked));
        metrics.stale_sessions_expired.add(counters.expired.len() as u64);
        for (session, timeout_ms) in counters.expired.drain(..) {
            if let Some(suppressed) = self.expiry_log.allow(self.shared.clock.mono_ms()) {
                tracing::info!(suppressed, "Expiring session {session}, timeout of {timeout_ms}ms exceeded");
            }
        }
        if let Some(address) = counters.refused_address.take() {
            let count = std::mem::take(&mut counters.refused_sessions);
            metrics.sessions_rejected.add(count);
            metrics.connection_rejected.add(count);
            self.refusal_log.suppress(count - 1);
            if let Some(suppressed) = self.refusal_log.allow(self.shared.clock.mono_ms()) {
                let max = self.shared.config.limits.sessions_per_address;
                tracing::warn!(%address, max, suppressed, "session refused: too many sessions from one address");
            }
        }
        for (ms, count) in counters.propagation_ms.drain() {
            metrics.propagation_latency.note(ms, count);
        }
        metrics.read_per_namespace.merge(&mut counters.reads);
        metrics.write_per_namespace.merge(&mut counters.writes);
        metrics.quota_exceeded_error_per_namespace.merge(&mut counters.refused_by_quota);
        if let Some(over) = counters.over_quota.take() {
            self.quota_warnings.suppress(std::mem::take(&mut counters.over_quota_count) - 1);
            if let Some(suppressed) = self.quota_warnings.allow(self.shared.clock.mono_ms()) {
                tracing::warn!(suppressed, "{over}");
            }
        }
    }

    /// Hands events to the audit thread.
    fn post_audit(&mut self, now: Now) {
        if !self.effects.audit.is_empty()
            && let Some(queue) = &self.shared.audit
        {
            queue.push(now.wall_ms, self.effects.audit.drain(..));
        }
    }

    fn post(&mut self) {
        for (thread, outbox) in self.effects.outboxes.0.iter_mut().enumerate() {
            if !outbox.is_empty() {
                self.shared.post(thread, outbox.take());
            }
        }
    }
}

fn space_input(space: FreeSpace) -> ReplicaInput {
    ReplicaInput::DiskSpace { free_bytes: space.usable_bytes(), reserve_bytes: space.low_water_bytes }
}

fn elapsed_ms(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
