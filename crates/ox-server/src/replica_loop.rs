//! The thread that runs the replica: inputs in, effects out, never waiting for the disk.

use crate::inbox::Input;
use crate::log_writer::LogQueue;
use crate::shared::Shared;
use crate::snapshotter::Snapshotter;
use ox_proto::Zxid;
use ox_replica::Replica;
use ox_tree::outbox::{Outbox, Outboxes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the loop sleeps when nothing is due.
const PATIENCE: Duration = Duration::from_secs(1);

/// A delay of the loop that may not be an accident of scheduling, and not less than a tick.
const PAUSE_MS_MIN: i64 = 500;

pub(crate) struct ReplicaLoop {
    shared: Arc<Shared>,
    replica: Replica,
    log: Arc<LogQueue>,
    snapshotter: Snapshotter,
    outboxes: Outboxes,
    snapshot_due: Option<Zxid>,
    /// When it last came around.
    looked_ms: i64,
}

impl Drop for ReplicaLoop {
    /// However the thread ends, the log thread must not wait for more.
    fn drop(&mut self) {
        self.log.close();
    }
}

impl ReplicaLoop {
    pub(crate) fn new(shared: Arc<Shared>, replica: Replica, log: Arc<LogQueue>, snapshotter: Snapshotter) -> Self {
        let threads = shared.mailboxes.len();
        let looked_ms = shared.clock.mono_ms();
        Self { shared, replica, log, snapshotter, outboxes: Outboxes::new(threads), snapshot_due: None, looked_ms }
    }

    /// Runs until the server stops; then what was handed to the disk is still written, and acknowledged to nobody.
    pub(crate) fn run(mut self) {
        while !self.shared.is_stopping() {
            let patience = self.patience();
            let input = self.shared.inbox.take(patience);
            self.notice_pause(patience);
            self.step(input);
            self.apply();
            self.take_snapshot();
        }
        self.log.close();
        self.snapshotter.wait();
    }

    /// Notices that the loop came around much later than it meant to: the process was stopped, or starved. Clients
    /// may have said anything meanwhile, so none of them counts as silent.
    fn notice_pause(&mut self, patience: Duration) {
        let now = self.shared.clock.now();
        let meant_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let late_ms = now.mono_ms - std::mem::replace(&mut self.looked_ms, now.mono_ms) - meant_ms;
        if PAUSE_MS_MIN.max(i64::from(self.shared.config.tick_ms)) < late_ms {
            tracing::warn!(late_ms, "the server did not run for a while: every session gets its full timeout again");
            self.replica.on_pause(now);
        }
    }

    fn patience(&self) -> Duration {
        if self.replica.has_committed() {
            return Duration::ZERO;
        }
        let Some(deadline_ms) = self.replica.deadline() else { return PATIENCE };
        let rest = (deadline_ms - self.shared.clock.mono_ms()).max(0);
        PATIENCE.min(Duration::from_millis(rest.unsigned_abs()))
    }

    fn step(&mut self, input: Input) {
        let now = self.shared.clock.now();
        if let Some(zxid) = input.durable {
            self.replica.on_durable(zxid);
        }
        if let Some(space) = input.space {
            self.replica.on_space(space.free_bytes, space.low_water_bytes);
        }
        self.snapshot_due = input.snapshot_due.or(self.snapshot_due);
        let shared = Arc::clone(&self.shared);
        if self.replica.deadline().is_some_and(|deadline| deadline <= now.mono_ms) {
            self.replica.on_time(now, &shared.state.read());
        }
        for submission in input.submissions {
            let taken = submission.load();
            let state = shared.state.read();
            self.replica.step(now, submission, &state, &mut self.outboxes);
            drop(state);
            shared.totals.took(taken, self.replica.load());
            if self.replica.log_is_full() {
                self.hand_over_log();
            }
        }
        self.hand_over_log();
        for question in input.questions {
            question(&self.replica, &shared.state.read());
        }
        self.post();
    }

    fn hand_over_log(&mut self) {
        if let Some(batch) = self.replica.take_log() {
            self.log.push(batch);
        }
    }

    /// Applies what is committed. The outboxes are posted while the state is still held: whoever reads the new
    /// state next finds the events that announce it.
    fn apply(&mut self) {
        let shared = Arc::clone(&self.shared);
        while self.replica.has_committed() {
            let now = shared.clock.now();
            let mut state = shared.state.write();
            let applied = self.replica.apply(now, &mut state, &mut self.outboxes);
            self.post();
            drop(state);
            shared.stats.commits.fetch_add(applied as u64, Ordering::Relaxed);
        }
        shared.totals.hold(self.replica.load());
        let outstanding = i64::try_from(self.replica.outstanding()).unwrap_or(i64::MAX);
        shared.stats.requests_outstanding.store(outstanding, Ordering::Relaxed);
        shared.stats.digest_mismatches.store(self.replica.digest_mismatches(), Ordering::Relaxed);
    }

    fn post(&mut self) {
        for (outbox, mailbox) in self.outboxes.0.iter_mut().zip(&self.shared.mailboxes) {
            if !outbox.is_empty() {
                let full: Outbox = std::mem::take(outbox);
                mailbox.put(|mail| mail.outboxes.push(full));
            }
        }
    }

    /// Starts a snapshot when the log asked for one and everything it covers is applied.
    fn take_snapshot(&mut self) {
        let Some(due) = self.snapshot_due else { return };
        let state = self.shared.state.read();
        if due <= state.last_zxid() {
            self.snapshot_due = None;
            self.snapshotter.start(state.freeze());
        }
    }
}
