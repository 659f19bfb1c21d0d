//! What the state machines require of their driver. Effects are executed in order.
//!
//! `ox-replica/src/replica/peer_effects.rs` executes them on log, state and clients. For sockets, disk and files it makes
//! effects of its own (`ox-replica/src/effects.rs`), which the driver executes.

use crate::epoch::Epoch;
use crate::message::{EncodedTxn, Message};
use crate::vote::VoteNotification;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use std::sync::Arc;

/// The link between a learner and its leader, or its observer master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A step of the log thread. Jobs and appended transactions run one after another, and the completion of each is
/// reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskJob {
    /// Store the accepted epoch.
    AcceptedEpoch(Epoch),
    /// Store the current epoch, after making everything before this job durable.
    CurrentEpoch(Epoch),
    /// Truncate the log after this zxid.
    Truncate(Zxid),
    /// Replace state and log by the received snapshot, which is at this zxid.
    Install(Zxid),
    /// Create an empty log, which makes the member eligible to vote.
    InitializeLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskDone {
    AcceptedEpoch(Epoch),
    CurrentEpoch(Epoch),
    Installed(Zxid),
    LogInitialized,
    /// The new end of the log. None if it could not be truncated there, and is unchanged.
    Truncated(Option<Zxid>),
}

impl DiskJob {
    /// The report of this job's success.
    pub fn done(self) -> DiskDone {
        match self {
            Self::AcceptedEpoch(epoch) => DiskDone::AcceptedEpoch(epoch),
            Self::CurrentEpoch(epoch) => DiskDone::CurrentEpoch(epoch),
            Self::Truncate(zxid) => DiskDone::Truncated(Some(zxid)),
            Self::Install(zxid) => DiskDone::Installed(zxid),
            Self::InitializeLog => DiskDone::LogInitialized,
        }
    }
}

/// Why a role ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The link was closed.
    LinkLost,
    /// The peer was silent for too long.
    Timeout,
    /// A leader has too few followers.
    NoQuorum,
    /// The leader's epoch is below the accepted epoch.
    OldEpoch(Epoch),
    /// The peer violated the protocol.
    Violation(String),
    /// The local log cannot be made equal to the leader's. The next synchronisation asks for a snapshot.
    NeedsSnapshot,
    /// The leader cannot listen on its quorum port.
    CannotListen,
    /// The counter of this epoch is exhausted (K85).
    ZxidRollover,
    /// The leader's own disk did not complete a write in time.
    DiskStalled,
    /// The leader's disk is nearly full, and a quorum can continue without it.
    DiskLow,
    /// A supporter of an unestablished leader changed its vote, and no quorum remains.
    LostSupport,
    /// This leader is not established, and a quorum follows another leader.
    OtherLeader(ServerId),
    /// A new configuration names another leader.
    HandedOver(ServerId),
    /// A new configuration changes the leader, or this server's role.
    Reconfigured,
    /// A voter that is needed has accepted a higher epoch, from a leader that was never established.
    HigherAcceptedEpoch,
}

/// A part of the on-disk log that a learner lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDiffRange {
    /// The learner's last transaction.
    pub after: Zxid,
    /// The first transaction in memory.
    pub below: Zxid,
    /// The learner has already been sent everything up to `after`, perhaps as a snapshot, so the diff may have any
    /// size. Otherwise a snapshot may be the cheaper choice (`snapshotSizeFactor`).
    pub continues: bool,
}

/// One instruction to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a notification. It replaces any earlier one to this server that is not sent yet.
    Notify(ServerId, VoteNotification),
    Dial(ServerId),
    /// Send a packet. When the socket has accepted it, the driver reports its [`Message::flow_bytes`] by
    /// [`crate::Input::Sent`].
    Send(LinkId, Message),
    /// Send SNAP, and stream the state as it is at this moment.
    SendSnapshot(LinkId),
    /// Check whether the on-disk log contains the range. The driver reports the result by
    /// [`crate::Input::LogRead`].
    ReadLog(LinkId, LogDiffRange),
    /// Send the transactions of the last successful [`Self::ReadLog`], as proposals with their commits.
    SendLogDiff(LinkId),
    Close(LinkId),
    Disk(DiskJob),
    Append(EncodedTxn),
    /// Everything up to this zxid is committed: apply it as soon as it is durable here.
    Commit(Zxid),
    /// Apply a transaction to the snapshot that is being received.
    ApplyToSnapshot(EncodedTxn),
    /// This server is an established leader: it may propose transactions.
    Established(Epoch),
    /// This server follows an established leader: it may serve clients.
    UpToDate(Epoch),
    /// The role ends: stop serving clients, and drop what is not logged.
    StepDown(Reason),
    /// This server is LOOKING.
    Looking,
    /// Elected: accept learners on the quorum port.
    Listen,
    /// Following as observer master: accept observers.
    ServeObservers,
    /// A packet of a learner that concerns its clients.
    FromLearner(LinkId, ServerId, Message),
    /// A packet of the leader that concerns clients.
    FromLeader(Message),
    /// The sync with this id may be replied to.
    Synced(u64),
    /// A configuration is proposed. The driver stores it after the transactions so far, one of which contains it, and
    /// before anything that the disk is given next.
    ConfigProposed(Arc<Ensemble>),
    /// A configuration is committed, with the leader that it names, if it does.
    ActivateConfig(Arc<Ensemble>, Option<ServerId>),
}

pub type Effects = Vec<Effect>;
