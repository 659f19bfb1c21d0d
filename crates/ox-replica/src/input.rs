//! Everything that can happen to a replica. `effects.rs` is the opposite direction.

use crate::submission::Submission;
use ox_proto::{SessionId, Zxid};
use ox_tree::State;
use ox_zab::{DiskDone, Input, LinkId, Message};

/// One event for [`crate::Replica::step`].
#[derive(Debug)]
pub enum ReplicaInput {
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
    Limits(ReplicaLimits),
    /// An operator closes a session. A learner can close those of its own clients only.
    CloseSession(SessionId),
    /// A disk job has ended. If it has replaced the state, the driver has done so too.
    Done(DiskDone),
    /// The files of an active configuration of this version are written, or writing failed.
    ConfigStored(i64),
    /// An event that concerns only the quorum peer: its start, elections, dialled and opened links, traffic, searches of
    /// the log, a reason to step down. The replica makes all other inputs of the quorum peer itself.
    Peer(Input),
    LinkClosed(LinkId),
    /// A packet arrived, and [`crate::Replica::takes_packets`] is true for its link.
    Packet(LinkId, Message),
    /// An operator replaces the data of a standalone server. All connections are closed; the server serves again when
    /// the new data is durable. A member ignores it: the other members would have different data.
    Restore(Box<State>),
    /// A snapshot was received completely.
    SnapshotReceived(LinkId, Box<State>),
}

/// Limits that can change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// Sessions per client address; 0 means no limit.
    pub sessions_per_address: usize,
    /// Writes that take at least so long are reported as slow; 0 means none.
    pub slow_write_ms: i64,
}
