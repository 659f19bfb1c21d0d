//! Local sessions: known to this server only, created, expired and closed without a transaction.
//!
//! A local session owns no ephemeral node. When its client creates one, the session is upgraded to a global one first,
//! if the configuration allows it: createSession is ordered right before the write that needs it (P45).

use super::conn_states::{ConnState, waited_ms};
use super::forwarding::NO_IDS;
use super::pending_requests::{Origin, PendingWrite, Reply};
use super::proposals::Proposer;
use super::session_txns::Granted;
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::limits::{ENDED_SESSIONS_MAX, EXPIRED_AT_ONCE_MAX};
use crate::outbox::Outboxes;
use crate::sessions::{LastSeen, Sessions};
use ox_proto::{ErrorCode, OpCode, SessionId};
use ox_tree::{State, ops};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// Whether new sessions are local, and whether they are upgraded when their client creates an ephemeral node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalSessions {
    /// All sessions are global.
    #[default]
    Off,
    /// Not upgraded: the ephemeral node is refused.
    Stay,
    Upgrade,
}

/// The local sessions. They outlive roles, so that a client that reconnects after an election finds its session.
#[derive(Debug)]
pub(super) struct Local {
    kind: LocalSessions,
    pub(super) sessions: Sessions,
    /// Global sessions that were closed recently, also in order. An unknown session may be local at another server, but
    /// these are not (P40).
    ended: BTreeSet<SessionId>,
    ends: VecDeque<SessionId>,
}

/// Parameters of a handshake.
pub(super) struct ConnectParams<'a> {
    pub(super) conn: ConnId,
    pub(super) address: IpAddr,
    pub(super) timeout_ms: i32,
    pub(super) read_only: Option<bool>,
    pub(super) last_seen: &'a LastSeen,
}

/// How a write of a local session continues.
pub(super) enum LocalWrite {
    /// Like any other write.
    Proceed,
    /// Its ephemeral nodes are refused with this error.
    RefuseEphemerals(ErrorCode),
    /// The write is dropped.
    Drop,
}

impl Local {
    pub(super) fn new(kind: LocalSessions, tick_ms: i32) -> Self {
        Self { kind, sessions: Sessions::new(tick_ms), ended: BTreeSet::new(), ends: VecDeque::new() }
    }

    /// A global session was closed. Requests that a learner has forwarded for it may still be in flight.
    pub(super) fn note_end(&mut self, session: SessionId) {
        if self.is_on() && self.ended.insert(session) {
            self.ends.push_back(session);
            if ENDED_SESSIONS_MAX < self.ends.len()
                && let Some(first) = self.ends.pop_front()
            {
                self.ended.remove(&first);
            }
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.kind != LocalSessions::Off
    }
}

impl Replica {
    /// Creates a session and replies immediately.
    pub(super) fn open_local(&mut self, now: Now, params: &ConnectParams<'_>, state: &State, out: &mut Outboxes) {
        let ConnectParams { conn, address, timeout_ms, read_only, last_seen } = *params;
        let id = self.new_session_id(state);
        self.local.sessions.add(id, timeout_ms, now.mono_ms, last_seen.clone(), Some(conn));
        self.addresses.count(id, address);
        self.attach(conn, Granted { session: id, timeout_ms, read_only }, out);
    }

    /// Resumes a session if it is local here.
    pub(super) fn resume_local(
        &mut self,
        now: Now,
        session: SessionId,
        params: &ConnectParams<'_>,
        out: &mut Outboxes,
    ) -> bool {
        let ConnectParams { conn, address, timeout_ms, read_only, last_seen } = *params;
        let is_here = self.local.sessions.attach(session, timeout_ms, now.mono_ms, last_seen.clone(), conn);
        if is_here {
            self.addresses.count(session, address);
            self.resume(conn, Granted { session, timeout_ms, read_only }, out);
        }
        is_here
    }

    /// Checks a write of a local session, which may upgrade the session.
    pub(super) fn before_local_write(
        &mut self,
        now: Now,
        conn: ConnId,
        session: SessionId,
        (op, body): (OpCode, &[u8]),
        state: &State,
    ) -> LocalWrite {
        if !ops::creates_ephemeral(op, body) {
            LocalWrite::Proceed
        } else if self.local.kind == LocalSessions::Stay {
            LocalWrite::RefuseEphemerals(ErrorCode::EphemeralOnLocalSession)
        } else if self.upgrade(now, conn, session, state) {
            LocalWrite::Proceed
        } else {
            LocalWrite::Drop
        }
    }

    /// Upgrades a session to a global one. False if that is not possible.
    fn upgrade(&mut self, now: Now, conn: ConnId, session: SessionId, state: &State) -> bool {
        let Some((timeout_ms, last_seen)) = self.local.sessions.take(session) else { return false };
        // Tracked as global from now on: the following write may be applied before the session is.
        self.sessions.add(session, timeout_ms, now.mono_ms, last_seen, Some(conn));
        let own = PendingWrite::new(session, 0, Origin::Upgrade(conn));
        match self.role {
            Role::Learner(link) => {
                self.forward(now, link, (OpCode::CreateSession, &timeout_ms.to_be_bytes(), NO_IDS), own);
            }
            Role::Leader => {
                if !self.propose_create_session(now, session, timeout_ms, Proposer::Client, state) {
                    return false;
                }
                self.wait_for(own, 0);
            }
            Role::None | Role::ReadOnly => return false,
        }
        true
    }

    /// Closes a session at its client's request: immediately, with a reply in order.
    pub(super) fn close_local(&mut self, conn: ConnId, xid: i32, state: &State, out: &mut Outboxes) {
        let Some(requester) = self.conns.get_mut(conn) else { return };
        requester.is_leaving = true;
        let session = requester.session;
        self.local.sessions.remove(session);
        self.addresses.end(session);
        self.reply_in_order(conn, Reply::Closed(xid), state, out);
    }

    /// Expires local sessions, and closes their connections.
    pub(super) fn expire_local(&mut self, now: Now, out: &mut Outboxes) {
        if self.role == Role::None {
            return; // clients are not served
        }
        let mut expired = Vec::new();
        let waited_ms = waited_ms(&self.conns, &self.pending_writes, now);
        self.local.sessions.expire(now.mono_ms, EXPIRED_AT_ONCE_MAX, waited_ms, &mut expired);
        for session in expired {
            self.counters.expired(session, self.local.sessions.timeout_ms(session).unwrap_or_default());
            let conn = self.local.sessions.remove(session);
            self.addresses.end(session);
            conn.into_iter().for_each(|conn| self.close(conn, out));
        }
    }

    /// Whether an unknown session may be local at the learner that writes for it.
    pub(super) fn is_local_elsewhere(&self, session: SessionId) -> bool {
        let is_open = !self.sessions.is_known(session) && !self.local.ended.contains(&session);
        self.local.is_on() && is_open && i64::from(session.server()) != self.me.0
    }
}

impl ConnState {
    /// Whether later requests have an effect.
    pub(super) fn may_write(&self) -> bool {
        self.active && !self.is_leaving
    }
}
