//! Matches log records with requests.
//!
//! The reply to a write carries its zxid. A write without a reply is looked up by session and xid; it may be in the log
//! or not. All remaining records must originate from the servers.

use super::streams::{Reply, Stream};
use crate::history::{History, LogEntry, LoggedTxn, RecordedConnection};
use crate::op::Op;
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// For each connection and request, the index of its record in the log.
    pub(crate) records: Vec<Vec<Option<usize>>>,
    /// For each record of the log, its connection and request.
    pub(crate) requests: Vec<Option<(usize, usize)>>,
    /// Index of each session's createSession record.
    pub(crate) openings: BTreeMap<SessionId, usize>,
    /// The session of each connection, as far as it is known: the reply to a handshake may be lost.
    pub(crate) sessions: Vec<Option<SessionId>>,
    pub(crate) effective_without_reply: usize,
}

impl Matching {
    /// The zxid of a write, if it is in the log.
    pub(crate) fn zxid(&self, history: &History, connection: usize, request: usize) -> Option<Zxid> {
        self.records[connection][request].map(|at| history.log[at].zxid)
    }
}

/// Whether the session of a connection was local: it ends without a record.
fn is_local(history: &History, connection: &RecordedConnection) -> bool {
    let begins = |entry: &LogEntry| {
        matches!(entry.txn, LoggedTxn::CreateSession { .. }) && Some(entry.session) == connection.session()
    };
    history.settings.local_sessions && !history.log.iter().any(begins)
}

/// Whether the reply was sent without a record in the log.
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
        matching.match_replied(history, &places, number, connection, &streams[number])?;
    }
    matching.sessions(history);
    matching.match_unreplied(history, streams);
    matching.check_unmatched(history)?;
    Ok(matching)
}

impl Matching {
    fn match_replied(
        &mut self,
        history: &History,
        places: &BTreeMap<Zxid, usize>,
        number: usize,
        connection: &RecordedConnection,
        stream: &Stream,
    ) -> Checked {
        for (at, sent) in connection.requests.iter().enumerate() {
            let is_local = sent.op == Op::CloseSession && is_local(history, connection);
            let is_logged = |reply: &Reply<'_>| !is_local && !is_unlogged(&sent.op, *reply);
            let Some(reply) = stream.reply_to(connection, at).filter(is_logged) else { continue };
            let fail =
                |reason, detail: String| Err(Violation::new(reason, ViolationPlace::Request(number, at), detail));
            let Some(&place) = places.get(&reply.zxid) else {
                return fail(ViolationKind::LostWrite, format!("the reply to {sent:?} has zxid {}", reply.zxid));
            };
            let entry = &history.log[place];
            if Some(entry.session) != connection.session() || entry.cxid != sent.xid {
                return fail(ViolationKind::ForeignZxid, format!("the reply to {sent:?} has the zxid of {entry:?}"));
            }
            if let Some(other) = self.requests[place].replace((number, at)) {
                return fail(ViolationKind::SharedZxid, format!("{sent:?} and request {other:?} share {}", reply.zxid));
            }
            self.records[number][at] = Some(place);
        }
        Ok(())
    }

    /// Finds the session of connections whose handshake got no reply: the one they requested, or a new session that no
    /// other connection has and whose writes they sent.
    fn sessions(&mut self, history: &History) {
        let mut unassigned: BTreeMap<SessionId, Vec<i32>> = BTreeMap::new();
        for (place, entry) in history.log.iter().enumerate() {
            if let LoggedTxn::CreateSession { .. } = entry.txn {
                self.openings.insert(entry.session, place);
            } else if !is_written_by_server(entry) {
                unassigned.entry(entry.session).or_default().push(entry.cxid);
            }
        }
        history
            .connections
            .iter()
            .filter_map(RecordedConnection::session)
            .for_each(|session| _ = unassigned.remove(&session));
        for connection in &history.connections {
            // Not necessarily all that it sent: an overloaded server refuses writes without a record.
            let sent = |xid: &i32| connection.requests.iter().any(|sent| sent.op.is_write() && sent.xid == *xid);
            let session = match (connection.granted, connection.requested_session) {
                (Some(_), _) => connection.session(),
                (None, SessionId::NONE) => {
                    let found = unassigned.iter().find(|(_, xids)| xids.iter().all(sent)).map(|(session, _)| *session);
                    found.inspect(|session| _ = unassigned.remove(session))
                }
                (None, requested) => Some(requested),
            };
            self.sessions.push(session);
        }
    }

    /// Matches writes without a reply to unmatched records.
    fn match_unreplied(&mut self, history: &History, streams: &[Stream]) {
        let mut unclaimed: BTreeMap<(SessionId, i32), Vec<usize>> = BTreeMap::new();
        for (place, entry) in history.log.iter().enumerate().rev() {
            if self.requests[place].is_none() && !is_written_by_server(entry) {
                unclaimed.entry((entry.session, entry.cxid)).or_default().push(place);
            }
        }
        for (number, connection) in history.connections.iter().enumerate() {
            let Some(session) = self.sessions[number].filter(|_| !connection.is_read_only) else { continue };
            for (at, sent) in connection.requests.iter().enumerate() {
                if !sent.op.is_write() || streams[number].replies[at].is_some() {
                    continue;
                }
                if let Some(place) = unclaimed.get_mut(&(session, sent.xid)).and_then(Vec::pop) {
                    self.records[number][at] = Some(place);
                    self.requests[place] = Some((number, at));
                    self.effective_without_reply += 1;
                }
            }
        }
    }

    /// Records that match no request must originate from the servers.
    fn check_unmatched(&self, history: &History) -> Checked {
        for (place, entry) in history.log.iter().enumerate() {
            if self.requests[place].is_none() && !is_written_by_server(entry) && !self.was_refused(history, entry)? {
                return Err(Violation::new(
                    ViolationKind::UnsentWrite,
                    ViolationPlace::Log(entry.zxid),
                    format!("{entry:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Whether the record belongs to a request whose reply claims that it has none.
    fn was_refused(&self, history: &History, entry: &LogEntry) -> Checked<bool> {
        for (number, connection) in history.connections.iter().enumerate() {
            if connection.session() != Some(entry.session) {
                continue;
            }
            let refused = connection.requests.iter().position(|sent| sent.xid == entry.cxid && sent.op.code() != 0);
            if let Some(at) = refused {
                let detail = format!("{:?} is {entry:?}", connection.requests[at]);
                return Err(Violation::new(
                    ViolationKind::RefusedIsLogged,
                    ViolationPlace::Request(number, at),
                    detail,
                ));
            }
        }
        Ok(false)
    }
}

/// Whether servers write such records themselves: session creation, expiry, deletion of containers and TTL nodes, and a
/// leader's refusal of a learner's client for lack of disk space, which can also happen without a record.
pub(crate) fn is_written_by_server(entry: &LogEntry) -> bool {
    match entry.txn {
        LoggedTxn::Error { err } => err == ErrorCode::ThrottledOp.code(),
        LoggedTxn::CreateSession { .. } => true,
        LoggedTxn::CloseSession { .. } => entry.cxid == 0,
        LoggedTxn::DeleteContainer { .. } => entry.session == SessionId::NONE,
        _ => false,
    }
}
