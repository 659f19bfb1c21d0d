//! Messages between a leader and its learners on the quorum port (`QuorumPacket`).

mod wire;

pub use wire::Sender;

use crate::epoch::Epoch;
use bytes::Bytes;
use ox_proto::ServerId;
use ox_proto::{SessionId, Zxid};

/// Approximate size of a packet without data.
const PACKET_BYTES: usize = 24;

/// A transaction as it is logged, sent and applied. All holders share the bytes of `record`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTxn {
    pub zxid: Zxid,
    /// Header, body and digest, in the encoding of the log.
    pub record: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerKind {
    /// Acknowledges proposals. Its acknowledgements count only if it is a voter.
    Follower,
    /// Receives committed transactions only.
    Observer,
}

/// A write that a learner forwards, for a client or, to create or close a session, for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub session: SessionId,
    pub cxid: i32,
    /// An operation code, possibly unknown to this release.
    pub op: i32,
    pub body: Bytes,
    /// The client's authenticated identities, encoded; null for requests of the learner itself.
    pub ids: Bytes,
}

/// Consecutive zxids of one epoch, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZxidRange {
    pub first: Zxid,
    pub last: Zxid,
}

impl ZxidRange {
    pub fn count(self) -> u64 {
        self.last.0.abs_diff(self.first.0) + 1
    }

    pub fn iter(self) -> impl Iterator<Item = Zxid> {
        (self.first.0..=self.last.0).map(Zxid)
    }

    /// Extends the range by `next`, if that follows immediately in the same epoch.
    fn with(self, next: Zxid) -> Option<Self> {
        let is_behind = self.last.0.checked_add(1) == Some(next.0);
        let is_next = is_behind && Epoch::of(next) == Epoch::of(self.first) && self.first.counter() != 0;
        is_next.then_some(Self { last: next, ..self })
    }
}

impl From<Zxid> for ZxidRange {
    fn from(zxid: Zxid) -> Self {
        Self { first: zxid, last: zxid }
    }
}

/// One packet, or a run of ACK or COMMIT packets with consecutive zxids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// FOLLOWERINFO or OBSERVERINFO, the first packet of a learner.
    Hello {
        server: ServerId,
        kind: LearnerKind,
        /// The sender's accepted epoch.
        accepted: Epoch,
        /// Version of the sender's committed configuration.
        config_version: i64,
    },
    /// LEADERINFO: the epoch that the leader proposes.
    LeaderInfo(Epoch),
    /// ACKEPOCH: the learner has accepted the epoch.
    AckEpoch {
        /// The sender's last durable transaction.
        last: Zxid,
        /// The sender's current epoch. None if the sender had accepted this epoch before: such an ACKEPOCH does not
        /// count towards the quorum.
        current: Option<Epoch>,
    },
    /// Transactions that continue the learner's log follow.
    Diff(Zxid),
    /// The learner truncates its log after this zxid.
    Trunc(Zxid),
    /// A snapshot at this zxid follows.
    Snap(Zxid),
    /// A transaction to log and acknowledge.
    Proposal(EncodedTxn),
    Commit(Zxid),
    Commits(ZxidRange),
    /// A committed transaction, for observers.
    Inform(EncodedTxn),
    /// Commits a reconfiguration and activates it. Names the leader from now on.
    CommitAndActivate(Zxid, ServerId),
    InformAndActivate(EncodedTxn, ServerId),
    /// Ends the synchronisation: the learner makes the history durable and acknowledges it.
    NewLeader {
        epoch: Epoch,
        /// Text of the leader's newest configuration.
        config: Bytes,
    },
    /// The leader is established: the learner may serve clients.
    UpToDate,
    /// A proposal is durable at the sender. With the first zxid of an epoch: the whole initial history is.
    Ack(Zxid),
    Acks(ZxidRange),
    Ping(Zxid),
    /// Reply to PING, with the sessions touched since the last one and their timeouts, encoded.
    Pong(Zxid, Bytes),
    /// Asks the leader whether a session is alive; carries its timeout in milliseconds.
    Revalidate(SessionId, i32),
    /// The leader's reply to [`Self::Revalidate`].
    Revalidated(SessionId, bool),
    /// A write that a learner forwards to the leader.
    Request(Request),
    /// Reply to a forwarded `sync`: every transaction committed before the `sync` has been sent.
    Sync,
    /// A packet type that this release does not know. Ignored where Apache ignores it.
    Other(i32),
}

impl Message {
    /// COMMIT packets for all zxids of a range.
    pub fn commits(run: ZxidRange) -> Self {
        if run.first == run.last { Self::Commit(run.last) } else { Self::Commits(run) }
    }

    /// Number of packets on the wire.
    pub fn packets(&self) -> u64 {
        if let Self::Commits(run) | Self::Acks(run) = self { run.count() } else { 1 }
    }

    /// Approximate bytes on the wire. Core and driver account for send windows with this.
    pub fn flow_bytes(&self) -> usize {
        let data = if let Self::Proposal(txn) | Self::Inform(txn) | Self::InformAndActivate(txn, _) = self {
            txn.record.len()
        } else if let Self::Request(request) = self {
            request.body.len() + request.ids.len()
        } else if let Self::NewLeader { config: data, .. } | Self::Pong(_, data) = self {
            data.len()
        } else {
            0
        };
        data + usize::try_from(self.packets()).unwrap_or(usize::MAX).saturating_mul(PACKET_BYTES)
    }

    /// Merges `next` into this message if both are ACKs or COMMITs with consecutive zxids. Under load these packets
    /// arrive by the hundred, and a run is handled in one step.
    pub fn join(&mut self, next: &Self) -> bool {
        let joined = match (&*self, next) {
            (Self::Commit(zxid), Self::Commit(next)) => ZxidRange::from(*zxid).with(*next).map(Self::Commits),
            (Self::Commits(run), Self::Commit(next)) => run.with(*next).map(Self::Commits),
            (Self::Ack(zxid), Self::Ack(next)) => ZxidRange::from(*zxid).with(*next).map(Self::Acks),
            (Self::Acks(run), Self::Ack(next)) => run.with(*next).map(Self::Acks),
            _ => None,
        };
        joined.map(|joined| *self = joined).is_some()
    }
}
