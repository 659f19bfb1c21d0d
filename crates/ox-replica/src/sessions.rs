//! Who is alive: sessions in buckets of one tick, judged by when their clients were last heard of.
//!
//! A connection notes every sign of life in its session's [`Touch`]; nobody moves a session between buckets for
//! that. Only when a bucket is due are its sessions looked at, and those that were heard of since move on.

use ox_proto::{ErrorCode, SessionId};
use ox_tree::ConnId;
use ox_zab::LinkId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// When a session's client was last heard of. Written by its connection, read when a bucket is due.
#[derive(Clone, Debug, Default)]
pub struct Touch(Arc<AtomicI64>);

impl Touch {
    /// Notes a sign of life.
    pub fn note(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    /// The same for a moment that may have passed.
    fn note_past(&self, at_ms: i64) {
        self.0.fetch_max(at_ms, Ordering::Relaxed);
    }

    /// The last sign of life, on the monotonic clock.
    pub fn last_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a session's client is, or was last: elsewhere nobody may write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// Nobody has said.
    Unknown,
    /// At this server, even if its connection is gone.
    Here,
    /// At a learner.
    Learner(LinkId),
}

#[derive(Debug)]
struct Session {
    timeout_ms: i32,
    touch: Touch,
    conn: Option<ConnId>,
    home: Home,
    bucket_ms: i64,
    closing: bool,
}

/// What `dump` shows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session.
    pub id: SessionId,
    /// When its bucket is due, by the monotonic clock.
    pub expires_ms: i64,
}

/// When a client heard of at `at_ms` is given up.
fn bucket(tick_ms: i64, at_ms: i64, timeout_ms: i32) -> i64 {
    (at_ms.saturating_add(i64::from(timeout_ms)) / tick_ms + 1) * tick_ms
}

/// The sessions of a server that may end them: standalone or leader.
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
    pub(crate) fn add(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64, touch: Touch, conn: Option<ConnId>) {
        touch.note(now_ms);
        let bucket_ms = bucket(self.tick_ms, now_ms, timeout_ms);
        let home = if conn.is_some() { Home::Here } else { Home::Unknown };
        self.sessions.insert(id, Session { timeout_ms, touch, conn, home, bucket_ms, closing: false });
        self.buckets.entry(bucket_ms).or_default().push(id);
    }

    /// Gives a live session to another connection. Returns false when it is unknown or being closed.
    pub(crate) fn attach(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64, touch: Touch, conn: ConnId) -> bool {
        match self.sessions.get_mut(&id) {
            Some(session) if !session.closing => {
                touch.note(now_ms);
                // The old bucket stays: when it is due, the session moves to where it belongs by then.
                *session = Session { timeout_ms, touch, conn: Some(conn), home: Home::Here, ..*session };
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

    /// Gives a live session to a learner, whose client has come with it. False when it is unknown or being closed.
    pub(crate) fn move_to(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64, link: LinkId) -> bool {
        let is_alive = self.hear(id, timeout_ms, now_ms);
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| is_alive) {
            (session.conn, session.home) = (None, Home::Learner(link));
        }
        is_alive
    }

    /// A client was heard of somewhere. False when its session is unknown or being closed.
    pub(crate) fn hear(&mut self, id: SessionId, timeout_ms: i32, now_ms: i64) -> bool {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closing) else { return false };
        session.timeout_ms = timeout_ms;
        session.touch.note(now_ms);
        let due = bucket(self.tick_ms, now_ms, timeout_ms);
        if due < session.bucket_ms {
            session.bucket_ms = due;
            self.buckets.entry(due).or_default().push(id);
        }
        true
    }

    /// A learner has heard of a client. If the session is somebody else's by now, the learner does not know for how long
    /// it wants to live.
    pub(crate) fn hear_from(&mut self, link: LinkId, id: SessionId, timeout_ms: i32, now_ms: i64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let is_its = [Home::Unknown, Home::Learner(link)].contains(&session.home);
        let timeout_ms = if is_its { timeout_ms } else { session.timeout_ms };
        self.hear(id, timeout_ms, now_ms);
    }

    /// Whether a learner may write for a session. Who is first gets one that nobody has.
    pub(crate) fn check_owner(&mut self, id: SessionId, link: LinkId) -> Result<(), ErrorCode> {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closing) else {
            return Err(ErrorCode::SessionExpired);
        };
        if ![Home::Unknown, Home::Learner(link)].contains(&session.home) {
            return Err(ErrorCode::SessionMoved);
        }
        session.home = Home::Learner(link);
        Ok(())
    }

    /// Sessions whose clients were heard of since `since_ms`, with their timeouts.
    pub(crate) fn heard_since(&self, since_ms: i64) -> impl Iterator<Item = (SessionId, i32)> {
        let heard = self.sessions.iter().filter(move |(_, session)| since_ms <= session.touch.last_ms());
        heard.map(|(id, session)| (*id, session.timeout_ms))
    }

    /// The timeout a session has now.
    pub(crate) fn timeout_ms(&self, id: SessionId) -> Option<i32> {
        Some(self.sessions.get(&id)?.timeout_ms)
    }

    /// The connection that has the session now.
    pub(crate) fn conn(&self, id: SessionId) -> Option<ConnId> {
        self.sessions.get(&id)?.conn
    }

    /// The connection is gone, which has waited for the server until `waited_ms`; the session lives on without one.
    pub(crate) fn detach(&mut self, id: SessionId, conn: ConnId, waited_ms: Option<i64>) {
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.conn == Some(conn)) {
            session.conn = None;
            waited_ms.into_iter().for_each(|at_ms| session.touch.note_past(at_ms));
        }
    }

    pub(crate) fn is_known(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Marks a session as being closed.
    pub(crate) fn start_closing(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.closing = true;
        }
    }

    /// Forgets a closed session; returns the connection it had.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<ConnId> {
        self.sessions.remove(&id)?.conn
    }

    /// Lets go of a session that is somebody else's from now on, with its timeout and where its life is noted.
    pub(crate) fn take(&mut self, id: SessionId) -> Option<(i32, Touch)> {
        self.sessions.remove(&id).map(|session| (session.timeout_ms, session.touch))
    }

    /// When the next bucket is due.
    pub(crate) fn deadline(&self) -> Option<i64> {
        self.buckets.first_key_value().map(|(due, _)| *due)
    }

    /// Gives up the sessions of due buckets that were not heard of since: they are being closed from now on. At most
    /// `max` are added; the others stay due. `waited_ms` tells until when a connection had to wait for the server.
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
                    session.touch.note_past(at_ms);
                }
                let bucket_ms = bucket(self.tick_ms, session.touch.last_ms(), session.timeout_ms);
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

    /// Gives every session its full timeout again: for a while nobody could be heard.
    pub(crate) fn hear_all(&self, now_ms: i64) {
        self.sessions.values().for_each(|session| session.touch.note(now_ms));
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions behind `after` with the time each is given up unless it is heard of, at most `max`, by id.
    pub(crate) fn infos_after(&self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.sessions.range((behind, Bound::Unbounded)).take(max);
        let info = |(id, session): (&SessionId, &Session)| SessionInfo {
            id: *id,
            expires_ms: bucket(self.tick_ms, session.touch.last_ms(), session.timeout_ms),
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
        sessions.add(SessionId(1), 4000, 100, Touch::default(), None);
        assert_eq!(expired(&mut sessions, 4101), []);
        assert_eq!(expired(&mut sessions, 5999), []);
        assert_eq!(sessions.deadline(), Some(6000));
        assert_eq!(expired(&mut sessions, 6000), [1]);
    }

    #[test]
    fn k120_a_sign_of_life_moves_the_session_on() {
        let mut sessions = Sessions::new(2000);
        let touch = Touch::default();
        sessions.add(SessionId(1), 4000, 0, touch.clone(), None);
        touch.note(5900);
        assert_eq!(expired(&mut sessions, 6000), []);
        assert_eq!(expired(&mut sessions, 9999), []);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    #[test]
    fn k117_a_flood_of_expiries_comes_in_pieces() {
        let mut sessions = Sessions::new(1000);
        (1..=5).for_each(|id| sessions.add(SessionId(id), 4000, 0, Touch::default(), None));
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
    fn who_waited_for_the_server_starts_anew() {
        let mut sessions = Sessions::new(1000);
        let conn = ConnId::new(0, 1, 1);
        sessions.add(SessionId(1), 4000, 0, Touch::default(), Some(conn));
        let mut expired = Vec::new();
        sessions.expire(9000, 10, |of| (of == conn).then_some(8500), &mut expired);
        assert_eq!((expired.len(), sessions.deadline()), (0, Some(13_000)));
        sessions.detach(SessionId(1), conn, Some(12_900));
        sessions.expire(13_000, 10, |_| None, &mut expired);
        assert_eq!((expired.len(), sessions.deadline()), (0, Some(17_000)));
    }

    #[test]
    fn after_a_pause_everybody_has_the_whole_timeout() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 4000, 0, Touch::default(), None);
        sessions.hear_all(60_000);
        assert_eq!(expired(&mut sessions, 60_000), [] as [i64; 0]);
        assert_eq!(expired(&mut sessions, 65_000), [1]);
    }

    #[test]
    fn a_shorter_timeout_at_reconnect_takes_effect() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 40_000, 0, Touch::default(), None);
        assert!(sessions.attach(SessionId(1), 4000, 1000, Touch::default(), ConnId::new(0, 1, 1)));
        assert_eq!(expired(&mut sessions, 6000), [1]);
    }

    /// The same session can stand twice in a bucket: first where its old timeout put it, then where its life moved it.
    #[test]
    fn a_shorter_timeout_at_reconnect_expires_once() {
        let mut sessions = Sessions::new(1000);
        let touch = Touch::default();
        sessions.add(SessionId(1), 9000, 0, Touch::default(), None);
        assert!(sessions.attach(SessionId(1), 4000, 0, touch.clone(), ConnId::new(0, 1, 1)));
        touch.note(4999);
        assert_eq!(expired(&mut sessions, 5000), [] as [i64; 0]);
        touch.note(5500);
        assert_eq!(expired(&mut sessions, 9000), [] as [i64; 0]);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    #[test]
    fn sessions_are_listed_in_pieces() {
        let mut sessions = Sessions::new(1000);
        for (id, timeout_ms) in [(3, 4000), (1, 9000), (2, 5000)] {
            sessions.add(SessionId(id), timeout_ms, 0, Touch::default(), None);
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
    fn a_learner_that_has_lost_a_session_does_not_shorten_its_life() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 2000, 0, Touch::default(), None);
        assert!(sessions.move_to(SessionId(1), 2000, 0, LinkId(7)));
        assert!(sessions.attach(SessionId(1), 9000, 0, Touch::default(), ConnId::new(0, 1, 1)));
        sessions.hear_from(LinkId(7), SessionId(1), 2000, 500);
        assert_eq!(expired(&mut sessions, 9000), []);
        assert_eq!(expired(&mut sessions, 10_000), [1]);
    }

    /// P42: a connection that has lost its session does not get it back because the other one is gone.
    #[test]
    fn who_lost_a_session_has_lost_it() {
        let (mut sessions, conn) = (Sessions::new(1000), ConnId::new(0, 1, 1));
        sessions.add(SessionId(1), 9000, 0, Touch::default(), None);
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Ok(()), "nobody has said where it is");
        assert!(sessions.attach(SessionId(1), 9000, 0, Touch::default(), conn));
        sessions.detach(SessionId(1), conn, None);
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Err(ErrorCode::SessionMoved));
        assert!(sessions.move_to(SessionId(1), 9000, 0, LinkId(7)));
        assert_eq!(sessions.check_owner(SessionId(1), LinkId(7)), Ok(()));
    }

    #[test]
    fn k122_closing_sessions_are_not_revived() {
        let mut sessions = Sessions::new(1000);
        sessions.add(SessionId(1), 4000, 0, Touch::default(), None);
        sessions.start_closing(SessionId(1));
        assert!(!sessions.attach(SessionId(1), 4000, 1, Touch::default(), ConnId::new(0, 1, 1)));
        assert!(sessions.is_known(SessionId(1)));
        assert_eq!(expired(&mut sessions, 100_000), [] as [i64; 0]);
    }
}
