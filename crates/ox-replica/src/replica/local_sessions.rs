//! Sessions that only this server knows: no transaction begins or ends them, and nobody else is asked about them.
//!
//! Such a session owns no ephemeral node. When it asks for one, it becomes global first, if the configuration lets it:
//! the session's transaction is ordered right before the write that needs it (P45).

use super::conn_states::{ConnState, waited_ms};
use super::ensemble_member::{NO_IDS, Todo};
use super::pending_requests::{Origin, Own, What};
use super::proposals::Maker;
use super::session_txns::Granted;
use super::{Replica, Role};
use crate::clock::Now;
use crate::limits::{ENDED_SESSIONS_MAX, EXPIRED_AT_ONCE_MAX};
use crate::sessions::{SessionInfo, Sessions, Touch};
use ox_proto::{ErrorCode, OpCode, SessionId};
use ox_tree::outbox::Outboxes;
use ox_tree::{ConnId, State, ops};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// Whether new sessions are local, and what becomes of one that wants an ephemeral node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalSessions {
    /// All sessions are global.
    #[default]
    Off,
    /// They stay local: the node is refused.
    Stay,
    /// They become global.
    Upgrade,
}

/// All of them. They outlive roles: a client that comes back to this server after an election finds its session.
#[derive(Debug)]
pub(super) struct Local {
    kind: LocalSessions,
    pub(super) sessions: Sessions,
    /// Global sessions that have ended lately, and in which order: what is not known may be local elsewhere, but these
    /// are not (P40).
    ended: BTreeSet<SessionId>,
    ends: VecDeque<SessionId>,
}

/// What a client asks for when it connects.
pub(super) struct Newcomer<'a> {
    pub(super) conn: ConnId,
    pub(super) address: IpAddr,
    pub(super) timeout_ms: i32,
    pub(super) read_only: Option<bool>,
    pub(super) touch: &'a Touch,
}

/// How a write of a local session goes on.
pub(super) enum LocalWrite {
    /// As any other.
    GoOn,
    /// The same, but its ephemeral nodes are refused.
    Without(ErrorCode),
    /// It does not.
    Never,
}

impl Local {
    pub(super) fn new(kind: LocalSessions, tick_ms: i32) -> Self {
        Self { kind, sessions: Sessions::new(tick_ms), ended: BTreeSet::new(), ends: VecDeque::new() }
    }

    /// A global session has ended. What a learner has sent for it may still be on its way.
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
    /// Sessions that only this server knows.
    pub fn local_session_count(&self) -> usize {
        self.local.sessions.len()
    }

    /// Local sessions behind `after`, at most `max`, for `dump`.
    pub fn local_session_infos_after(&self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        self.local.sessions.infos_after(after, max)
    }

    /// Begins a session, at once.
    pub(super) fn open_local(&mut self, now: Now, newcomer: &Newcomer<'_>, state: &State, out: &mut Outboxes) {
        let Newcomer { conn, address, timeout_ms, read_only, touch } = *newcomer;
        let id = self.new_session_id(state);
        self.local.sessions.add(id, timeout_ms, now.mono_ms, touch.clone(), Some(conn));
        self.addresses.count(id, address);
        self.attach(conn, Granted { session: id, timeout_ms, read_only }, out);
    }

    /// Gives a client its session back, if it is one of these.
    pub(super) fn resume_local(
        &mut self,
        now: Now,
        session: SessionId,
        newcomer: &Newcomer<'_>,
        out: &mut Outboxes,
    ) -> bool {
        let Newcomer { conn, address, timeout_ms, read_only, touch } = *newcomer;
        let is_here = self.local.sessions.attach(session, timeout_ms, now.mono_ms, touch.clone(), conn);
        if is_here {
            self.addresses.count(session, address);
            self.resume(conn, Granted { session, timeout_ms, read_only }, out);
        }
        is_here
    }

    /// What a write of a local session needs before it goes on; the session may be global afterwards.
    pub(super) fn before_local_write(
        &mut self,
        now: Now,
        conn: ConnId,
        session: SessionId,
        (op, body): (OpCode, &[u8]),
        state: &State,
    ) -> LocalWrite {
        if !ops::creates_ephemeral(op, body) {
            LocalWrite::GoOn
        } else if self.local.kind == LocalSessions::Stay {
            LocalWrite::Without(ErrorCode::EphemeralOnLocalSession)
        } else if self.upgrade(now, conn, session, state) {
            LocalWrite::GoOn
        } else {
            LocalWrite::Never
        }
    }

    /// Makes a session global. False if there is no way to.
    fn upgrade(&mut self, now: Now, conn: ConnId, session: SessionId, state: &State) -> bool {
        let Some((timeout_ms, touch)) = self.local.sessions.take(session) else { return false };
        // Known from now on as any global one: what follows may come back before the session does.
        self.sessions.add(session, timeout_ms, now.mono_ms, touch, Some(conn));
        let own = Own::new(session, 0, Origin::Upgrade(conn));
        match self.role {
            Role::Learner(link) => self.forward(link, OpCode::CreateSession, &timeout_ms.to_be_bytes(), NO_IDS, own),
            Role::Leader => {
                if !self.propose_create_session(now, session, timeout_ms, Maker::Own, state) {
                    return false;
                }
                self.wait_for(own, 0);
            }
            Role::None | Role::ReadOnly => return false,
        }
        true
    }

    /// Ends a session whose client asks for it: it is over at once, and the client is told in its turn.
    pub(super) fn close_local(&mut self, conn: ConnId, xid: i32, state: &State, out: &mut Outboxes) {
        let Some(asker) = self.conns.get_mut(conn) else { return };
        asker.is_leaving = true;
        let session = asker.session;
        self.local.sessions.remove(session);
        self.addresses.end(session);
        self.in_turn(conn, What::Closed(xid), state, out);
    }

    /// Ends sessions that nobody has heard of; their connections follow.
    pub(super) fn expire_local(&mut self, now: Now) {
        if self.role == Role::None {
            return; // nobody could be heard
        }
        let mut expired = Vec::new();
        let waited_ms = waited_ms(&self.conns, &self.own, now);
        self.local.sessions.expire(now.mono_ms, EXPIRED_AT_ONCE_MAX, waited_ms, &mut expired);
        for session in expired {
            self.tallies.expired(session, self.local.sessions.timeout_ms(session).unwrap_or_default());
            let conn = self.local.sessions.remove(session);
            self.addresses.end(session);
            self.todo.extend(conn.map(Todo::GiveUp));
        }
    }

    /// Whether a session that nobody here knows may be local at the learner that writes for it.
    pub(super) fn is_local_elsewhere(&self, session: SessionId) -> bool {
        let is_open = !self.sessions.is_known(session) && !self.local.ended.contains(&session);
        self.local.is_on() && is_open && i64::from(session.server()) != self.me.0
    }
}

impl ConnState {
    /// Whether what it sends has an effect.
    pub(super) fn may_write(&self) -> bool {
        self.active && !self.is_leaving
    }
}
