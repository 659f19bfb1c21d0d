//! A server that has been without a leader for a while, and lets clients read that asked for no more.
//!
//! It makes no transaction and knows no global session (K27, K124): whoever connects has a local one, or none at all.
//! What it shows is what was applied when the leader was lost, and nothing before all files are read (K28).

use super::ensemble_member::Todo;
use super::{Replica, Role};
use crate::clock::Now;
use ox_proto::SessionId;
use ox_zab::{Eligibility, QuorumPeer};

/// When clients may read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadOnly {
    /// So long after the leader is lost; none is never.
    pub(super) after_ms: Option<i64>,
    /// Since when a leader is looked for.
    since_ms: Option<i64>,
}

impl ReadOnly {
    pub(super) fn new(after_ms: Option<i64>) -> Self {
        Self { after_ms, since_ms: None }
    }
}

impl Replica {
    /// Whether only reads are served, to those who asked for no more.
    pub fn is_read_only(&self) -> bool {
        self.role == Role::ReadOnly
    }

    /// When that begins.
    pub(super) fn read_only_at_ms(&self) -> Option<i64> {
        // Who has lost its history has nothing to show.
        let has_history = self.as_peer().map(QuorumPeer::eligibility) == Some(Eligibility::HasHistory);
        let ReadOnly { after_ms, since_ms } = self.read_only;
        (self.role == Role::None && has_history).then_some(since_ms? + after_ms?)
    }

    pub(super) fn begin_read_only(&mut self, now: Now) {
        if self.read_only_at_ms().is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.role = Role::ReadOnly;
            self.todo.push_back(Todo::Handshakes);
            self.local.sessions.hear_all(now.mono_ms);
        }
    }

    /// A leader is looked for.
    pub(super) fn on_looking(&mut self, now: Now) {
        self.read_only.since_ms = self.read_only.since_ms.or(Some(now.mono_ms));
    }

    /// There is one: everybody is sent away, to come back for more.
    pub(super) fn end_read_only(&mut self) {
        self.read_only.since_ms = None;
        if self.role == Role::ReadOnly {
            self.role = Role::None;
            self.todo.push_back(Todo::HangUp);
        }
    }

    /// What a client hears that says whether it could do with reads.
    pub(super) fn told_read_only(&self, asked: Option<bool>) -> Option<bool> {
        asked.map(|_| self.role == Role::ReadOnly)
    }

    /// Whether a client is let in, if only reads are served. A session that is not known here may have become global
    /// since the leader was lost: nobody is told that it is over (P43).
    // Compat: there are no sessions here without local ones.
    pub(super) fn may_come_in(&self, session: SessionId, asks_read_only: Option<bool>) -> bool {
        let is_ours = session == SessionId::NONE || self.local.sessions.is_known(session);
        self.role != Role::ReadOnly || (asks_read_only == Some(true) && self.local.is_on() && is_ours)
    }
}
