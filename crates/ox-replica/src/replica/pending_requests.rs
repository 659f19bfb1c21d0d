//! Writes of this server's clients that are not applied, in order, and the requests that wait for them.
//!
//! When `Replica::apply` applies a transaction of one of these clients, that transaction belongs to the first write in
//! the queue, which it removes and replies to. A learner applies transactions of other servers' clients too, so it
//! compares session and xid first.

use super::session_txns::Granted;
use crate::ConnId;
use crate::audit::AuditRequest;
use crate::sessions::LastSeen;
use crate::slow_writes::WriteTimes;
use crate::submission::{Load, Submission};
use ox_proto::{ErrorCode, SessionId};
use ox_tree::auth::Identities;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Which connection gets the reply.
#[derive(Debug)]
pub(super) enum Origin {
    Request(ConnId),
    /// The upgrade of a local session, which has no reply.
    Upgrade(ConnId),
    /// In a box, so that the many other writes stay small.
    Connect(Box<NewSession>),
}

/// A handshake whose session is being created.
#[derive(Debug)]
pub(super) struct NewSession {
    pub(super) conn: ConnId,
    pub(super) address: IpAddr,
    pub(super) timeout_ms: i32,
    pub(super) read_only: Option<bool>,
    pub(super) last_seen: LastSeen,
}

impl Origin {
    pub(super) fn conn(&self) -> ConnId {
        match self {
            Self::Request(conn) | Self::Upgrade(conn) => *conn,
            Self::Connect(new) => new.conn,
        }
    }
}

/// A request that is replied to in order, with the identities that its connection had when it arrived.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) conn: ConnId,
    pub(super) ids: Arc<Identities>,
    pub(super) what: Reply,
}

#[derive(Debug)]
pub(super) enum Reply {
    Entry(Arc<Submission>, usize),
    /// A refusal that used no zxid.
    Refused(i32, ErrorCode),
    /// The closing of a local session.
    Closed(i32),
    /// A handshake that resumes a session.
    Resumed(Granted),
}

/// A write of a client of this server.
#[derive(Debug)]
pub(super) struct PendingWrite {
    /// Session and xid identify the write when its transaction arrives from the leader.
    pub(super) session: SessionId,
    pub(super) cxid: i32,
    pub(super) origin: Origin,
    /// Why its session may not create ephemeral nodes.
    pub(super) no_ephemerals: Option<ErrorCode>,
    /// Later requests of the same connection.
    pub(super) waiting: Vec<Waiting>,
    /// What the audit log needs when the write is applied.
    pub(super) audit: Option<Box<AuditRequest>>,
    pub(super) times: WriteTimes,
    /// Memory that is released when the write is applied.
    bytes: usize,
}

// With ten thousand writes in flight, the queue stays in a cache of the second level.
const _: () = assert!(size_of::<PendingWrite>() <= 88, "pending writes have grown");

impl PendingWrite {
    pub(super) fn new(session: SessionId, cxid: i32, origin: Origin) -> Self {
        Self {
            session,
            cxid,
            origin,
            no_ephemerals: None,
            waiting: Vec::new(),
            audit: None,
            times: WriteTimes::UNTIMED,
            bytes: 0,
        }
    }

    fn load(&self) -> Load {
        Load { requests: 1, bytes: self.bytes }
    }
}

/// Pending writes, in the order in which they are applied.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    queue: VecDeque<PendingWrite>,
    /// Number of the first write in the queue.
    first: u64,
    /// Sum over all writes.
    load: Load,
}

impl PendingWrites {
    /// Appends a write that holds `bytes` besides its transaction. Returns its number.
    pub(super) fn push(&mut self, mut own: PendingWrite, bytes: usize) -> u64 {
        own.bytes = bytes + own.audit.as_ref().map_or(0, |audit| audit.bytes());
        self.load += own.load();
        self.queue.push_back(own);
        self.first + self.queue.len() as u64 - 1
    }

    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// Whether a write is still pending.
    pub(super) fn has(&self, number: u64) -> bool {
        self.first <= number && number - self.first < self.queue.len() as u64
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut PendingWrite> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.queue.get_mut(at)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut PendingWrite> {
        self.queue.back_mut()
    }

    pub(super) fn pop(&mut self) -> Option<PendingWrite> {
        let own = self.queue.pop_front()?;
        self.load -= own.load();
        self.first += 1;
        Some(own)
    }

    /// Removes the first write if the transaction has its session and xid.
    pub(super) fn pop_match(&mut self, session: SessionId, cxid: i32) -> Option<PendingWrite> {
        let first = self.queue.front()?;
        if first.session == session && first.cxid == cxid { self.pop() } else { None }
    }

    /// Drops all writes; they get no reply.
    pub(super) fn clear(&mut self) {
        self.first += self.queue.len() as u64;
        self.queue.clear();
        self.load = Load::default();
    }
}
