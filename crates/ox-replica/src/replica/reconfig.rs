//! Reconfiguration requests: the leader checks them, and one at a time is in progress.

use super::Replica;
use super::pending_requests::{PendingWrite, Waiting};
use crate::ConnId;
use crate::clock::Now;
use crate::outbox::Outboxes;
use ox_proto::ensemble::{Change, ChangeRules};
use ox_proto::txn::Record;
use ox_proto::{ErrorCode, OpCode, Zxid};
use ox_tree::ops::{self, Prepared};
use ox_tree::{Applied, PendingView, State, put_write_reply};
use ox_zab::Leader;

/// The reply to a reconfiguration, which waits until this server has stored the configuration. The watch event does not
/// wait: Apache notifies watchers when a configuration becomes active, and replies when it has written its files and
/// restarted its election port. Clients rely on that order.
#[derive(Debug, Default)]
pub(super) struct ConfigReply {
    /// Zxid of the active configuration, until its files are written.
    storing: Option<Zxid>,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    conn: ConnId,
    frame: Vec<u8>,
    /// Later requests of the same connection.
    waiting: Vec<Waiting>,
}

impl ConfigReply {
    /// A configuration is active. The driver writes its files and reports that.
    pub(super) fn on_activate(&mut self, version: i64) {
        self.storing = Some(Zxid(version));
    }

    /// While the reply is held, nothing is applied, so that later replies follow it.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Where later requests of the connection wait.
    pub(super) fn queue_of(&mut self, conn: ConnId) -> Option<&mut Vec<Waiting>> {
        self.held.as_mut().filter(|held| held.conn == conn).map(|held| &mut held.waiting)
    }

    /// The role ends: only the held reply is still sent.
    pub(super) fn on_leave(&mut self) {
        self.storing = None;
        self.held.iter_mut().for_each(|held| held.waiting.clear());
    }
}

/// What a reconfiguration is checked against.
pub(super) struct ReconfigCheck<'a> {
    /// None on a standalone server.
    pub(super) leader: Option<&'a Leader>,
    /// A reconfiguration that is prepared, and perhaps not proposed yet.
    pub(super) prepared: Option<Zxid>,
    pub(super) rules: ChangeRules,
}

impl ReconfigCheck<'_> {
    /// Prepares a write of any kind.
    pub(super) fn prepare(&self, view: &mut PendingView<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Prepared {
        let Some(leader) = self.leader.filter(|_| op == OpCode::Reconfig) else {
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
    /// The files of an active configuration are written, or writing failed.
    pub(super) fn on_config_stored(&mut self, now: Now, version: i64, state: &State, out: &mut Outboxes) {
        if self.config_reply.storing.take_if(|zxid| zxid.0 <= version).is_some() {
            self.release_reply(now, state, out);
        }
    }

    /// Holds the reply to an applied reconfiguration while the configuration is being stored. Returns any other write.
    pub(super) fn hold_reply(
        &mut self,
        own: PendingWrite,
        record: &Record<'_>,
        applied: &Applied,
    ) -> Option<PendingWrite> {
        if self.config_reply.storing != Some(record.header.zxid) {
            return Some(own);
        }
        let mut frame = Vec::new();
        put_write_reply(&mut frame, record, applied);
        self.config_reply.held = Some(Held { conn: own.origin.conn(), frame, waiting: own.waiting });
        None
    }

    /// Sends the held reply, and the replies that wait for it.
    pub(super) fn release_reply(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        let Some(Held { conn, frame, waiting }) = self.config_reply.held.take() else { return };
        if let Some(requester) = self.conns.get_mut(conn).filter(|conn| conn.active) {
            requester.replied_ms = Some(now.mono_ms);
            out.of(conn).reply(conn, |bytes| bytes.extend_from_slice(&frame));
        }
        self.reply_all(waiting, state, out);
    }

    pub(super) fn note_reconfig(&mut self, made: OpCode, zxid: Zxid) {
        if made == OpCode::Reconfig {
            self.reconfigures_at = Some(zxid);
        }
    }
}
