//! Writes that clients of this server asked for, in the order they are applied, and what waits behind them.

use super::session_txns::Granted;
use crate::sessions::Touch;
use crate::submission::{Load, Submission};
use ox_proto::{ErrorCode, SessionId};
use ox_tree::ConnId;
use ox_tree::auth::Identities;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Who gets the answer.
#[derive(Debug)]
pub(super) enum Origin {
    /// A connection's request.
    Request(ConnId),
    /// A local session that becomes global: nobody.
    Upgrade(ConnId),
    /// A handshake.
    Connect { conn: ConnId, address: IpAddr, timeout_ms: i32, read_only: Option<bool>, touch: Touch },
}

impl Origin {
    pub(super) fn conn(&self) -> ConnId {
        match self {
            Self::Request(conn) | Self::Upgrade(conn) | Self::Connect { conn, .. } => *conn,
        }
    }
}

/// A request that is answered in its turn, with what its connection had proven when it came.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) conn: ConnId,
    pub(super) ids: Arc<Identities>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// An item of a submission.
    Item(Arc<Submission>, usize),
    /// A refusal that took no zxid.
    Refused(i32, ErrorCode),
    /// The end of a local session.
    Closed(i32),
    /// A handshake with a session that was here before.
    Resumed(Granted),
}

/// One of them.
#[derive(Debug)]
pub(super) struct Own {
    /// Session and number of the request: by these it is found again when it comes back from a leader.
    pub(super) session: SessionId,
    pub(super) cxid: i32,
    pub(super) origin: Origin,
    /// Why its session may not have ephemeral nodes.
    pub(super) no_ephemerals: Option<ErrorCode>,
    /// What the same connection sent after it.
    pub(super) waiting: Vec<Waiting>,
    /// What is let go of when it is applied.
    load: Load,
}

impl Own {
    pub(super) fn new(session: SessionId, cxid: i32, origin: Origin) -> Self {
        let load = Load { requests: 1, bytes: 0 };
        Self { session, cxid, origin, no_ephemerals: None, waiting: Vec::new(), load }
    }
}

/// All of them. They are applied in the order they were asked for.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    queue: VecDeque<Own>,
    /// Number of the first.
    first: u64,
    /// What all of them hold.
    load: Load,
}

impl OwnWrites {
    /// Appends one that holds `bytes` besides its transaction. Returns its number.
    pub(super) fn push(&mut self, mut own: Own, bytes: usize) -> u64 {
        own.load.bytes += bytes;
        self.load += own.load;
        self.queue.push_back(own);
        self.first + self.queue.len() as u64 - 1
    }

    /// What is on its way.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// Whether one is still on its way.
    pub(super) fn has(&self, number: u64) -> bool {
        self.first <= number && number - self.first < self.queue.len() as u64
    }

    /// One that is still on its way.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Own> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.queue.get_mut(at)
    }

    /// The last one.
    pub(super) fn last_mut(&mut self) -> Option<&mut Own> {
        self.queue.back_mut()
    }

    /// Takes the first.
    pub(super) fn pop(&mut self) -> Option<Own> {
        let own = self.queue.pop_front()?;
        self.load -= own.load;
        self.first += 1;
        Some(own)
    }

    /// Takes the first if a transaction of this session and number is its.
    pub(super) fn pop_match(&mut self, session: SessionId, cxid: i32) -> Option<Own> {
        let first = self.queue.front()?;
        if first.session == session && first.cxid == cxid { self.pop() } else { None }
    }

    /// Forgets all: nobody will answer them.
    pub(super) fn clear(&mut self) {
        self.first += self.queue.len() as u64;
        self.queue.clear();
        self.load = Load::default();
    }
}
