//! What leader and learners say to each other on the quorum port.

mod wire;

pub use wire::Side;

use crate::epoch::Epoch;
use bytes::Bytes;
use ox_proto::ServerId;
use ox_proto::{SessionId, Zxid};

/// A packet without data, about.
const PACKET_BYTES: usize = 24;

/// A transaction: its place in the order, and the record that log, peers and tree share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// Its place.
    pub zxid: Zxid,
    /// Header, body and digest, as they are logged.
    pub record: Bytes,
}

/// Whether a learner's word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerKind {
    /// Acknowledges proposals; counts if it is a voter.
    Follower,
    /// Only hears what is committed.
    Observer,
}

/// A write that a learner's client asks for, or the learner itself (sessions).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose.
    pub session: SessionId,
    /// The client's number for it.
    pub cxid: i32,
    /// What to do.
    pub op: i32,
    /// The request as the client sent it.
    pub body: Bytes,
    /// What the client has proven, encoded; null for requests of the server itself.
    pub ids: Bytes,
}

/// Consecutive transactions of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: Zxid,
    /// The last, which may be the same.
    pub last: Zxid,
}

impl Run {
    /// How many there are.
    pub fn count(self) -> u64 {
        self.last.0.abs_diff(self.first.0) + 1
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Zxid> {
        (self.first.0..=self.last.0).map(Zxid)
    }

    /// With the one behind it.
    fn with(self, next: Zxid) -> Option<Self> {
        let is_behind = self.last.0.checked_add(1) == Some(next.0);
        let is_next = is_behind && Epoch::of(next) == Epoch::of(self.first) && self.first.counter() != 0;
        is_next.then_some(Self { last: next, ..self })
    }
}

impl From<Zxid> for Run {
    fn from(zxid: Zxid) -> Self {
        Self { first: zxid, last: zxid }
    }
}

/// One packet, or several that say the same of one transaction after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first word of a learner.
    Hello {
        /// Who.
        server: ServerId,
        /// As what.
        kind: LearnerKind,
        /// The epoch it has promised.
        accepted: Epoch,
        /// The version of its configuration.
        config_version: i64,
    },
    /// The leader's epoch.
    LeaderInfo(Epoch),
    /// A learner's promise, with the end of its history.
    AckEpoch {
        /// Its last durable transaction.
        last: Zxid,
        /// The epoch whose history it holds; none if it had promised before and must not be counted.
        current: Option<Epoch>,
    },
    /// What follows continues the learner's history.
    Diff(Zxid),
    /// The learner drops what it has behind this.
    Trunc(Zxid),
    /// The state at this point follows.
    Snap(Zxid),
    /// To be made durable and acknowledged.
    Proposal(Txn),
    /// Agreed on.
    Commit(Zxid),
    /// The same of several, one packet each.
    Commits(Run),
    /// Agreed on, for those who do not vote.
    Inform(Txn),
    /// Agreed on, and it brings a configuration that is in force from here on, with this leader.
    CommitAndActivate(Zxid, ServerId),
    /// The same for those who do not vote.
    InformAndActivate(Txn, ServerId),
    /// The history of the epoch is complete up to here.
    NewLeader {
        /// The epoch.
        epoch: Epoch,
        /// The configuration's text.
        config: Bytes,
    },
    /// The leader is established: serve clients.
    UpToDate,
    /// Durable here; or, at the start of an epoch, its whole history is.
    Ack(Zxid),
    /// Several are durable here, one packet each.
    Acks(Run),
    /// Are you there?
    Ping(Zxid),
    /// I am, and have heard these sessions: encoded with their timeouts.
    Pong(Zxid, Bytes),
    /// Does this session live?
    Revalidate(SessionId, i32),
    /// Whether it does.
    Revalidated(SessionId, bool),
    /// A write to be ordered.
    Request(Request),
    /// Everything that was committed when it was asked for has been sent.
    Sync,
    /// Something that this release does not know. It has no meaning when it can be ignored.
    Other(i32),
}

impl Message {
    /// Agreed on, all of them.
    pub fn commits(run: Run) -> Self {
        if run.first == run.last { Self::Commit(run.last) } else { Self::Commits(run) }
    }

    /// How many packets say it.
    pub fn packets(&self) -> u64 {
        if let Self::Commits(run) | Self::Acks(run) = self { run.count() } else { 1 }
    }

    /// What it counts in a send window: about its bytes on the wire. Driver and core count by this.
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

    /// Takes in the next packet if it goes on with what this one says. Transactions come and are agreed on by the
    /// hundred; each would be dealt with for itself.
    pub fn join(&mut self, next: &Self) -> bool {
        let joined = match (&*self, next) {
            (Self::Commit(zxid), Self::Commit(next)) => Run::from(*zxid).with(*next).map(Self::Commits),
            (Self::Commits(run), Self::Commit(next)) => run.with(*next).map(Self::Commits),
            (Self::Ack(zxid), Self::Ack(next)) => Run::from(*zxid).with(*next).map(Self::Acks),
            (Self::Acks(run), Self::Ack(next)) => run.with(*next).map(Self::Acks),
            _ => None,
        };
        joined.map(|joined| *self = joined).is_some()
    }
}
