//! Session tracker (`SessionTrackerImpl`): sessions in expiry buckets of one tick.
//!
//! A connection records every sign of life in the [`LastSeen`] of its session, without moving the session to another
//! bucket. Only when a bucket is due are its sessions checked, and those that were touched since move to a later one.
//!
//! A leader or standalone server tracks all global sessions. Those that were not touched it expires: `on_time` in
//! `replica.rs` proposes a closeSession for each. A learner tracks the global sessions of its own clients, expires none
//! of them, and reports touches to the leader (`reply_to_ping` in `forwarding.rs`). Local sessions have a tracker
//! of their own in every server, which expires them without a transaction (`local_sessions.rs`).

use crate::ConnId;
use ox_proto::{ErrorCode, SessionId};
use ox_zab::LinkId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// When a session was last touched. Written by its connection, read when the session's bucket is due.
#[derive(Clone, Debug, Default)]
pub struct LastSeen(Arc<AtomicI64>);

impl LastSeen {
    /// Records a sign of life, unless a later one is recorded. The connection's thread and the replica have clocks of
    /// their own: after a pause of the process, the iteration that was interrupted still has the time before the pause,
    /// and must not undo [`Sessions::touch_all`].
    pub fn note(&self, at_ms: i64) {
        if self.last_ms() < at_ms {
            self.0.fetch_max(at_ms, Ordering::Relaxed);
        }
    }

    /// The last sign of life, on the monotonic clock.
    pub fn last_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The server whose client uses a session, or used it last. Only the owner may write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Not known yet; the first learner that writes becomes the owner.
    Unknown,
    /// This server, even if the connection was closed.
    ThisServer,
    Learner(LinkId),
}

#[derive(Debug)]
struct Session {
    timeout_ms: i32,
    last_seen: LastSeen,
    conn: Option<ConnId>,
    owner: Owner,
    bucket_ms: i64,
    closing: bool,
}

/// What the command `dump` shows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub id: SessionId,
    /// When its bucket is due, by the monotonic clock.
    pub expires_ms: i64,
}

/// End of the bucket of a session that was touched at `at_ms`.
fn bucket(tick_ms: i64, at_ms: i64, timeout_ms: i32) -> i64 {
    (at_ms.saturating_add(i64::from(timeout_ms)) / tick_ms + 1) * tick_ms
}

/// The sessions that a server tracks: all global ones at a leader or standalone server, at a learner those of its
/// clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    tick_ms: i64,
    sessions: BTreeMap<SessionId, Session>,
    buckets: BTreeMap<i64, Vec<SessionId>>,
}

impl Sessions {
    pub(crate) fn new(tick_ms: i32) -> Self {
        Self { tick_ms: i64::from(tick_ms.max(1)), sessions: BTreeMap::new(), buckets: BTreeMap::new() }
    }

    /// Adds a session with a full timeout from now.
    pub(crate) fn add(
        &mut self,
        id: SessionId,
        timeout_ms: i32,
        now_ms: i64,
        last_seen: LastSeen,
        conn: Option<ConnId>,
    ) {
        last_seen.note(now_ms);
        let bucket_ms = bucket(self.tick_ms, now_ms, timeout_ms);
        let owner = if conn.is_some() { Owner::ThisServer } else { Owner::Unknown };
        self.sessions.insert(id, Session { timeout_ms, last_seen, conn, owner, bucket_ms, closing: false });
        self.buckets.entry(bucket_ms).or_default().push(id);
    }

    /// Gives a live session to another connection. False if the session is unknown or being closed.
    pub(crate) fn attach(
        &mut self,
        id: SessionId,
        timeout_ms: i32,
        now_ms: i64,
        last_seen: LastSeen,
        conn: ConnId,
    ) -> bool {
        match self.sessions.get_mut(&id) {
            Some(session) if !session.closing => {
                last_seen.note(now_ms);
                // The session stays in its old bucket. When that is due, it moves to the right one.
                *session = Session { timeout_ms, last_seen, conn: Some(conn), owner: Owner::ThisServer, ..*session };
                let due = bucket(self.tick_ms, now_ms, timeout_ms);
                if due < session.bucket_ms {
                    session.bucket_ms = due;
                    self.buckets.entry(due).or_default().push(id);
                }
                true
            }
            _ => false,
        }
    }

    /// Gives a live session to a learner, at which its client has reconnected. False if it is unknown or being closed.
    pub(crate) fn move_to(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64, link: LinkId) -> bool {
        let is_alive = self.touch_session(id, timeout_ms, now_ms);
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| is_alive) {
            (session.conn, session.owner) = (None, Owner::Learner(link));
        }
        is_alive
    }

    /// Touches a session. False if it is unknown or being closed.
    pub(crate) fn touch_session(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closing) else { return false };
        session.timeout_ms = timeout_ms;
        session.last_seen.note(now_ms);
        let due = bucket(self.tick_ms, now_ms, timeout_ms);
        if due < session.bucket_ms {
            session.bucket_ms = due;
            self.buckets.entry(due).or_default().push(id);
        }
        true
    }

    /// A learner reports a touch. If the session has another owner by now, the learner does not know its timeout.
    pub(crate) fn touch_from(&mut self, link: LinkId, id: SessionId, timeout_ms: i32, now_ms: i64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let is_its = [Owner::Unknown, Owner::Learner(link)].contains(&session.owner);
        let timeout_ms = if is_its { timeout_ms } else { session.timeout_ms };
        self.touch_session(id, timeout_ms, now_ms);
    }

    /// Whether a learner may write for a session. An unowned session goes to the first learner that uses it.
    pub(crate) fn check_owner(&mut self, id: SessionId, link: LinkId) -> Result<(), ErrorCode> {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closing) else {
            return Err(ErrorCode::SessionExpired);
        };
        if ![Owner::Unknown, Owner::Learner(link)].contains(&session.owner) {
            return Err(ErrorCode::SessionMoved);
        }
        session.owner = Owner::Learner(link);
        Ok(())
    }

    /// Sessions that were touched since `since_ms`, with their timeouts.
    pub(crate) fn touched_since(&self, since_ms: i64) -> impl Iterator<Item = (SessionId, i32)> {
        let heard = self.sessions.iter().filter(move |(_, session)| since_ms <= session.last_seen.last_ms());
        heard.map(|(id, session)| (*id, session.timeout_ms))
    }

    pub(crate) fn timeout_ms(&self, id: SessionId) -> Option<i32> {
        Some(self.sessions.get(&id)?.timeout_ms)
    }

    pub(crate) fn conn(&self, id: SessionId) -> Option<ConnId> {
        self.sessions.get(&id)?.conn
    }

    /// The connection was closed; the session stays. The connection waited for the server until `waited_ms`.
    pub(crate) fn detach(&mut self, id: SessionId, conn: ConnId, waited_ms: Option<i64>) {
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.conn == Some(conn)) {
            session.conn = None;
            waited_ms.into_iter().for_each(|at_ms| session.last_seen.note(at_ms));
        }
    }

    pub(crate) fn is_known(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    pub(crate) fn start_closing(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.closing = true;
        }
    }

    /// Removes a session; returns the connection it had.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<ConnId> {
        self.sessions.remove(&id)?.conn
    }

    /// Removes a session that becomes global; returns its timeout and its [`LastSeen`].
    pub(crate) fn take(&mut self, id: SessionId) -> Option<(i32, LastSeen)> {
        self.sessions.remove(&id).map(|session| (session.timeout_ms, session.last_seen))
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        self.buckets.first_key_value().map(|(due, _)| *due)
    }

    /// Expires the sessions of due buckets that were not touched since; they are being closed from now on. Adds at most
    /// `max` sessions, the others stay due. `waited_ms` returns until when a connection had to wait for the server.
    pub(crate) fn expire(
        &mut self,
        now_ms: i64,
        max: usize,
        waited_ms: impl Fn(ConnId) -> Option<i64>,
        expired: &mut Vec<SessionId>,
    ) {
        while let Some(due) = self.buckets.first_entry().filter(|bucket| *bucket.key() <= now_ms) {
            let (due_ms, mut ids) = due.remove_entry();
            for at in 0..ids.len() {
                if max <= expired.len() {
                    self.buckets.insert(due_ms, ids.split_off(at));
                    return;
                }
                let id = ids[at];
                let Some(session) = self.sessions.get_mut(&id) else { continue };
                if session.closing || session.bucket_ms != due_ms {
                    continue;
                }
                if let Some(at_ms) = session.conn.and_then(&waited_ms) {
                    session.last_seen.note(at_ms);
                }
                let bucket_ms = bucket(self.tick_ms, session.last_seen.last_ms(), session.timeout_ms);
                if bucket_ms <= now_ms {
                    session.closing = true;
                    expired.push(id);
                } else {
                    session.bucket_ms = bucket_ms;
                    self.buckets.entry(bucket_ms).or_default().push(id);
                }
            }
        }
    }

    /// Gives every session its full timeout again, after a time in which no client could be served.
    pub(crate) fn touch_all(&self, now_ms: i64) {
        self.sessions.values().for_each(|session| session.last_seen.note(now_ms));
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions after `after`, at most `max`, by id, with their expiry times.
    pub(crate) fn infos_after(&self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.sessions.range((behind, Bound::Unbounded)).take(max);
        let info = |(id, session): (&SessionId, &Session)| SessionInfo {
            id: *id,
            expires_ms: bucket(self.tick_ms, session.last_seen.last_ms(), session.timeout_ms),
        };
        sessions.map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(sessions: &mut Sessions, now_ms: i64) -> Vec<i64> {
        let mut expired = Vec::new();
        sessions.expire(now_ms, usize::MAX, |_| None, &mut expired);
        expired.iter().map(|id| id.0).collect()
    }

    #[test]
    fn expiry_lies_between_timeout_and_one_tick_more() {
        let mut sessions = Sessions::new(2000);
        sessions.add(SessionId(1), 4000, 100, LastSeen::default(), None);
        assert_eq!(expired(&mut sessions, 4101), []);
        assert_eq!(expired(&mut sessions, 5999), []);
        assert_eq!(sessions.deadline(), Some(6000));
        assert_eq!(expired(&mut sessions, 6000), [1]);
    }

    #[test]
    fn k120_touch_moves_session_to_later_bucket() {
        let mut sessions = Sessions::new(2000);
        let last_seen = LastSeen::default();
        sessions.add(SessionId(1), 4000, 0, last_seen.clone(), None);
        last_seen.note(5900);
        assert_eq!(expired(&mut sessions, 6000), []);
        assert_eq!(expired(&mut sessions, 9999), []);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    /// The thread of the connection continues an iteration that the pause has interrupted.
    #[test]
    fn sign_of_life_from_before_a_pause_keeps_full_timeout() {
        let mut sessions = Sessions::new(2000);
        let last_seen = LastSeen::default();
        sessions.add(SessionId(1), 4000, 0, last_seen.clone(), None);
        sessions.touch_all(40_000);
        last_seen.note(1000);
        assert_eq!(expired(&mut sessions, 40_000), []);
        assert_eq!(expired(&mut sessions, 46_000), [1]);
    }

    #[test]
    fn k117_mass_expiry_is_split_into_steps() {
        let mut sessions = Sessions::new(1000);
        (1..=5).for_each(|id| sessions.add(SessionId(id), 4000, 0, LastSeen::default(), None));
        let mut seen = Vec::new();
        for expected in [2, 2, 1, 0] {
            let mut expired = Vec::new();
            sessions.expire(9000, 2, |_| None, &mut expired);
            assert_eq!(expired.len(), expected);
            seen.extend(expired);
        }
        assert_eq!(seen, (1..=5).map(SessionId).collect::<Vec<_>>());
        assert_eq!(sessions.deadline(), None);
    }

    #[test]
    fn client_that_waited_for_server_gets_full_timeout() {
        let mut sessions = Sessions::new(1000);
        let conn = ConnId::new(0, 1, 1);
        sessions.add(SessionId(1), 4000, 0, LastSeen::default(), Some(conn));
        let mut expired = Vec::new();
        sessions.expire(9000, 10, |of| (of == conn).then_some(8500), &mut expired);
        assert_eq!((expired.len(), sessions.deadline()), (0, Some(13_000)));
        sessions.detach(SessionId(1), conn, Some(12_900));
        sessions.expire(13_000, 10, |_| None, &mut expired);
        assert_eq!((expired.len(), sessions.deadline()), (0, Some(17_000)));
    }

    #[test]
    fn pause_restores_full_timeout_of_all_sessions() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 4000, 0, LastSeen::default(), None);
        sessions.touch_all(60_000);
        assert_eq!(expired(&mut sessions, 60_000), [] as [i64; 0]);
        assert_eq!(expired(&mut sessions, 65_000), [1]);
    }

    #[test]
    fn shorter_timeout_at_reconnect_takes_effect() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 40_000, 0, LastSeen::default(), None);
        assert!(sessions.attach(SessionId(1), 4000, 1000, LastSeen::default(), ConnId::new(0, 1, 1)));
        assert_eq!(expired(&mut sessions, 6000), [1]);
    }

    /// A session can be in a bucket twice: first by its old timeout, then because a touch moved it there.
    #[test]
    fn shorter_timeout_at_reconnect_expires_once() {
        let mut sessions = Sessions::new(1000);
        let last_seen = LastSeen::default();
        sessions.add(SessionId(1), 9000, 0, LastSeen::default(), None);
        assert!(sessions.attach(SessionId(1), 4000, 0, last_seen.clone(), ConnId::new(0, 1, 1)));
        last_seen.note(4999);
        assert_eq!(expired(&mut sessions, 5000), [] as [i64; 0]);
        last_seen.note(5500);
        assert_eq!(expired(&mut sessions, 9000), [] as [i64; 0]);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    #[test]
    fn sessions_are_listed_in_pieces() {
        let mut sessions = Sessions::new(1000);
        for (id, timeout_ms) in [(3, 4000), (1, 9000), (2, 5000)] {
            sessions.add(SessionId(id), timeout_ms, 0, LastSeen::default(), None);
        }
        let listed = |after: Option<i64>, max| {
            let infos = sessions.infos_after(after.map(SessionId), max);
            infos.iter().map(|info| (info.id.0, info.expires_ms)).collect::<Vec<_>>()
        };
        assert_eq!(listed(None, 2), [(1, 10_000), (2, 6000)]);
        assert_eq!(listed(Some(2), 2), [(3, 5000)]);
        assert_eq!(listed(Some(3), 2), []);
    }

    #[test]
    fn touch_of_previous_owner_keeps_timeout() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 2000, 0, LastSeen::default(), None);
        assert!(sessions.move_to(SessionId(1), 2000, 0, LinkId(7)));
        assert!(sessions.attach(SessionId(1), 9000, 0, LastSeen::default(), ConnId::new(0, 1, 1)));
        sessions.touch_from(LinkId(7), SessionId(1), 2000, 500);
        assert_eq!(expired(&mut sessions, 9000), []);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    /// A connection that has lost its session does not get it back when the new connection is closed (P42).
    #[test]
    fn previous_owner_does_not_regain_session() {
        let (mut sessions, conn) = (Sessions::new(1000), ConnId::new(0, 1, 1));
        sessions.add(SessionId(1), 9000, 0, LastSeen::default(), None);
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Ok(()), "it has no owner yet");
        assert!(sessions.attach(SessionId(1), 9000, 0, LastSeen::default(), conn));
        sessions.detach(SessionId(1), conn, None);
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Err(ErrorCode::SessionMoved));
        assert!(sessions.move_to(SessionId(1), 9000, 0, LinkId(7)));
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Ok(()));
    }

    #[test]
    fn k122_closing_sessions_are_not_revived() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 4000, 0, LastSeen::default(), None);
        sessions.start_closing(SessionId(1));
        assert!(!sessions.attach(SessionId(1), 4000, 1, LastSeen::default(), ConnId::new(0, 1, 1)));
        assert!(sessions.is_known(SessionId(1)));
        assert_eq!(expired(&mut sessions, 100_000), [] as [i64; 0]);
    }
}
