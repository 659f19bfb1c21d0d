//! Which record of the log is which request.
//!
//! An answered write says its zxid itself. A write without an answer is looked for by session and xid; it may be
//! there or not. What remains of the log must be the servers' own doing.

use super::streams::{Reply, Stream};
use crate::history::{Connection, History, Logged, LoggedTxn};
use crate::op::Op;
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use std::collections::BTreeMap;

/// The outcome.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// For each connection and request the place of its record in the log.
    pub(crate) records: Vec<Vec<Option<usize>>>,
    /// For each record of the log the connection and request it belongs to.
    pub(crate) requests: Vec<Option<(usize, usize)>>,
    /// Records of sessions that began, by session.
    pub(crate) openings: BTreeMap<SessionId, usize>,
    /// The session of each connection, as far as it can be known: the answer to a handshake may be lost.
    pub(crate) sessions: Vec<Option<SessionId>>,
    pub(crate) unanswered_but_done: usize,
}

impl Matching {
    /// The zxid of a write that is in the log.
    pub(crate) fn zxid(&self, history: &History, connection: usize, request: usize) -> Option<Zxid> {
        self.records[connection][request].map(|at| history.log[at].zxid)
    }
}

/// Whether the session of a connection was never known to others than its server: it ends without a record.
fn is_local(history: &History, connection: &Connection) -> bool {
    let begins = |entry: &Logged| {
        matches!(entry.txn, LoggedTxn::CreateSession { .. }) && Some(entry.session) == connection.session()
    };
    history.settings.local_sessions && !history.log.iter().any(begins)
}

/// Whether the answer was given without a record in the log.
pub(crate) fn is_unlogged(op: &Op, reply: Reply<'_>) -> bool {
    let turned_away = [ErrorCode::ThrottledOp, ErrorCode::NotReadOnly].map(ErrorCode::code).contains(&reply.err);
    let undecodable = matches!(op, Op::Broken(op) if *op != OpCode::Multi);
    !op.is_write() || turned_away || undecodable
}

pub(crate) fn check(history: &History, streams: &[Stream]) -> Checked<Matching> {
    let mut matching = Matching {
        records: history.connections.iter().map(|connection| vec![None; connection.requests.len()]).collect(),
        requests: vec![None; history.log.len()],
        ..Matching::default()
    };
    let places: BTreeMap<Zxid, usize> = history.log.iter().enumerate().map(|(at, entry)| (entry.zxid, at)).collect();
    for (number, connection) in history.connections.iter().enumerate() {
        matching.answered(history, &places, number, connection, &streams[number])?;
    }
    matching.sessions(history);
    matching.unanswered(history, streams);
    matching.rest(history)?;
    Ok(matching)
}

impl Matching {
    fn answered(
        &mut self,
        history: &History,
        places: &BTreeMap<Zxid, usize>,
        number: usize,
        connection: &Connection,
        stream: &Stream,
    ) -> Checked {
        for (at, sent) in connection.requests.iter().enumerate() {
            let is_local = sent.op == Op::CloseSession && is_local(history, connection);
            let is_logged = |reply: &Reply<'_>| !is_local && !is_unlogged(&sent.op, *reply);
            let Some(reply) = stream.answer(connection, at).filter(is_logged) else { continue };
            let fail = |reason, detail: String| Err(Violation::new(reason, Place::Request(number, at), detail));
            let Some(&place) = places.get(&reply.zxid) else {
                return fail(Reason::LostWrite, format!("{sent:?} was answered with zxid {}", reply.zxid));
            };
            let entry = &history.log[place];
            if Some(entry.session) != connection.session() || entry.cxid != sent.xid {
                return fail(Reason::ForeignZxid, format!("{sent:?} was answered with the zxid of {entry:?}"));
            }
            if let Some(other) = self.requests[place].replace((number, at)) {
                return fail(Reason::SharedZxid, format!("{sent:?} and request {other:?} share {}", reply.zxid));
            }
            self.records[number][at] = Some(place);
        }
        Ok(())
    }

    /// Finds the session of connections whose handshake was never answered: the one they asked for, or a new one
    /// that nobody else has got and that wrote what they sent.
    fn sessions(&mut self, history: &History) {
        let mut nobodys: BTreeMap<SessionId, Vec<i32>> = BTreeMap::new();
        for (place, entry) in history.log.iter().enumerate() {
            if let LoggedTxn::CreateSession { .. } = entry.txn {
                self.openings.insert(entry.session, place);
            } else if !is_servers_own(entry) {
                nobodys.entry(entry.session).or_default().push(entry.cxid);
            }
        }
        history.connections.iter().filter_map(Connection::session).for_each(|session| _ = nobodys.remove(&session));
        for connection in &history.connections {
            // Not necessarily all it sent: a server that has too much to do turns writes away, and logs nothing.
            let sent = |xid: &i32| connection.requests.iter().any(|sent| sent.op.is_write() && sent.xid == *xid);
            let session = match (connection.granted, connection.asked) {
                (Some(_), _) => connection.session(),
                (None, SessionId::NONE) => {
                    let found = nobodys.iter().find(|(_, xids)| xids.iter().all(sent)).map(|(session, _)| *session);
                    found.inspect(|session| _ = nobodys.remove(session))
                }
                (None, asked) => Some(asked),
            };
            self.sessions.push(session);
        }
    }

    /// Gives writes without an answer the place that the log has for them.
    fn unanswered(&mut self, history: &History, streams: &[Stream]) {
        let mut unclaimed: BTreeMap<(SessionId, i32), Vec<usize>> = BTreeMap::new();
        for (place, entry) in history.log.iter().enumerate().rev() {
            if self.requests[place].is_none() && !is_servers_own(entry) {
                unclaimed.entry((entry.session, entry.cxid)).or_default().push(place);
            }
        }
        for (number, connection) in history.connections.iter().enumerate() {
            let Some(session) = self.sessions[number].filter(|_| !connection.is_read_only) else { continue };
            for (at, sent) in connection.requests.iter().enumerate() {
                if !sent.op.is_write() || streams[number].answers[at].is_some() {
                    continue;
                }
                if let Some(place) = unclaimed.get_mut(&(session, sent.xid)).and_then(Vec::pop) {
                    self.records[number][at] = Some(place);
                    self.requests[place] = Some((number, at));
                    self.unanswered_but_done += 1;
                }
            }
        }
    }

    /// What nobody asked for must be the servers' own.
    fn rest(&self, history: &History) -> Checked {
        for (place, entry) in history.log.iter().enumerate() {
            if self.requests[place].is_none() && !is_servers_own(entry) && !self.was_refused(history, entry)? {
                return Err(Violation::new(Reason::Unsent, Place::Log(entry.zxid), format!("{entry:?}")));
            }
        }
        Ok(())
    }

    /// A record that belongs to a request which was answered as if it had none.
    fn was_refused(&self, history: &History, entry: &Logged) -> Checked<bool> {
        for (number, connection) in history.connections.iter().enumerate() {
            if connection.session() != Some(entry.session) {
                continue;
            }
            let refused = connection.requests.iter().position(|sent| sent.xid == entry.cxid && sent.op.code() != 0);
            if let Some(at) = refused {
                let detail = format!("{:?} is {entry:?}", connection.requests[at]);
                return Err(Violation::new(Reason::RefusedIsLogged, Place::Request(number, at), detail));
            }
        }
        Ok(false)
    }
}

/// Beginnings of sessions, ends by expiry, removals of nodes that go by themselves; and that a leader without room turned
/// a learner's client away: the same answer comes without a record too.
pub(crate) fn is_servers_own(entry: &Logged) -> bool {
    match entry.txn {
        LoggedTxn::Error { err } => err == ErrorCode::ThrottledOp.code(),
        LoggedTxn::CreateSession { .. } => true,
        LoggedTxn::CloseSession { .. } => entry.cxid == 0,
        LoggedTxn::DeleteContainer { .. } => entry.session == SessionId::NONE,
        _ => false,
    }
}
