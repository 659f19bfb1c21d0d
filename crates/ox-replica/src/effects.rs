//! What a step of the replica requires of its driver: replies and events for clients, and effects on log, disk and
//! other servers.
//!
//! The effects of the quorum peer are executed inside the replica (`replica/peer_effects.rs`). What is listed here,
//! `ox-driver/src/replica_loop/execute.rs` executes, in production and in simulations.

use crate::audit::AuditEvent;
use crate::limits::REPLIES_BYTES_MAX;
use crate::log_batch::LogBatch;
use crate::outbox::Outboxes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_tree::State;
use ox_zab::{Epoch, LinkId, LogDiffRange, Message, Reason, VoteNotification};
use std::sync::Arc;

/// A job of a member's log thread. Jobs and log batches run one after another, and the end of each job is reported by
/// [`crate::ReplicaInput::Done`].
#[derive(Debug)]
pub enum LogJob {
    /// Store the accepted epoch.
    AcceptedEpoch(Epoch),
    /// Store the current epoch, after making everything before this job durable.
    CurrentEpoch(Epoch),
    /// Truncate the log after this zxid, and recover the state from the rest.
    Truncate(Zxid),
    /// Replace all local files by this state, a leader's snapshot. The driver's state is replaced by it immediately.
    Install(Box<State>),
    /// Create an empty log, which makes the member eligible to vote.
    InitializeLog,
}

/// One instruction to the driver.
#[derive(Debug)]
pub enum ReplicaEffect {
    /// Append a batch to the log. [`crate::ReplicaInput::Durable`] reports when it is durable.
    Log(Arc<LogBatch>),
    Disk(LogJob),
    /// Send a notification. It replaces any earlier one to this server that is not sent yet.
    Notify(ServerId, VoteNotification),
    Dial(ServerId),
    /// Send a packet. When the socket has accepted it, the driver reports its [`Message::flow_bytes`] by
    /// [`ox_zab::Input::Sent`].
    Send(LinkId, Message),
    /// Send SNAP, and stream the state as it is at this moment.
    SendSnapshot(LinkId),
    /// Check whether the on-disk log contains the range. [`ox_zab::Input::LogRead`] reports the result.
    ReadLog(LinkId, LogDiffRange),
    /// Send the transactions of the last successful [`Self::ReadLog`], as proposals with their commits.
    SendLogDiff(LinkId),
    Close(LinkId),
    /// Elected: accept learners on the quorum port.
    Listen,
    /// Following as observer master: accept observers.
    ServeObservers,
    /// This server is LOOKING.
    Looking,
    /// The role has ended. Learners are no longer accepted.
    StepDown(Reason),
    /// Store that a configuration is proposed, or that none is if it is not newer than the committed one.
    ConfigProposed(Arc<Ensemble>),
    /// Store and use a committed configuration. [`crate::ReplicaInput::ConfigStored`] reports when it is stored.
    ActivateConfig {
        committed: Arc<Ensemble>,
        /// A proposed configuration that may follow it.
        proposed: Option<Arc<Ensemble>>,
        /// The leader that it names.
        leader: Option<ServerId>,
    },
}

/// The effects of one or more steps. The driver executes them, and reuses the memory.
#[derive(Debug)]
pub struct ReplicaEffects {
    pub outboxes: Outboxes,
    /// Events for the audit log, if [`crate::ReplicaSettings::audits`].
    pub audit: Vec<AuditEvent>,
    /// Limit of reply bytes of reads in one step, or one call of apply.
    pub replies_max: usize,
    list: Vec<ReplicaEffect>,
    has_log: bool,
}

impl ReplicaEffects {
    pub fn new(threads: usize) -> Self {
        Self {
            outboxes: Outboxes::new(threads),
            audit: Vec::new(),
            replies_max: REPLIES_BYTES_MAX,
            list: Vec::new(),
            has_log: false,
        }
    }

    pub(crate) fn push(&mut self, effect: ReplicaEffect) {
        self.has_log |= matches!(effect, ReplicaEffect::Log(_));
        self.list.push(effect);
    }

    /// Whether a log batch was handed over. The driver then executes the effects before its next input.
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the effects, in the order in which they have to be executed.
    pub fn take(&mut self) -> Vec<ReplicaEffect> {
        self.has_log = false;
        std::mem::take(&mut self.list)
    }

    /// Returns a list whose effects were executed, for its memory.
    pub fn reuse(&mut self, executed: Vec<ReplicaEffect>) {
        if self.list.is_empty() {
            self.list = executed;
        }
    }
}
