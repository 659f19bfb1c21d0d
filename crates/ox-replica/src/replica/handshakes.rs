//! Handshakes of clients: new sessions and resumed ones. `parked_handshakes.rs` keeps those that wait for a leader.

use super::conn_states::ConnState;
use super::forwarding::NO_IDS;
use super::local_sessions::ConnectParams;
use super::pending_requests::{NewSession, Origin, PendingWrite};
use super::proposals::Proposer;
use super::revalidations::{RequestedBy, Revalidating};
use super::session_txns::Granted;
use super::syncs::SyncWaiter;
use super::{Replica, Role, WriteAdmission};
use crate::ConnId;
use crate::clock::Now;
use crate::outbox::{Outboxes, PartKind};
use crate::submission::ClientInput;
use ox_proto::connect::ConnectResponse;
use ox_proto::{OpCode, SessionId};
use ox_tree::State;
use std::sync::Arc;

impl Replica {
    pub(super) fn on_connect(
        &mut self,
        now: Now,
        conn: ConnId,
        input: &ClientInput,
        state: &State,
        out: &mut Outboxes,
    ) {
        let ClientInput::Connect { address, ids, .. } = input else { return };
        state.watches().lock().add_watcher(conn.into(), *address);
        let handshake = self.handshakes.may_wait().then(|| self.handshakes.begin(now, input.clone()));
        self.conns.insert(ConnState::new(conn, Arc::clone(ids), handshake));
        if !self.keep_handshake(now, conn) {
            self.on_handshake(now, conn, input, state, out);
        }
    }

    pub(super) fn on_handshake(
        &mut self,
        now: Now,
        conn: ConnId,
        input: &ClientInput,
        state: &State,
        out: &mut Outboxes,
    ) {
        let ClientInput::Connect { session, last_zxid_seen, proven, timeout_ms, read_only, address, last_seen, .. } =
            input
        else {
            return;
        };
        if state.newest_seen() < *last_zxid_seen && !self.was_never_committed(*last_zxid_seen) {
            if !self.keep_until_applied(now, conn, *last_zxid_seen) {
                self.close(conn, out);
            }
            return;
        }
        if !(self.takes_clients() || self.is_read_only()) || !self.may_connect(*session, *read_only) {
            return self.close(conn, out);
        }
        let params =
            ConnectParams { conn, address: *address, timeout_ms: *timeout_ms, read_only: *read_only, last_seen };
        if *session == SessionId::NONE {
            if self.log_space.writes() == WriteAdmission::None && !self.local.is_on() {
                return self.close(conn, out);
            }
            if !self.addresses.may_create(*address) {
                self.counters.refused_session(*address);
                return self.close(conn, out);
            }
            if self.local.is_on() {
                return self.open_local(now, &params, state, out);
            }
            let id = self.new_session_id(state);
            let (timeout_ms, read_only, address) = (*timeout_ms, *read_only, *address);
            let new = NewSession { conn, address, timeout_ms, read_only, last_seen: last_seen.clone() };
            let own = PendingWrite::new(id, 0, Origin::Connect(Box::new(new)));
            if let Role::Learner(link) = self.role {
                let body = timeout_ms.to_be_bytes();
                return self.forward(now, link, (OpCode::CreateSession, &body, NO_IDS), own);
            }
            if self.propose_create_session(now, id, timeout_ms, Proposer::Client, state) {
                self.wait_for(own, 0);
            }
            return;
        }
        self.counters.resumed += 1;
        // Compat: a handshake takes the session from its old connection before the password is checked.
        let owner = self.sessions.conn(*session).or_else(|| self.local.sessions.conn(*session));
        if let Some(old) = owner.filter(|old| *old != conn) {
            let waited_ms = self.conns.get(old).and_then(|old| old.replied_ms);
            self.sessions.detach(*session, old, waited_ms);
            self.local.sessions.detach(*session, old, waited_ms);
            self.close(old, out);
        }
        if *proven && self.resume_local(now, *session, &params, out) {
            return;
        }
        if let Role::Learner(link) = self.role
            && *proven
        {
            let by = RequestedBy::Conn { conn, address: *address, read_only: *read_only, last_seen: last_seen.clone() };
            return self.revalidate(now, link, Revalidating { session: *session, timeout_ms: *timeout_ms, by }, out);
        }
        if *proven && self.sessions.attach(*session, *timeout_ms, now.mono_ms, last_seen.clone(), conn) {
            self.addresses.count(*session, *address);
            let granted = Granted { session: *session, timeout_ms: *timeout_ms, read_only: *read_only };
            if self.has_peers && !state.has_session(*session) {
                self.confirm_leadership(now, SyncWaiter::ResumedConn(conn, granted));
            } else {
                self.resume(conn, granted, out);
            }
        } else if *proven && self.has_peers && !self.is_read_only() {
            self.confirm_leadership(now, SyncWaiter::ExpiredConn(conn, *read_only));
        } else {
            self.refuse(conn, *read_only, out);
        }
    }

    /// Replies to a handshake that its session has expired.
    pub(super) fn refuse(&mut self, conn: ConnId, read_only: Option<bool>, out: &mut Outboxes) {
        let read_only = self.read_only_field(read_only);
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |bytes| ConnectResponse::refused(read_only).put_frame(bytes));
    }

    /// Closes a connection without a reply. Its session stays.
    pub(super) fn close(&mut self, conn: ConnId, out: &mut Outboxes) {
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |_| ());
    }

    pub(super) fn on_gone(&mut self, conn: ConnId, state: &State) {
        if let Some(gone) = self.conns.remove(conn) {
            self.sessions.detach(gone.session, conn, gone.replied_ms);
            self.local.sessions.detach(gone.session, conn, gone.replied_ms);
            gone.handshake.into_iter().for_each(|handshake| self.handshakes.forget(&handshake));
        }
        self.syncs.forget(conn);
        state.watches().lock().drop_watcher(conn.into());
    }
}
