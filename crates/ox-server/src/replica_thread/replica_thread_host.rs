//! What the replica loop needs, on real threads: the lock of the state, the queues of the other threads, metrics and log
//! lines.

use super::elapsed_ms;
use super::role_log::RoleLog;
use crate::clock::thread_worked_ms;
use crate::peers::PeerCommands;
use crate::peers::config_activation;
use crate::replica_thread::inbox::Input;
use crate::replica_thread::log_writer::SharedLogQueue;
use crate::replica_thread::slow_requests::SlowRequests;
use crate::replica_thread::snapshotter::Snapshotter;
use crate::shared::Shared;
use ox_driver::client_io::GlobalLimits;
use ox_driver::log_writer::LogWork;
use ox_driver::replica_loop::{LatestVote, PeerCommand, PeerEvent, ReplicaHost, StateWriter};
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_replica::outbox::Outbox;
use ox_replica::{AuditEvent, ClientInput, Now, Replica, ReplicaEffect, Submission};
use ox_tree::watch::FiredCounts;
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, LinkId, LogDiffRange, Message, PeerState};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct ReplicaThreadHost<'a> {
    shared: &'a Arc<Shared>,
    log: &'a SharedLogQueue,
    commands: Option<&'a PeerCommands>,
    pub(super) snapshotter: Snapshotter,
    pub(super) slow_requests: SlowRequests,
    /// `None` on a standalone server.
    role_log: Option<RoleLog>,
    /// The read lock of a batch of inputs.
    guard: Option<RwLockReadGuard<'a, State>>,
    /// When the state was last locked for writing.
    locked_at: Instant,
    /// When the first submission of the iteration was taken.
    prepares_since: Option<Instant>,
}

/// The write lock of the state.
pub(super) struct LockedState<'a> {
    guard: RwLockWriteGuard<'a, State>,
    shared: &'a Shared,
}

impl StateWriter for LockedState<'_> {
    fn state(&mut self) -> &mut State {
        &mut self.guard
    }

    fn post(&mut self, thread: usize, outbox: Outbox) {
        self.shared.post(thread, outbox);
    }
}

impl<'a> ReplicaThreadHost<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, log: &'a SharedLogQueue, commands: Option<&'a PeerCommands>) -> Self {
        Self {
            log,
            commands,
            snapshotter: Snapshotter::new(Arc::clone(shared)),
            slow_requests: SlowRequests::new(),
            role_log: commands.map(|_| RoleLog::new(Arc::clone(shared))),
            guard: None,
            locked_at: Instant::now(),
            prepares_since: None,
            shared,
        }
    }

    pub(super) fn now(&self) -> Now {
        self.shared.clock.now()
    }

    /// Measures the input of an iteration.
    pub(super) fn note_input(&self, input: &Input) {
        let Some(submitted_at) = input.submitted_at else { return };
        let items = input.replica.submissions.iter().flat_map(|submission| &submission.entries);
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

    /// All submissions of the iteration are processed.
    pub(super) fn note_prepared(&mut self) {
        if let Some(since) = self.prepares_since.take() {
            self.shared.metrics.prep_process_time.note(elapsed_ms(since), 1);
        }
    }
}

/// Whether this server prepares transactions. Changes are outstanding there only, and not on learners.
fn orders_writes(replica: &Replica) -> bool {
    replica.status().peer_state().is_none_or(|state| state == PeerState::Leading)
}

impl ReplicaHost for ReplicaThreadHost<'_> {
    type StateWriter<'w>
        = LockedState<'w>
    where
        Self: 'w;

    fn state(&mut self) -> &State {
        let shared = self.shared;
        self.guard.get_or_insert_with(|| shared.state.read())
    }

    fn release_state(&mut self) {
        self.guard = None;
    }

    fn write_state(&mut self) -> LockedState<'_> {
        self.guard = None;
        let guard = self.shared.state.write();
        self.locked_at = Instant::now();
        LockedState { guard, shared: self.shared }
    }

    fn limits(&self) -> &GlobalLimits {
        &self.shared.global_limits
    }

    fn post(&mut self, thread: usize, outbox: Outbox) {
        self.shared.post(thread, outbox);
    }

    fn audit(&mut self, now: Now, events: &mut Vec<AuditEvent>) {
        if let Some(queue) = &self.shared.audit {
            queue.push(now.wall_ms, events.drain(..));
        }
    }

    fn push_log(&mut self, work: LogWork) {
        self.log.push(work);
    }

    fn command_peers(&mut self, commands: Vec<PeerCommand>) {
        if let Some(queue) = self.commands {
            queue.send(commands);
        }
    }

    /// Searches the on-disk log on a separate thread, because that may take long.
    fn search_log(&mut self, link: LinkId, LogDiffRange { after, below, continues }: LogDiffRange) {
        let shared = Arc::clone(self.shared);
        let factor = shared.config.member.as_ref().map_or(-1.0, |member| member.snapshot_size_factor);
        let factor = if continues { f64::INFINITY } else { factor };
        let search = move || {
            let found = shared.store.log_diff(after, below, factor).unwrap_or_else(|error| {
                tracing::warn!(%error, "sending a snapshot to a learner: cannot read the on-disk log");
                None
            });
            shared.inbox.put(|input| input.peers.push(PeerEvent::LogDiffRead(link, below, found.map(Box::new))));
        };
        if let Err(error) = std::thread::Builder::new().name("history".to_owned()).spawn(search) {
            tracing::error!(%error, "cannot start a thread to read the log");
            self.shared.inbox.put(|input| input.peers.push(PeerEvent::LogDiffRead(link, below, None)));
        }
    }

    fn write_snapshot(&mut self, frozen: FrozenView) {
        self.snapshotter.start(frozen);
    }

    fn ensemble(&self) -> Option<Arc<Ensemble>> {
        self.shared.ensemble.read().clone()
    }

    fn activate(&mut self, committed: &Arc<Ensemble>) {
        config_activation::activate(self.shared, committed);
    }

    fn elapsed(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    fn worked_ms(&self) -> i64 {
        thread_worked_ms()
    }

    fn on_pause(&mut self, late_ms: i64) {
        tracing::warn!(late_ms, "process was paused; every session gets its full timeout again");
    }

    fn on_durable(&mut self, now: Now, zxid: Zxid) {
        self.slow_requests.on_durable(zxid, now.mono_ms);
        if let Some(role_log) = &mut self.role_log {
            role_log.durable(zxid, now.wall_ms);
        }
    }

    fn on_report(&mut self, done: DiskDone) {
        if let DiskDone::Installed(last) = done {
            self.shared.restore.on_done(last); // a member has no requester
        }
    }

    fn on_peer_event(&mut self, _replica: &Replica, event: &PeerEvent) {
        if let (Some(role_log), PeerEvent::LearnerConnected(link, address)) = (&mut self.role_log, event) {
            role_log.connected(*link, *address);
        }
    }

    fn on_vote(&mut self, replica: &Replica, from: ServerId, vote: &LatestVote) {
        if let Some(role_log) = &mut self.role_log {
            role_log.notified(replica, from, vote.note, vote.config_version);
        }
    }

    fn on_packet(&mut self, now: Now, link: LinkId, message: &Message) {
        if let Some(role_log) = &mut self.role_log {
            role_log.received(link, message, now.wall_ms);
        }
    }

    fn on_link_closed(&mut self, link: LinkId) {
        if let Some(role_log) = &mut self.role_log {
            role_log.link_closed(link);
        }
    }

    fn on_submission(&mut self, _submission: &Submission) {
        self.prepares_since.get_or_insert_with(Instant::now);
    }

    fn on_effect(&mut self, now: Now, replica: &Replica, effect: &ReplicaEffect) {
        if let ReplicaEffect::Log(batch) = effect {
            let (metrics, records) = (&self.shared.metrics, batch.records as u64);
            if orders_writes(replica) {
                metrics.outstanding_changes_queued.add(records);
            }
            metrics.proposal_count.add(records);
            metrics.sync_processor_request_queued.add(records);
        }
        if let Some(role_log) = &mut self.role_log {
            role_log.on_effect(replica, effect, now.wall_ms);
        }
    }

    fn on_executed(&mut self, replica: &Replica) {
        if let Some(role_log) = &mut self.role_log {
            role_log.update(replica);
        }
    }

    fn on_applied(&mut self, replica: &Replica, applied: usize, fired: &FiredCounts) {
        let metrics = &self.shared.metrics;
        metrics.write_batch_time_in_commit_processor.note(elapsed_ms(self.locked_at), 1);
        metrics.commit_count.add(applied as u64);
        if orders_writes(replica) {
            metrics.outstanding_changes_removed.add(applied as u64);
        }
        metrics.node_created_watch_count.merge(&fired.created);
        metrics.node_deleted_watch_count.merge(&fired.deleted);
        metrics.node_changed_watch_count.merge(&fired.changed);
        metrics.node_children_watch_count.merge(&fired.children);
    }
}
