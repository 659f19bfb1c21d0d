//! Changes of the ensemble: the leader judges them, and one at a time is under way.

use super::ensemble_member::Todo;
use super::pending_requests::{Own, Waiting};
use super::{Replica, Zab};
use crate::clock::Now;
use ox_proto::ensemble::{Change, ChangeRules};
use ox_proto::txn::Record;
use ox_proto::{ErrorCode, OpCode, Zxid};
use ox_tree::ops::{self, Prepared};
use ox_tree::outbox::Outboxes;
use ox_tree::{Applied, ConnId, PendingView, State, put_write_reply};

/// The reply to a change, which waits until this server has stored the configuration. The watch event does not wait:
/// Apache notifies watchers when a configuration becomes active, and replies when it has written its files and restarted
/// its election port. Clients rely on that order.
#[derive(Debug, Default)]
pub(super) struct ConfigReply {
    /// The transaction of the active configuration, until its files are written.
    storing: Option<Zxid>,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    conn: ConnId,
    frame: Vec<u8>,
    /// What the same connection sent after it.
    waiting: Vec<Waiting>,
}

impl ConfigReply {
    /// A configuration is active; the driver writes its files, and reports that by [`Replica::on_config_stored`].
    pub(super) fn on_activate(&mut self, version: i64) {
        self.storing = Some(Zxid(version));
    }

    /// Nothing is applied meanwhile, so that later replies stay behind this one.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Where replies to a connection's later requests wait.
    pub(super) fn queue_of(&mut self, conn: ConnId) -> Option<&mut Vec<Waiting>> {
        self.held.as_mut().filter(|held| held.conn == conn).map(|held| &mut held.waiting)
    }

    /// The role ends: only the reply itself is still sent. Returns whether there is one.
    pub(super) fn on_leave(&mut self) -> bool {
        self.storing = None;
        self.held.iter_mut().for_each(|held| held.waiting.clear());
        self.is_held()
    }
}

/// What a change is judged by.
pub(super) struct Changes<'a> {
    pub(super) zab: &'a Zab,
    /// One that is made, and maybe not proposed yet.
    pub(super) prepared: Option<Zxid>,
    pub(super) rules: ChangeRules,
}

impl Changes<'_> {
    /// Prepares a write of any kind.
    pub(super) fn prepare(&self, view: &mut PendingView<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Prepared {
        let Zab::Member(peer) = self.zab else { return ops::prepare(view, op, body, out) };
        let Some(leader) = peer.leader().filter(|_| op == OpCode::Reconfig) else {
            return ops::prepare(view, op, body, out);
        };
        let is_waiting = self.prepared.is_some_and(|prepared| leader.last_proposed() < prepared);
        let judge = |request: &ox_proto::request::ReconfigRequest<'_>, zxid| {
            if is_waiting {
                return Err(ErrorCode::ReconfigInProgress);
            }
            let change = Change {
                joining: request.joining.as_deref(),
                leaving: request.leaving.as_deref(),
                members: request.members.as_deref(),
            };
            leader.check_reconfig(&change, request.config, zxid, self.rules).map(|ensemble| ensemble.to_string())
        };
        ops::prepare_reconfig(view, body, &judge, out)
    }
}

impl Replica {
    /// The files of an active configuration are written, or cannot be. [`Self::settle`] follows.
    pub fn on_config_stored(&mut self, version: i64) {
        if self.config_reply.storing.take_if(|zxid| zxid.0 <= version).is_some() && self.config_reply.is_held() {
            self.todo.push_back(Todo::ConfigReply);
        }
    }

    /// Keeps the reply to an applied change back while the configuration is being stored. Returns any other write.
    pub(super) fn hold_reply(&mut self, own: Own, record: &Record<'_>, applied: &Applied) -> Option<Own> {
        if self.config_reply.storing != Some(record.header.zxid) {
            return Some(own);
        }
        let mut frame = Vec::new();
        put_write_reply(&mut frame, record, applied);
        self.config_reply.held = Some(Held { conn: own.origin.conn(), frame, waiting: own.waiting });
        None
    }

    /// Sends it, and what waits behind it.
    pub(super) fn release_reply(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        let Some(Held { conn, frame, waiting }) = self.config_reply.held.take() else { return };
        if let Some(asker) = self.conns.get_mut(conn).filter(|conn| conn.active) {
            asker.answered_ms = Some(now.mono_ms);
            out.of(conn).reply(conn, |bytes| bytes.extend_from_slice(&frame));
        }
        self.answer_all(waiting, state, out);
    }

    /// Notes what was made.
    pub(super) fn note_reconfig(&mut self, made: OpCode, zxid: Zxid) {
        if made == OpCode::Reconfig {
            self.reconfigures_at = Some(zxid);
        }
    }
}
