//! A session never sees an older state than before, over all its connections (P25, P26), no reply is ahead of the
//! history (P27), and a sync covers all earlier writes (P29).

use super::matching::Matching;
use super::streams::{Stream, reply};
use crate::history::{HandshakeReply, History, Time};
use crate::op::Op;
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::{SessionId, Zxid};
use std::collections::BTreeMap;

/// A state that a client has seen.
#[derive(Clone, Copy)]
struct Seen {
    conn: usize,
    at: Time,
    zxid: Zxid,
    is_write: bool,
}

pub(crate) fn check(history: &History, streams: &[Stream], matching: &Matching) -> Checked {
    let last = history.log.last().map_or(Zxid::ZERO, |entry| entry.zxid);
    check_bounds(history, last)?;
    let mut sessions: BTreeMap<SessionId, Vec<Seen>> = BTreeMap::new();
    let mut everybody = Vec::new();
    for (number, connection) in history.connections.iter().enumerate() {
        let Some(session) = connection.session() else { continue };
        for (at, _) in connection.requests.iter().enumerate() {
            let Some(reply) = streams[number].reply_to(connection, at).filter(|reply| Zxid(0) < reply.zxid) else {
                continue;
            };
            let is_write = matching.records[number][at].is_some();
            let seen = Seen { conn: number, at: reply.at, zxid: reply.zxid, is_write };
            sessions.entry(session).or_default().push(seen);
            if is_write {
                everybody.push(seen);
            }
        }
    }
    let everybody = Highest::new(everybody);
    for (number, connection) in history.connections.iter().enumerate() {
        let Some(seen) = connection.session().and_then(|session| sessions.get(&session)) else { continue };
        // This server does not know what the session sees elsewhere after its handshake here.
        let known = seen.iter().filter(|seen| seen.conn == number || seen.at < connection.opened);
        let highest = Highest::new(known.copied().collect());
        for (at, sent) in connection.requests.iter().enumerate() {
            let Some(reply) = streams[number].reply_to(connection, at).filter(|reply| Zxid(0) < reply.zxid) else {
                continue;
            };
            let place = ViolationPlace::Request(number, at);
            if let Some(before) = highest.before(sent.at).filter(|before| reply.zxid < before.zxid) {
                let reason =
                    if before.is_write { ViolationKind::StaleOwnWrite } else { ViolationKind::OlderSessionView };
                let detail = format!("{sent:?} shows {}, the session had seen {}", reply.zxid, before.zxid);
                return Err(Violation::new(reason, place, detail));
            }
            let missed = everybody.before(sent.at).filter(|before| reply.zxid < before.zxid);
            // A failed sync guarantees nothing.
            if let (Op::Sync { .. }, 0, Some(missed)) = (&sent.op, reply.err, missed) {
                let detail = format!("sync shows {}, the reply to {} arrived before", reply.zxid, missed.zxid);
                return Err(Violation::new(ViolationKind::SyncMissedWrite, place, detail));
            }
        }
    }
    Ok(())
}

/// No reply is ahead of the final log, and no session was accepted that had seen more than the server had.
fn check_bounds(history: &History, last: Zxid) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        let first = connection.received.iter().filter_map(reply).find(|reply| Zxid(0) < reply.zxid);
        let shown = first.map_or(last, |reply| reply.zxid);
        let is_granted = matches!(connection.granted, Some(HandshakeReply::Session { .. }));
        if is_granted && (last < connection.last_zxid_seen || shown < connection.last_zxid_seen) {
            let detail = format!("the client had seen {}, the server shows {shown}", connection.last_zxid_seen);
            return Err(Violation::new(ViolationKind::GrantedAhead, ViolationPlace::Connection(number), detail));
        }
        for (at, frame) in connection.received.iter().enumerate() {
            if reply(frame).is_some_and(|reply| last < reply.zxid) {
                let detail = format!("{frame:?}, but the log ends at {last}");
                return Err(Violation::new(
                    ViolationKind::ReplyAheadOfHistory,
                    ViolationPlace::Frame(number, at),
                    detail,
                ));
            }
        }
    }
    Ok(())
}

/// The highest zxid seen by each moment.
struct Highest(Vec<Seen>);

impl Highest {
    fn new(mut seen: Vec<Seen>) -> Self {
        seen.sort_by_key(|seen| seen.at);
        for at in 1..seen.len() {
            if seen[at].zxid < seen[at - 1].zxid {
                seen[at] = Seen { at: seen[at].at, ..seen[at - 1] };
            }
        }
        Self(seen)
    }

    fn before(&self, at: Time) -> Option<Seen> {
        let upto = self.0.partition_point(|seen| seen.at < at);
        upto.checked_sub(1).map(|at| self.0[at])
    }
}
