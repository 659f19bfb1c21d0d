//! Everything that can happen to a member.
//!
//! The replica makes these inputs from its own (`ox-replica/src/input.rs`), and from what it does for clients and
//! learners. `effect.rs` is the opposite direction.

use crate::effect::{DiskDone, LinkId, Reason};
use crate::election::ElectionConnection;
use crate::liveness::Traffic;
use crate::message::{EncodedTxn, Message};
use crate::vote::VoteNotification;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use std::sync::Arc;

/// One event for [`crate::QuorumPeer::step`].
#[derive(Clone, Debug)]
pub enum Input {
    /// The process has started, with its whole log applied.
    Start,
    /// The time of [`crate::QuorumPeer::deadline`] has come.
    Time,
    /// The process was paused: no packet could be read meanwhile, so silence of peers means nothing.
    Pause,
    /// A notification arrived on the election port.
    Notification(ServerId, VoteNotification),
    /// A server reported its committed configuration. A LOOKING member adopts it if it is newer and the sender is a
    /// member (K102).
    Config(ServerId, Arc<Ensemble>),
    /// The connection to a server's election port has changed.
    ElectionLink(ServerId, ElectionConnection),
    /// The attempt to connect to a leader succeeded or failed. The role may have changed meanwhile.
    Dialed(ServerId, Option<LinkId>),
    /// A learner has connected.
    LinkOpened(LinkId),
    LinkClosed(LinkId),
    /// Bytes were received or sent, perhaps only a part of a packet.
    Traffic(LinkId, Traffic),
    /// The socket has accepted packets of [`crate::Effect::Send`], with this sum of their [`Message::flow_bytes`].
    Sent(LinkId, usize),
    Packet(LinkId, Message),
    /// The peer violated the protocol. A learner ends its role; a leader closes the link.
    Violation(LinkId, Reason),
    /// The result of [`crate::Effect::ReadLog`]: the on-disk log contains what the learner lacks before this zxid, or
    /// does not.
    LogRead(LinkId, Option<Zxid>),
    /// The leader's snapshot was received completely.
    SnapshotReceived,
    /// The disk has finished a job.
    Done(DiskDone),
    /// The log is durable up to this zxid.
    Durable(Zxid),
    /// The state has applied everything up to this zxid.
    Applied(Zxid),
    /// The disk is nearly full, or no longer. A leader whose disk is low steps down if a quorum remains; a voter whose
    /// disk is low does not stand for election.
    DiskLow(bool),
    /// Transactions of an established leader; none at the end of a batch of requests that only need a proof of
    /// leadership.
    Propose(Vec<EncodedTxn>),
    /// A standalone server has appended the transactions up to this zxid to its log. There is no learner.
    ProposeUpTo(Zxid),
    /// A proof of leadership is required, with everything up to the zxid committed. [`crate::Effect::Synced`] reports
    /// the id. The proof is requested with the next [`Self::Propose`], one for all syncs.
    Sync(u64, Zxid),
    /// A packet that concerns clients: sent after all commits so far, and subject to the send window of its link.
    Send(LinkId, Message),
    /// End the role, and start an election.
    StepDown(Reason),
}
