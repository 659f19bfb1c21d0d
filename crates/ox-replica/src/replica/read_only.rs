//! Read-only mode (`ReadOnlyZooKeeperServer`): after some time without a leader, reads are served to clients that
//! accept it.
//!
//! A read-only server proposes no transaction and knows no global session (K27, K124): clients have local sessions, or
//! cannot connect. They see the state that was applied when the leader was lost, and only after recovery is complete
//! (K28).

use super::{Replica, Role};
use crate::clock::Now;
use crate::outbox::Outboxes;
use ox_proto::SessionId;
use ox_tree::State;
use ox_zab::Eligibility;

/// When read-only mode begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadOnly {
    /// Time after the loss of the leader; none means never.
    pub(super) after_ms: Option<i64>,
    /// When this server became LOOKING.
    since_ms: Option<i64>,
}

impl ReadOnly {
    pub(super) fn new(after_ms: Option<i64>) -> Self {
        Self { after_ms, since_ms: None }
    }

    /// There is a leader, or a role has ended.
    pub(super) fn reset(&mut self) {
        self.since_ms = None;
    }
}

impl Replica {
    /// Whether only reads are served, to clients that accept it.
    pub(super) fn is_read_only(&self) -> bool {
        self.role == Role::ReadOnly
    }

    /// When read-only mode begins, if it is due to.
    pub(super) fn read_only_at_ms(&self) -> Option<i64> {
        // A server that has lost its history has nothing to serve.
        let has_history = self.peer.status().eligibility == Eligibility::HasHistory;
        let ReadOnly { after_ms, since_ms } = self.read_only;
        (self.role == Role::None && has_history).then_some(since_ms? + after_ms?)
    }

    pub(super) fn begin_read_only(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        if self.read_only_at_ms().is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.role = Role::ReadOnly;
            self.local.sessions.touch_all(now.mono_ms);
            self.take_handshakes(now, state, out);
        }
    }

    pub(super) fn on_looking(&mut self, now: Now) {
        self.read_only.since_ms = self.read_only.since_ms.or(Some(now.mono_ms));
    }

    /// There is a leader: closes all connections, so that clients reconnect for full service.
    pub(super) fn end_read_only(&mut self, out: &mut Outboxes) {
        self.read_only.reset();
        if self.role == Role::ReadOnly {
            self.role = Role::None;
            self.close_all(out);
        }
    }

    /// The field `readOnly` in the reply to a handshake; none if the client's handshake has no such field.
    pub(super) fn read_only_field(&self, asked: Option<bool>) -> Option<bool> {
        asked.map(|_| self.role == Role::ReadOnly)
    }

    /// Whether a client may connect in read-only mode. An unknown session may have become global since the leader was
    /// lost, so it is not reported as expired (P43).
    // Compat: without local sessions there are no sessions in read-only mode.
    pub(super) fn may_connect(&self, session: SessionId, asks_read_only: Option<bool>) -> bool {
        let is_ours = session == SessionId::NONE || self.local.sessions.is_known(session);
        self.role != Role::ReadOnly || (asks_read_only == Some(true) && self.local.is_on() && is_ours)
    }
}
