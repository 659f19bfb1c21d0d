//! The thread that runs the replica: inputs in, effects out, never waiting for the disk.

mod journal;
mod latency;
mod lookups;
mod member;

use crate::clock::thread_worked_ms;
use crate::inbox::Input;
use crate::limits::{EXPIRED_LINES_AT_ONCE, PROVOKED_LINES_AT_ONCE, SUBMITTED_AT_ONCE_BYTES};
use crate::log_writer::LogQueue;
use crate::peers::Orders;
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::snapshotter::Snapshotter;
use crate::watchdog::{LOOK, Turns};
use member::PeerLines;
use ox_proto::Zxid;
use ox_replica::{ClientInput, Replica};
use ox_tree::outbox::Outboxes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub(crate) struct ReplicaLoop {
    shared: Arc<Shared>,
    replica: Replica,
    log: Arc<LogQueue>,
    snapshotter: Snapshotter,
    outboxes: Outboxes,
    snapshot_due: Option<Zxid>,
    /// Mismatches that are counted in the metrics.
    mismatches_told: u64,
    /// The way to other servers.
    peers: Option<PeerLines>,
    quota_warnings: Seldom,
    /// Lines about sessions that expired.
    expiries: Seldom,
    /// Lines about sessions that were refused.
    refusals: Seldom,
}

impl Drop for ReplicaLoop {
    /// However the thread ends, the log thread must not wait for more; nor be blamed for what it did not begin.
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
        log: Arc<LogQueue>,
        snapshotter: Snapshotter,
        orders: Option<Arc<Orders>>,
    ) -> Self {
        Self {
            peers: orders.map(|orders| PeerLines::new(orders, Arc::clone(&shared))),
            quota_warnings: Seldom::new(PROVOKED_LINES_AT_ONCE),
            expiries: Seldom::new(EXPIRED_LINES_AT_ONCE),
            refusals: Seldom::new(PROVOKED_LINES_AT_ONCE),
            outboxes: Outboxes::new(shared.mailboxes.len()),
            snapshot_due: None,
            mismatches_told: 0,
            shared,
            replica,
            log,
            snapshotter,
        }
    }

    /// Runs until the server stops; then what was handed to the disk is still written, and acknowledged to nobody.
    pub(crate) fn run(mut self, turns: &Turns) {
        if self.peers.is_some() {
            let now = self.shared.clock.now();
            self.replica.start(now);
            self.perform(now);
        }
        while !self.shared.is_stopping() {
            turns.mark();
            let patience = self.patience();
            let input = self.shared.inbox.take(patience);
            self.notice_pause(patience);
            self.step(input);
            self.apply();
            self.tell();
            self.take_snapshot();
        }
        // The end of the log is noted with all files that there are: a snapshot must not come after that.
        self.snapshotter.wait();
        self.log.close();
    }

    /// Notices that the process did not run. Clients may have said anything meanwhile, so none of them counts as
    /// silent. While only this thread was busy they were heard.
    fn notice_pause(&mut self, patience: Duration) {
        let meant_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        if let Some(late_ms) = self.replica.on_turn(self.shared.clock.now(), meant_ms, thread_worked_ms) {
            tracing::warn!(late_ms, "the server did not run for a while: every session gets its full timeout again");
        }
    }

    fn patience(&self) -> Duration {
        if self.replica.has_committed() {
            return Duration::ZERO;
        }
        let rest = self.replica.rest_ms(self.shared.clock.now());
        rest.map_or(LOOK, |rest| LOOK.min(Duration::from_millis(rest.unsigned_abs())))
    }

    fn step(&mut self, mut input: Input) {
        let now = self.shared.clock.now();
        if let Some(zxid) = input.durable {
            self.replica.on_durable(now, zxid);
        }
        if let Some(space) = input.space {
            self.replica.on_space(now, space.usable_bytes(), space.low_water_bytes);
        }
        self.hear_peers(now, &mut input);
        self.snapshot_due = input.snapshot_due.or(self.snapshot_due);
        let shared = Arc::clone(&self.shared);
        if self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms) {
            self.replica.on_time(now, &shared.state.read());
        }
        self.note_input(&input);
        let began = Instant::now();
        let has_work = !input.submissions.is_empty();
        for submission in input.submissions {
            let taken = submission.load();
            self.replica.limit_replies(shared.totals.replies_max());
            let state = shared.state.read();
            self.replica.step(now, submission, &state, &mut self.outboxes);
            drop(state);
            shared.totals.took(taken, self.replica.load());
            if self.replica.log_is_full() {
                self.hand_over_log();
            }
            if SUBMITTED_AT_ONCE_BYTES < self.outboxes.bytes() {
                self.post();
            }
        }
        self.hand_over_log();
        self.settle(now);
        if has_work {
            shared.metrics.prep_process_time.note(elapsed_ms(began), 1);
        }
        for question in input.questions {
            question(&self.replica, &shared.state.read());
        }
        self.post();
    }

    pub(super) fn hand_over_log(&mut self) {
        if let Some(batch) = self.replica.take_log(self.shared.clock.now()) {
            let (metrics, records) = (&self.shared.metrics, batch.records as u64);
            metrics.outstanding_changes_queued.add(records);
            metrics.proposal_count.add(records);
            metrics.sync_processor_request_queued.add(records);
            self.log.push(batch);
        }
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

    /// Applies what is committed. The outboxes are posted while the state is still held: whoever reads the new
    /// state next finds the events that announce it.
    fn apply(&mut self) {
        let shared = Arc::clone(&self.shared);
        while self.replica.has_committed() {
            let (now, metrics) = (shared.clock.now(), &shared.metrics);
            let mut state = shared.state.write();
            let began = Instant::now();
            self.replica.limit_replies(shared.totals.replies_max());
            let applied = self.replica.apply(now, &mut state, &mut self.outboxes) as u64;
            let fired = state.take_fired();
            self.post();
            drop(state);
            metrics.write_batch_time_in_commit_processor.note(elapsed_ms(began), 1);
            metrics.commit_count.add(applied);
            metrics.outstanding_changes_removed.add(applied);
            metrics.node_created_watch_count.merge(&fired.created);
            metrics.node_deleted_watch_count.merge(&fired.deleted);
            metrics.node_changed_watch_count.merge(&fired.changed);
            metrics.node_children_watch_count.merge(&fired.children);
        }
        shared.totals.hold(self.replica.load());
        self.settle(shared.clock.now());
    }

    /// Adds what the replica has counted to the metrics.
    fn tell(&mut self) {
        let metrics = &self.shared.metrics;
        let mismatches = self.replica.digest_mismatches();
        if self.mismatches_told == 0 && 0 < mismatches {
            tracing::error!(
                "the digest of a transaction does not fit the tree: this server's data is not what others have"
            );
        }
        metrics.digest_mismatches_count.add(mismatches - self.mismatches_told);
        self.mismatches_told = mismatches;
        let local = i64::try_from(self.replica.local_session_count()).unwrap_or(i64::MAX);
        self.shared.stats.local_sessions.store(local, Relaxed);
        let tallies = self.replica.counters_mut();
        metrics.connection_revalidate_count.add(std::mem::take(&mut tallies.resumed));
        metrics.parked_handshakes.add(std::mem::take(&mut tallies.parked));
        metrics.stale_sessions_expired.add(tallies.expired.len() as u64);
        for (session, timeout_ms) in tallies.expired.drain(..) {
            if let Some(unsaid) = self.expiries.may_say(self.shared.clock.mono_ms()) {
                tracing::info!(unsaid, "Expiring session {session}, timeout of {timeout_ms}ms exceeded");
            }
        }
        if let Some(address) = tallies.refused_address.take() {
            let count = std::mem::take(&mut tallies.refused_sessions);
            metrics.sessions_rejected.add(count);
            metrics.connection_rejected.add(count);
            self.refusals.hold_back(count - 1);
            if let Some(unsaid) = self.refusals.may_say(self.shared.clock.mono_ms()) {
                let max = self.shared.config.limits.sessions_per_address;
                tracing::warn!(unsaid, "Too many sessions from /{address} - max is {max}");
            }
        }
        for (ms, count) in tallies.propagation_ms.drain() {
            metrics.propagation_latency.note(ms, count);
        }
        metrics.read_per_namespace.merge(&mut tallies.reads);
        metrics.write_per_namespace.merge(&mut tallies.writes);
        metrics.quota_exceeded_error_per_namespace.merge(&mut tallies.refused_by_quota);
        if let Some(over) = tallies.over_quota.take() {
            self.quota_warnings.hold_back(std::mem::take(&mut tallies.over_quota_count) - 1);
            if let Some(held_back) = self.quota_warnings.may_say(self.shared.clock.mono_ms()) {
                tracing::warn!(held_back, "{over}");
            }
        }
    }

    fn post(&mut self) {
        for (thread, outbox) in self.outboxes.0.iter_mut().enumerate() {
            if !outbox.is_empty() {
                self.shared.post(thread, outbox.take());
            }
        }
    }

    /// Starts a snapshot when the log asked for one and everything it covers is applied, or when one failed a while
    /// ago. Who serves nobody may hold what was never agreed on, and have to forget it (K24).
    fn take_snapshot(&mut self) {
        if !self.replica.is_serving() || !self.snapshotter.wants(self.snapshot_due.is_some()) {
            return;
        }
        let state = self.shared.state.read();
        if self.snapshot_due.is_none_or(|due| due <= state.last_zxid()) {
            self.snapshot_due = None;
            self.snapshotter.start(state.freeze());
        }
    }
}

fn elapsed_ms(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
