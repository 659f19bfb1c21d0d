//! Everything that can happen to a replica. `effects.rs` is the opposite direction.

use crate::submission::Submission;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_tree::State;
use ox_zab::{DiskDone, ElectionConnection, LinkId, Message, Reason, Traffic, VoteNotification};
use std::sync::Arc;

/// One event for [`crate::Replica::step`].
#[derive(Debug)]
pub enum ReplicaInput {
    /// The process has started, with its whole log applied.
    Start,
    /// The requests that connections have submitted.
    Clients(Submission),
    /// Ends a batch of inputs: prepared transactions are handed to the log and proposed, and due proofs of leadership
    /// are requested.
    Flush,
    /// The time of [`crate::Replica::deadline`] has come.
    Time,
    /// The process did not run for a while. Every session gets its full timeout again, and peers get time until their
    /// packets are read.
    Pause,
    /// The log is durable up to this zxid.
    Durable(Zxid),
    /// The driver has measured free disk space. The reserve must not be used for ordinary writes: they are refused
    /// before that, and accepted again when there is more space. A member may be told before it starts.
    DiskSpace {
        free_bytes: u64,
        reserve_bytes: u64,
    },
    /// A disk job has ended. If it has replaced the state, the driver has done so too.
    Done(DiskDone),
    /// The files of an active configuration of this version are written, or writing failed.
    ConfigStored(i64),
    /// A notification arrived on the election port.
    Notification(ServerId, VoteNotification),
    /// A server reported its committed configuration.
    Config(ServerId, Arc<Ensemble>),
    /// The connection to a server's election port has changed.
    ElectionLink(ServerId, ElectionConnection),
    /// The attempt to connect to a leader succeeded or failed.
    Dialed(ServerId, Option<LinkId>),
    /// A learner has connected.
    LinkOpened(LinkId),
    LinkClosed(LinkId),
    /// Bytes were received or sent, perhaps only a part of a packet.
    Traffic(LinkId, Traffic),
    /// The socket of a link has accepted packets with this sum of their [`Message::flow_bytes`].
    Sent(LinkId, usize),
    /// A packet arrived, and [`crate::Replica::takes_packets`] is true for its link.
    Packet(LinkId, Message),
    /// The on-disk log contains what the learner lacks before this zxid, or does not.
    LogRead(LinkId, Option<Zxid>),
    /// A snapshot was received completely.
    SnapshotReceived(LinkId, Box<State>),
    /// End the role, and start an election.
    StepDown(Reason),
}
