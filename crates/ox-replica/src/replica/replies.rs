//! Replies to requests: in the order of their connection, and to writes when they are applied.

use super::pending_requests::{NewSession, Origin, PendingWrite, Reply, Waiting};
use super::session_txns::Granted;
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::outbox::{Outboxes, PartKind};
use crate::submission::ClientInput;
use ox_proto::OpCode;
use ox_proto::reply::{ReplyHeader, put_bare_reply};
use ox_proto::txn::{Record, TxnHeader};
use ox_tree::read::{self, AfterReply, ReadRequest, Requester};
use ox_tree::{Applied, State, put_write_reply};
use std::sync::Arc;

impl Replica {
    /// Replies now, or after the connection's last write in flight.
    pub(super) fn reply_in_order(&mut self, conn: ConnId, what: Reply, state: &State, out: &mut Outboxes) {
        let Some(requester) = self.conns.get(conn).filter(|conn| conn.active) else { return };
        let waiting = Waiting { conn, ids: Arc::clone(&requester.ids), what };
        let last_write = requester.last_write.and_then(|number| self.pending_writes.get_mut(number));
        match last_write.map(|own| &mut own.waiting).or_else(|| self.config_reply.queue_of(conn)) {
            Some(behind) => behind.push(waiting),
            None => self.reply_waiting(waiting, state, out),
        }
    }

    pub(super) fn reply_all(&mut self, waiting: Vec<Waiting>, state: &State, out: &mut Outboxes) {
        for waiting in waiting {
            self.reply_waiting(waiting, state, out);
        }
    }

    fn reply_waiting(&mut self, waiting: Waiting, state: &State, out: &mut Outboxes) {
        let Waiting { conn, ids, what } = waiting;
        if let Reply::Resumed(granted) = what {
            return self.attach(conn, granted, out);
        }
        if self.lacks_memory_for(&what, state) {
            return self.close(conn, out);
        }
        let Some(requester) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let outbox = out.of(conn);
        match what {
            Reply::Refused(xid, code) => outbox.reply(conn, |bytes| {
                put_bare_reply(bytes, ReplyHeader { xid, zxid: state.last_zxid(), err: code.code() });
            }),
            Reply::Resumed(_) => (),
            Reply::Closed(xid) => {
                requester.active = false;
                let header = ReplyHeader { xid, zxid: state.last_zxid(), err: 0 };
                outbox.push(conn, PartKind::Close, |bytes| put_bare_reply(bytes, header));
            }
            Reply::Entry(submission, at) => {
                let entry = &submission.entries[at];
                let body = &submission.bytes[entry.span.clone()];
                match entry.input {
                    ClientInput::Request { xid, op } => {
                        let mut then = AfterReply::Continue;
                        outbox.reply(conn, |bytes| {
                            let start = bytes.len();
                            let requester = Requester { watcher: conn.into(), session: requester.session, ids: &ids };
                            then = read::put_reply(state, requester, ReadRequest { xid, op, body }, bytes);
                            self.counters.reads.note_read(op, body, &bytes[start..]);
                            self.replies_left = self.replies_left.saturating_sub(bytes.len() - start);
                        });
                        if then == AfterReply::Close {
                            self.close(conn, out);
                        }
                    }
                    ClientInput::ReplyAndClose => {
                        requester.active = false;
                        outbox.push(conn, PartKind::Close, |bytes| bytes.extend_from_slice(body));
                    }
                    ClientInput::Reply
                    | ClientInput::Throttled { .. }
                    | ClientInput::Connect { .. }
                    | ClientInput::Identified(_)
                    | ClientInput::Gone => {
                        outbox.reply(conn, |bytes| bytes.extend_from_slice(body));
                    }
                }
            }
        }
    }

    /// Replies to an applied transaction.
    pub(super) fn reply(
        &mut self,
        now: Now,
        own: &PendingWrite,
        record: &Record<'_>,
        applied: &Applied,
        out: &mut Outboxes,
    ) {
        let session = record.header.session;
        if record.header.kind == OpCode::CloseSession.code() {
            return self.on_closed(session, Some(&own.origin), record, applied, out);
        }
        match &own.origin {
            Origin::Upgrade(_) => (),
            Origin::Connect(new) => {
                let NewSession { conn, address, timeout_ms, read_only, last_seen } = &**new;
                self.addresses.count(session, *address);
                let alive = self.conns.get(*conn).is_some();
                // A learner tracks only sessions with a connection, whose touches it reports to the leader.
                if alive || !matches!(self.role, Role::Learner(_)) {
                    self.sessions.add(session, *timeout_ms, now.mono_ms, last_seen.clone(), alive.then_some(*conn));
                }
                let (timeout_ms, read_only) = (*timeout_ms, *read_only);
                self.attach(*conn, Granted { session, timeout_ms, read_only }, out);
            }
            Origin::Request(conn) => {
                if matches!(self.role, Role::Learner(_)) {
                    self.log_space.on_reply(now, &record.txn);
                }
                // A leader that does not know a local session refuses the write with another error.
                let local_error = own.no_ephemerals.filter(|_| record.header.kind == OpCode::Error.code());
                if local_error.is_none() && record.txn.is_session_moved() {
                    // Compat: no reply, so that the client reconnects; it would keep a connection that replies.
                    return self.close(*conn, out);
                }
                if let Some(requester) = self.conns.get_mut(*conn).filter(|conn| conn.active) {
                    requester.replied_ms = Some(now.mono_ms);
                    out.of(*conn).reply(*conn, |bytes| match local_error {
                        Some(code) => {
                            let TxnHeader { cxid: xid, zxid, .. } = record.header;
                            put_bare_reply(bytes, ReplyHeader { xid, zxid, err: code.code() });
                        }
                        None => put_write_reply(bytes, record, applied),
                    });
                }
            }
        }
    }
}
