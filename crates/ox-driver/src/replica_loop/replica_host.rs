//! What the replica loop needs from outside: the state, other threads, and records for operators.

use super::{LatestVote, PeerCommand, PeerEvent};
use crate::client_io::GlobalLimits;
use crate::log_writer::LogWork;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_replica::outbox::Outbox;
use ox_replica::{AuditEvent, Now, Replica, ReplicaEffect, Submission};
use ox_tree::watch::FiredCounts;
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, LinkId, LogDiffRange, Message};
use std::sync::Arc;
use std::time::Duration;

/// The state, locked for writing until this is dropped.
pub trait StateWriter {
    fn state(&mut self) -> &mut State;

    /// Does the same as [`ReplicaHost::post`], while the state is locked: a client receives an event before any reply
    /// that shows the change.
    fn post(&mut self, thread: usize, outbox: Outbox);
}

/// The surroundings of the replica loop. Methods with a body count and record only: for operators, and for the checks of
/// simulations.
pub trait ReplicaHost {
    type StateWriter<'a>: StateWriter
    where
        Self: 'a;

    /// The state. It stays locked for reading until [`Self::release_state`], so that a batch of inputs takes one lock.
    fn state(&mut self) -> &State;

    fn release_state(&mut self);

    /// Locks the state for writing, after releasing it for reading.
    fn write_state(&mut self) -> Self::StateWriter<'_>;

    fn limits(&self) -> &GlobalLimits;

    /// Hands replies and events to an I/O thread, and counts them as posted ([`GlobalLimits::on_posted`]).
    fn post(&mut self, thread: usize, outbox: Outbox);

    /// Queues work for the log thread, in order.
    fn push_log(&mut self, work: LogWork);

    /// Queues commands for the peers thread, in order.
    fn command_peers(&mut self, commands: Vec<PeerCommand>);

    /// Starts to search the on-disk log for a learner. [`PeerEvent::LogDiffRead`] reports the result.
    fn search_log(&mut self, link: LinkId, range: LogDiffRange);

    /// Starts to write a snapshot. [`super::ReplicaLoop::on_snapshot_finished`] reports its end.
    fn write_snapshot(&mut self, frozen: FrozenView);

    /// The active configuration; `None` if the server shows none.
    fn ensemble(&self) -> Option<Arc<Ensemble>>;

    /// Makes a committed configuration the active one.
    fn activate(&mut self, committed: &Arc<Ensemble>);

    /// The time since the server started.
    fn elapsed(&self) -> Duration;

    /// CPU time of the calling thread.
    fn worked_ms(&self) -> i64;

    /// Takes events for the audit log. Only called if the replica's settings ask for them.
    fn audit(&mut self, _now: Now, _events: &mut Vec<AuditEvent>) {}

    /// The process did not run for this much longer than the loop meant to wait.
    fn on_pause(&mut self, _late_ms: i64) {}

    fn on_durable(&mut self, _now: Now, _zxid: Zxid) {}

    fn on_report(&mut self, _done: DiskDone) {}

    fn on_peer_event(&mut self, _replica: &Replica, _event: &PeerEvent) {}

    fn on_vote(&mut self, _replica: &Replica, _from: ServerId, _vote: &LatestVote) {}

    /// The replica takes a packet.
    fn on_packet(&mut self, _now: Now, _link: LinkId, _message: &Message) {}

    fn on_link_closed(&mut self, _link: LinkId) {}

    fn on_submission(&mut self, _submission: &Submission) {}

    /// An effect is about to be executed.
    fn on_effect(&mut self, _now: Now, _replica: &Replica, _effect: &ReplicaEffect) {}

    /// The effects of a batch of inputs are executed.
    fn on_executed(&mut self, _replica: &Replica) {}

    /// Transactions were applied, and the write lock is released.
    fn on_applied(&mut self, _replica: &Replica, _applied: usize, _fired: &FiredCounts) {}
}
