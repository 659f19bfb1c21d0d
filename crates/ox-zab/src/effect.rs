//! What the machines ask their driver to do, in this order.

use crate::epoch::Epoch;
use crate::message::{Message, Txn};
use crate::vote::Notification;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use std::sync::Arc;

/// A connection between a learner and its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Work for the disk. Jobs and appended transactions are done one after the other, and each is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskJob {
    /// Remember a promise.
    AcceptedEpoch(Epoch),
    /// Everything before it is durable; then remember that it is the history of this epoch.
    CurrentEpoch(Epoch),
    /// Forget what is behind this transaction.
    Truncate(Zxid),
    /// The staged state replaces all history.
    Install(Zxid),
    /// Begin an empty history.
    Found,
}

/// A finished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskDone {
    /// The promise is durable.
    AcceptedEpoch(Epoch),
    /// The epoch is durable.
    CurrentEpoch(Epoch),
    /// The history begins with the installed state, here.
    Installed(Zxid),
    /// There is a history, and nothing in it.
    Founded,
    /// The history ends here now; none if it could not be cut there, and is as it was.
    Truncated(Option<Zxid>),
}

impl DiskJob {
    /// The report that everything went well.
    pub fn done(self) -> DiskDone {
        match self {
            Self::AcceptedEpoch(epoch) => DiskDone::AcceptedEpoch(epoch),
            Self::CurrentEpoch(epoch) => DiskDone::CurrentEpoch(epoch),
            Self::Truncate(zxid) => DiskDone::Truncated(Some(zxid)),
            Self::Install(zxid) => DiskDone::Installed(zxid),
            Self::Found => DiskDone::Founded,
        }
    }
}

/// Why a role ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other side is gone.
    LinkLost,
    /// Nothing was heard for too long.
    Silence,
    /// Too few servers to agree.
    NoQuorum,
    /// The leader's epoch is below one that was promised.
    OldEpoch(Epoch),
    /// The other side broke the protocol.
    Violation(String),
    /// The history cannot be continued as the leader wants it; the next time it is asked for a snapshot.
    NeedsSnapshot,
    /// Learners cannot connect.
    CannotListen,
    /// Numbers of this epoch are used up.
    EpochUsedUp,
    /// The own disk is too slow.
    DiskStalled,
    /// The own disk is nearly full, and others can lead.
    NoRoom,
    /// A voter that had elected this leader looks for one again.
    Deserted,
    /// This leader is not established, and a quorum follows another one.
    OtherLeader(ServerId),
    /// A new configuration names another leader.
    HandedOver(ServerId),
    /// A new configuration changes who leads, or what this server is.
    Reconfigured,
    /// A voter cannot follow because it promised a higher epoch to somebody who never led.
    HigherPromise,
}

/// A part of the on-disk log that a learner needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The learner has this one.
    pub after: Zxid,
    /// Memory holds everything from this one on.
    pub below: Zxid,
    /// Any size is better than nothing: the learner has been sent everything up to `after`, maybe as a snapshot. Otherwise a
    /// snapshot may be the smaller choice (`snapshotSizeFactor`).
    pub continues: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell a server on the election port; what was told before and is not sent yet is out of date.
    Notify(ServerId, Notification),
    /// Connect to a leader.
    Dial(ServerId),
    /// Send a packet. When the socket has taken it, [`crate::Peer::on_sent`] reports its [`Message::flow_bytes`].
    Send(LinkId, Message),
    /// Say SNAP, and stream the state as it is at this moment.
    SendSnapshot(LinkId),
    /// Look whether the on-disk log has everything between two transactions; answered by [`crate::Peer::on_looked_up`].
    LookUp(LinkId, Search),
    /// Send what was found, as proposals with their commits.
    SendStored(LinkId),
    /// Hang up.
    Close(LinkId),
    /// Give work to the disk.
    Disk(DiskJob),
    /// Log a transaction.
    Append(Txn),
    /// Everything up to here is agreed on: apply it as soon as it is durable here.
    Commit(Zxid),
    /// Apply a transaction to the state that is being received.
    Stage(Txn),
    /// This server leads; what it orders from now on may be agreed on.
    Established(Epoch),
    /// This server follows an established leader: serve clients.
    UpToDate(Epoch),
    /// The role is over: nobody is served, and what is not logged is forgotten.
    Leave(Reason),
    /// Nobody leads.
    Looking,
    /// Elected: let learners connect.
    Listen,
    /// Following: let observers connect.
    ServeObservers,
    /// A learner says something that is not about history.
    FromLearner(LinkId, ServerId, Message),
    /// The leader says something that is not about history.
    FromLeader(Message),
    /// A sync that was asked for can be answered.
    Synced(u64),
    /// This configuration may follow the one in force. Remembered on disk before whatever the disk is given next.
    Seen(Arc<Ensemble>),
    /// This configuration is in force, with this leader if one was named.
    Activate(Arc<Ensemble>, Option<ServerId>),
}

/// Everything to do, in order.
pub type Effects = Vec<Effect>;
