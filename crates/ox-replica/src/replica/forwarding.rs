//! What a learner sends to its leader for its clients: writes, syncs, and the sessions that were touched. Also what a
//! leader does instead of a sync: it proves its leadership.

use super::pending_requests::{PendingWrite, Reply};
use super::syncs::{Place, SyncWaiter};
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::limits::{BODIES_BYTES, ENTRY_BYTES};
use crate::outbox::Outboxes;
use crate::submission::ClientInput;
use bytes::Bytes;
use ox_proto::quorum::identities::RawIds;
use ox_proto::{ErrorCode, Jute, OpCode, SessionId, Zxid};
use ox_tree::State;
use ox_zab::{Input as PeerInput, Learner, LinkId, Message, Request};

/// Identities of requests that the server makes itself.
pub(super) const NO_IDS: Bytes = Bytes::from_static(RawIds::NULL.bytes());

impl Replica {
    pub(super) fn send(&mut self, now: Now, link: LinkId, message: Message) {
        self.step_peer(now, PeerInput::Send(link, message));
    }

    /// Sends a write to the leader. It is replied to when its transaction is applied.
    pub(super) fn forward(
        &mut self,
        now: Now,
        link: LinkId,
        (op, body, ids): (OpCode, &[u8], Bytes),
        own: PendingWrite,
    ) {
        let (session, cxid) = (own.session, own.cxid);
        self.wait_for(own, body.len() + ENTRY_BYTES);
        self.send_request(now, link, (session, cxid), (op, body, ids));
    }

    pub(super) fn send_request(
        &mut self,
        now: Now,
        link: LinkId,
        (session, cxid): (SessionId, i32),
        (op, body, ids): (OpCode, &[u8], Bytes),
    ) {
        // The bodies of a batch share one allocation.
        if self.bodies.capacity() < body.len() {
            self.bodies.reserve(BODIES_BYTES.max(body.len()));
        }
        self.bodies.extend_from_slice(body);
        let body = self.bodies.split().freeze();
        self.send(now, link, Message::Request(Request { session, cxid, op: op.code(), body, ids }));
    }

    /// Requests a proof of leadership, with all proposals committed, before a reply. Otherwise a client could learn
    /// that its session has expired although the expiry is only proposed or another server leads, or that it is alive
    /// although its creation is only proposed (P44).
    pub(super) fn confirm_leadership(&mut self, now: Now, waiter: SyncWaiter) {
        let id = self.syncs.push(waiter);
        self.step_peer(now, PeerInput::Sync(id, self.last_proposed_zxid));
    }

    /// A client's sync: the leader proves its leadership, a learner asks its leader.
    pub(super) fn on_sync(&mut self, now: Now, conn: ConnId, place: Place, state: &State, out: &mut Outboxes) {
        let Some(requester) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let (session, ids) = (requester.session, requester.encoded_ids());
        let (submission, at) = &place;
        let entry = &submission.entries[*at];
        let ClientInput::Request { xid, op } = entry.input else { return };
        if self.role == Role::ReadOnly {
            return self.reply_in_order(conn, Reply::Refused(xid, ErrorCode::NotReadOnly), state, out);
        }
        if let Role::Learner(link) = self.role {
            let body = &submission.bytes[entry.span.clone()];
            self.send_request(now, link, (session, xid), (op, body, ids));
            self.syncs.push(SyncWaiter::Conn(conn, place));
        } else {
            self.confirm_leadership(now, SyncWaiter::Conn(conn, place));
        }
    }

    /// The link to the leader.
    pub(super) fn leader_link(&self) -> Option<LinkId> {
        self.peer.role().learner().map(Learner::link)
    }

    /// Reports the sessions that were touched since the last ping.
    pub(super) fn reply_to_ping(&mut self, now: Now, zxid: Zxid) {
        let Some(link) = self.leader_link() else { return };
        let mut data = Vec::new();
        let mut heard = std::mem::take(&mut self.observer_sessions.touched);
        heard.extend(self.sessions.touched_since(self.pinged_ms));
        for (session, timeout_ms) in heard {
            session.put(&mut data);
            timeout_ms.put(&mut data);
        }
        self.pinged_ms = now.mono_ms;
        self.send(now, link, Message::Pong(zxid, data.into()));
    }
}
