//! Creating, resuming and closing global sessions.
//!
//! This is called for handshakes (`handshakes.rs`), for closeSession requests (`request_pipeline.rs`) and for expiry
//! (`Replica::on_time`). Every server calls `on_closed` when it applies a closeSession: it removes the session from its tracker
//! and, if the client is connected to it, closes the connection.

use super::forwarding::NO_IDS;
use super::pending_requests::{Origin, Reply, Waiting};
use super::proposals::Proposer;
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::outbox::{Outboxes, PartKind};
use ox_proto::connect::ConnectResponse;
use ox_proto::password::session_password;
use ox_proto::txn::Record;
use ox_proto::{OpCode, SessionId};
use ox_tree::{Applied, State, ops, put_write_reply};
use std::sync::Arc;

/// The session in the reply to a handshake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) session: SessionId,
    pub(super) timeout_ms: i32,
    /// The field `readOnly` of the handshake.
    pub(super) read_only: Option<bool>,
}

impl Replica {
    pub(super) fn new_session_id(&mut self, state: &State) -> SessionId {
        loop {
            let id = self.next_session;
            self.next_session = SessionId(id.0.wrapping_add(1));
            let taken = self.sessions.is_known(id)
                || self.local.sessions.is_known(id)
                || state.has_session(id)
                || state.ephemerals_of(id).next().is_some();
            if !taken && id != SessionId::NONE {
                return id;
            }
        }
    }

    pub(super) fn propose_create_session(
        &mut self,
        now: Now,
        session: SessionId,
        timeout_ms: i32,
        proposer: Proposer,
        state: &State,
    ) -> bool {
        self.propose(now, session, 0, proposer, state, |view, body| {
            ops::prepare_create_session(view, timeout_ms, body);
            Some((OpCode::CreateSession, Some(view.digest())))
        })
    }

    pub(super) fn propose_close(
        &mut self,
        now: Now,
        session: SessionId,
        cxid: i32,
        proposer: Proposer,
        state: &State,
    ) -> bool {
        self.propose(now, session, cxid, proposer, state, |view, out| {
            let listed = ops::prepare_close_session(view, out);
            Some((OpCode::CloseSession, listed.then(|| view.digest())))
        })
    }

    /// Closes a session for an operator: its ephemeral nodes are deleted, and its client is disconnected. Without an
    /// effect if the session is unknown here, or this server is a learner and its leader knows another owner.
    pub(super) fn close_session(&mut self, now: Now, session: SessionId, state: &State, out: &mut Outboxes) {
        if self.local.sessions.is_known(session) {
            let conn = self.local.sessions.remove(session);
            self.addresses.end(session);
            return conn.into_iter().for_each(|conn| self.close(conn, out));
        }
        if !self.sessions.is_known(session) {
            return;
        }
        match self.role {
            Role::Leader => {
                self.sessions.start_closing(session);
                self.propose_close(now, session, 0, Proposer::Server, state);
            }
            Role::Learner(link) => self.send_request(now, link, (session, 0), (OpCode::CloseSession, &[], NO_IDS)),
            Role::None | Role::ReadOnly => (),
        }
    }

    /// Attaches a session to another connection, after all pending writes: the client sees the effects of what it sent
    /// on the old connection, or they never happen.
    pub(super) fn resume(&mut self, conn: ConnId, granted: Granted, out: &mut Outboxes) {
        let Some(requester) = self.conns.get(conn) else { return };
        match self.pending_writes.last_mut() {
            Some(last) => {
                let (ids, what) = (Arc::clone(&requester.ids), Reply::Resumed(granted));
                last.waiting.push(Waiting { conn, ids, what });
            }
            None => self.attach(conn, granted, out),
        }
    }

    /// Replies to a handshake with its session.
    pub(super) fn attach(&mut self, conn: ConnId, granted: Granted, out: &mut Outboxes) {
        let Granted { session, timeout_ms, read_only } = granted;
        let read_only = self.read_only_field(read_only);
        if let Some(state) = self.conns.get_mut(conn).filter(|conn| conn.active) {
            (state.session, state.handshake) = (session, None);
            let password = session_password(session);
            let response = ConnectResponse { timeout_ms, session, password, read_only };
            out.of(conn).push(conn, PartKind::Attached(session, timeout_ms), |bytes| response.put_frame(bytes));
        }
    }

    /// A session was closed: its connection gets the reply if it requested that, and is closed.
    pub(super) fn on_closed(
        &mut self,
        session: SessionId,
        origin: Option<&Origin>,
        record: &Record<'_>,
        applied: &Applied,
        out: &mut Outboxes,
    ) {
        let asked = if let Some(Origin::Request(conn)) = origin { Some(*conn) } else { None };
        let owner = self.sessions.remove(session);
        self.observer_sessions.owners.remove(&session);
        self.local.note_end(session);
        self.addresses.end(session);
        for conn in [asked, owner.filter(|owner| Some(*owner) != asked)].into_iter().flatten() {
            if self.conns.get(conn).is_some_and(|conn| conn.active) {
                out.of(conn).push(conn, PartKind::Close, |bytes| {
                    if Some(conn) == asked {
                        put_write_reply(bytes, record, applied);
                    }
                });
            }
            self.conns.deactivate(conn);
        }
    }
}
