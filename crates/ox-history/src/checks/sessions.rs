//! Sessions expire neither too early (P38) nor too late (P39), end for good (P40), have one connection at a time (P42),
//! and are never replaced by another (P43).

use super::matching::{Matching, is_written_by_server};
use super::streams::reply;
use crate::history::{HandshakeReply, History, LoggedTxn, RecordedConnection, Time};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::{SessionId, Zxid};
use std::collections::BTreeMap;

/// What the log and the clients show about one session.
struct Session<'h> {
    id: SessionId,
    /// The timeout at its creation.
    timeout_ms: i32,
    opened: Option<Time>,
    /// Zxid of its end, the time of the proposal, and whether the server expired it.
    closed: Option<(Zxid, Option<Time>, bool)>,
    connections: Vec<(usize, &'h RecordedConnection)>,
}

pub(crate) fn check(history: &History, matching: &Matching) -> Checked {
    check_handshakes(history)?;
    check_moved(history, matching)?;
    check_local(history, matching)?;
    let sessions = collect(history, matching);
    let known = known(history);
    for session in sessions.values() {
        check_revival(&known, session)?;
        check_single_writer(history, matching, session)?;
        check_early(history, session)?;
        check_late(history, session)?;
    }
    for (number, connection) in history.connections.iter().enumerate() {
        if let Some(HandshakeReply::Refused { at }) = connection.granted {
            let session = sessions.get(&connection.requested_session).filter(|_| connection.has_valid_password);
            session.map_or(Ok(()), |session| check_refusal(history, number, at, session))?;
        }
    }
    Ok(())
}

/// A local session is granted only by its own server (P45), and only a committed session by others (P44).
fn check_local(history: &History, matching: &Matching) -> Checked {
    let mut homes: BTreeMap<SessionId, u32> = BTreeMap::new();
    for (number, connection) in history.connections.iter().enumerate() {
        let Some(session) = connection.session() else { continue };
        let home = *homes.entry(session).or_insert(connection.server);
        let is_global = matching.openings.get(&session).is_some_and(|place| {
            let proposed = history.log[*place].at;
            proposed.is_none_or(|proposed| grant(connection).is_some_and(|given| proposed <= given))
        });
        if home != connection.server && !is_global {
            let detail = format!("session {session} of server {home} was granted by server {}", connection.server);
            return Err(Violation::new(
                ViolationKind::LocalSessionElsewhere,
                ViolationPlace::Connection(number),
                detail,
            ));
        }
    }
    Ok(())
}

fn check_handshakes(history: &History) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        let Some(session) = connection.session() else { continue };
        if connection.requested_session != SessionId::NONE && connection.requested_session != session {
            let detail = format!("requested {}, got {session}", connection.requested_session);
            return Err(Violation::new(ViolationKind::ReplacedSession, ViolationPlace::Connection(number), detail));
        }
        if connection.requested_session != SessionId::NONE && !connection.has_valid_password {
            let detail = format!("session {session}");
            return Err(Violation::new(
                ViolationKind::WrongPasswordAccepted,
                ViolationPlace::Connection(number),
                detail,
            ));
        }
    }
    Ok(())
}

/// SessionMoved requires that another connection has requested the session.
fn check_moved(history: &History, matching: &Matching) -> Checked {
    for (place, entry) in history.log.iter().enumerate().filter(|(_, entry)| entry.txn.has_moved()) {
        let Some((number, at)) = matching.requests[place] else { continue };
        let others = history.connections.iter().enumerate().filter(|(other, _)| *other != number);
        let mut claims =
            others.filter(|(_, other)| other.requested_session == entry.session && other.has_valid_password);
        if !claims.any(|(_, other)| entry.applied.is_none_or(|applied| other.opened <= applied)) {
            let detail = format!("session {} has moved, but no other connection has requested it", entry.session);
            return Err(Violation::new(ViolationKind::FalseSessionMoved, ViolationPlace::Request(number, at), detail));
        }
    }
    Ok(())
}

fn collect<'h>(history: &'h History, matching: &Matching) -> BTreeMap<SessionId, Session<'h>> {
    let mut sessions = BTreeMap::new();
    for (id, &place) in &matching.openings {
        let entry = &history.log[place];
        let timeout_ms = if let LoggedTxn::CreateSession { timeout_ms } = entry.txn { timeout_ms } else { 0 };
        let session =
            Session { id: *id, timeout_ms, opened: entry.applied.or(entry.at), closed: None, connections: Vec::new() };
        sessions.insert(*id, session);
    }
    for entry in &history.log {
        if let (LoggedTxn::CloseSession { .. }, Some(session)) = (&entry.txn, sessions.get_mut(&entry.session)) {
            session.closed.get_or_insert((entry.zxid, entry.at, is_written_by_server(entry)));
        }
    }
    for (number, connection) in history.connections.iter().enumerate() {
        if let Some(session) = matching.sessions[number].and_then(|id| sessions.get_mut(&id)) {
            session.connections.push((number, connection));
        }
    }
    sessions
}

/// For each server, the highest zxid that any client has seen of it by each moment.
fn known(history: &History) -> BTreeMap<u32, Vec<(Time, Zxid)>> {
    let mut known: BTreeMap<u32, Vec<(Time, Zxid)>> = BTreeMap::new();
    for connection in &history.connections {
        let shown = connection.received.iter().filter_map(reply).map(|reply| (reply.at, reply.zxid));
        known.entry(connection.server).or_default().extend(shown);
    }
    for shown in known.values_mut() {
        shown.sort_unstable();
        let mut highest = Zxid(0);
        for (_, zxid) in shown {
            highest = highest.max(*zxid);
            *zxid = highest;
        }
    }
    known
}

/// A server that has shown the end of a session does not resume it.
fn check_revival(known: &BTreeMap<u32, Vec<(Time, Zxid)>>, session: &Session<'_>) -> Checked {
    let Some((closed, ..)) = session.closed else { return Ok(()) };
    for (number, connection) in &session.connections {
        if connection.requested_session != session.id || connection.session().is_none() {
            continue;
        }
        let shown = known.get(&connection.server).map_or(&[][..], Vec::as_slice);
        let before = shown.partition_point(|(at, _)| *at < connection.opened);
        if before.checked_sub(1).is_some_and(|at| closed <= shown[at].1) {
            let detail = format!("session {} ended at {closed}", session.id);
            return Err(Violation::new(
                ViolationKind::ClosedSessionRevived,
                ViolationPlace::Connection(*number),
                detail,
            ));
        }
    }
    Ok(())
}

/// No connection writes after another one has obtained the session.
fn check_single_writer(history: &History, matching: &Matching, session: &Session<'_>) -> Checked {
    let mut writes = Vec::new();
    for (number, connection) in &session.connections {
        for (at, sent) in connection.requests.iter().enumerate() {
            // Closing a closed session changes nothing.
            let changes = |place: &usize| {
                let entry = &history.log[*place];
                !entry.txn.changes_nothing() && session.closed.is_none_or(|(closed, ..)| entry.zxid <= closed)
            };
            if let Some(place) = matching.records[*number][at].filter(changes) {
                writes.push((history.log[place].zxid, *number, at, sent.at));
            }
        }
    }
    writes.sort_unstable();
    let fail = |number, at, detail: String| {
        Err(Violation::new(ViolationKind::MovedSessionWrote, ViolationPlace::Request(number, at), detail))
    };
    let mut finished: Vec<usize> = Vec::new();
    let mut current = None;
    for (zxid, number, at, sent) in writes {
        if current != Some(number) {
            if finished.contains(&number) {
                return fail(number, at, format!("{zxid} was written after another connection had written"));
            }
            finished.extend(current.replace(number));
        }
        // The order of two handshakes is certain only if one was sent after the other's reply.
        let Some(own) = grant(&history.connections[number]) else { continue };
        let later = session
            .connections
            .iter()
            .find(|(_, connection)| own < connection.opened && grant(connection).is_some_and(|taken| taken < sent));
        if let Some((other, _)) = later {
            return fail(number, at, format!("{zxid} was sent after connection {other} had got the session"));
        }
    }
    Ok(())
}

fn grant(connection: &RecordedConnection) -> Option<Time> {
    match connection.granted {
        Some(HandshakeReply::Session { at, .. }) => Some(at),
        _ => None,
    }
}

/// The last moment at which a message of the client is known to have arrived before `closed`, with the shortest timeout
/// that may have applied then. Only a reply proves an arrival.
fn last_proof(history: &History, session: &Session<'_>, closed: Time) -> Option<(Time, i32)> {
    let mut proof: Option<(Time, i32, &RecordedConnection)> = None;
    let granted = session.connections.iter().filter_map(|(_, connection)| match connection.granted {
        Some(HandshakeReply::Session { at, timeout_ms, .. }) => Some((at, timeout_ms, connection)),
        _ => None,
    });
    for (at, timeout_ms, connection) in granted.clone().filter(|(at, ..)| *at <= closed) {
        let replies = connection.received.iter().filter_map(reply).take_while(|reply| reply.at <= closed).count();
        let sent = connection.requests[..replies].last().map_or(connection.opened, |sent| sent.at);
        // A server start between the handshake and its reply: either the start came first and reset the session to its
        // stored timeout, or it came later and the handshake counts from then on.
        let start = history.starts.iter().copied().filter(|start| *start <= at).max();
        let arrived = match start {
            Some(start) if sent < start => (start, timeout_ms.min(session.timeout_ms), *connection),
            _ => (sent, timeout_ms, *connection),
        };
        if proof.is_none_or(|(at, ..)| at < arrived.0) {
            proof = Some(arrived);
        }
    }
    // The handshakes of other connections may have come later and set a different timeout, unless their reply had
    // arrived before this handshake was sent.
    let (last, timeout_ms, connection) = proof?;
    let later = granted
        .filter(|(at, _, other)| connection.opened <= *at && other.opened <= closed)
        .map(|(_, timeout_ms, _)| timeout_ms);
    Some((last, later.fold(timeout_ms, i32::min)))
}

/// Timeouts requested by handshakes whose reply was lost or had not arrived by then: the last of them may already
/// apply.
fn unknown_timeouts<'h>(history: &'h History, session: &Session<'_>, until: Time) -> impl Iterator<Item = i32> + 'h {
    let id = session.id;
    let named = history
        .connections
        .iter()
        .filter(move |connection| connection.requested_session == id && connection.has_valid_password);
    let unknown = named.filter(move |connection| {
        let is_pending = match connection.granted {
            None => true,
            Some(HandshakeReply::Session { at, .. }) => until < at,
            Some(HandshakeReply::Refused { .. }) => false,
        };
        is_pending && connection.opened <= until
    });
    unknown.map(|connection| connection.requested_timeout_ms)
}

fn check_early(history: &History, session: &Session<'_>) -> Checked {
    let Some((zxid, Some(at), true)) = session.closed else { return Ok(()) };
    let shortest = |timeout_ms: i32| i64::from(unknown_timeouts(history, session, at).fold(timeout_ms, i32::min));
    let fail = |since: Time, timeout_ms: i32| {
        let detail = format!("session {} was closed at {at:?}, {timeout_ms} ms from {since:?}", session.id);
        Err(Violation::new(ViolationKind::EarlyExpiry, ViolationPlace::Log(zxid), detail))
    };
    let started = history.starts.iter().copied().filter(|start| *start <= at).max();
    let proof = last_proof(history, session, at);
    // A starting server resets every session to its stored timeout.
    if let Some(start) = started
        && proof.is_none_or(|(proof, _)| proof < start)
        && session.opened.is_none_or(|opened| opened < start)
        && at < start.plus_ms(shortest(session.timeout_ms))
    {
        return fail(start, session.timeout_ms);
    }
    match proof {
        Some((proof, timeout_ms))
            if started.is_none_or(|start| start <= proof)
                && at < proof.plus_ms(shortest(timeout_ms) - history.settings.touch_loss_max_ms) =>
        {
            fail(proof, timeout_ms)
        }
        _ => Ok(()),
    }
}

fn check_late(history: &History, session: &Session<'_>) -> Checked {
    let ended = match session.closed {
        Some((_, None, _)) | Some((_, _, false)) => return Ok(()),
        Some((_, Some(at), true)) => at,
        None => history.ended,
    };
    if history.starts.is_empty() {
        return Ok(());
    }
    let mut last = session.opened.unwrap_or(Time(0));
    let mut timeout_ms = session.timeout_ms;
    for (_, connection) in &session.connections {
        if connection.closed.is_none() {
            return Ok(()); // alive until the end of the recording
        }
        last = last.max(connection.opened).max(connection.closed.unwrap_or_default());
        last = connection.requests.last().map_or(last, |sent| last.max(sent.at));
        if let Some(HandshakeReply::Session { timeout_ms: granted, .. }) = connection.granted {
            timeout_ms = timeout_ms.max(granted);
        }
    }
    // A handshake whose reply was lost may also have touched the session.
    let named = history.connections.iter().filter(|connection| connection.requested_session == session.id);
    last = named.map(|connection| connection.opened.max(connection.closed.unwrap_or(ended))).fold(last, Time::max);
    // A session with requests in flight is not silent.
    let wrote = history.log.iter().filter(|entry| entry.session == session.id && !is_written_by_server(entry));
    last = wrote.filter_map(|entry| entry.applied).fold(last, Time::max);
    // Nor is one whose server could not start it because of its disk.
    let hangs = history.hangs.iter().filter(|(server, _)| *server == session.id.server()).map(|(_, until)| until);
    let resumed = history.starts.iter().chain(&history.pauses).chain(hangs).copied();
    last = resumed.filter(|from| *from <= ended).fold(last, Time::max);
    timeout_ms = unknown_timeouts(history, session, ended).fold(timeout_ms, i32::max);
    let limit_ms = i64::from(timeout_ms) + 2 * history.settings.tick_ms + history.settings.delay_max_ms;
    if last.plus_ms(limit_ms) < ended {
        let place = session.closed.map_or(ViolationPlace::Everywhere, |(zxid, ..)| ViolationPlace::Log(zxid));
        let detail = format!("session {} was last touched at {last:?} and lived until {ended:?}", session.id);
        return Err(Violation::new(ViolationKind::LateExpiry, place, detail));
    }
    Ok(())
}

/// A session is refused as expired only if its end is in the log; by a standalone server, also if its end was in flight
/// when the server stopped. Members of an ensemble refuse it only if its end is committed.
fn check_refusal(history: &History, number: usize, at: Time, session: &Session<'_>) -> Checked {
    let closed = session.closed.is_some_and(|(_, proposed, _)| proposed.is_none_or(|proposed| proposed <= at));
    let restarted = !history.settings.is_ensemble && history.starts.iter().any(|start| at <= *start);
    // Another server knows the session only if it is global.
    let handshake_sent = history.connections[number].opened;
    let was_local = history.settings.local_sessions && session.opened.is_none_or(|opened| handshake_sent <= opened);
    if closed || restarted || was_local {
        return Ok(());
    }
    let detail = format!("session {} was refused at {at:?}; its end: {:?}", session.id, session.closed);
    Err(Violation::new(ViolationKind::LiveSessionRefused, ViolationPlace::Connection(number), detail))
}
