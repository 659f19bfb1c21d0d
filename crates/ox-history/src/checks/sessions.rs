//! Sessions: not ended too early (P38) nor too late (P39), ended for good (P40), on one connection at a time (P42),
//! and never swapped for another (P43).

use super::matching::{Matching, is_servers_own};
use super::streams::reply;
use crate::history::{Connection, Granted, History, LoggedTxn, Time};
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::{SessionId, Zxid};
use std::collections::BTreeMap;

/// What the log and the clients say about one session.
struct Session<'h> {
    id: SessionId,
    /// Timeout it was created with.
    timeout_ms: i32,
    opened: Option<Time>,
    /// Zxid of its end, when that was proposed, and whether the server decided it.
    closed: Option<(Zxid, Option<Time>, bool)>,
    connections: Vec<(usize, &'h Connection)>,
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
        if let Some(Granted::Refused { at }) = connection.granted {
            let session = sessions.get(&connection.asked).filter(|_| connection.is_proven);
            session.map_or(Ok(()), |session| check_refusal(history, number, at, session))?;
        }
    }
    Ok(())
}

/// A session that only its server knows is given by no other (P45), nor one whose beginning is only proposed (P44).
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
            let detail = format!("session {session} of server {home} was given by server {}", connection.server);
            return Err(Violation::new(Reason::LocalSessionElsewhere, Place::Connection(number), detail));
        }
    }
    Ok(())
}

fn check_handshakes(history: &History) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        let Some(session) = connection.session() else { continue };
        if connection.asked != SessionId::NONE && connection.asked != session {
            let detail = format!("asked for {}, got {session}", connection.asked);
            return Err(Violation::new(Reason::ReplacedSession, Place::Connection(number), detail));
        }
        if connection.asked != SessionId::NONE && !connection.is_proven {
            let detail = format!("session {session}");
            return Err(Violation::new(Reason::StolenSession, Place::Connection(number), detail));
        }
    }
    Ok(())
}

/// A session is lost only to somebody who has named it.
fn check_moved(history: &History, matching: &Matching) -> Checked {
    for (place, entry) in history.log.iter().enumerate().filter(|(_, entry)| entry.txn.has_moved()) {
        let Some((number, at)) = matching.requests[place] else { continue };
        let others = history.connections.iter().enumerate().filter(|(other, _)| *other != number);
        let mut claims = others.filter(|(_, other)| other.asked == entry.session && other.is_proven);
        if !claims.any(|(_, other)| entry.applied.is_none_or(|applied| other.opened <= applied)) {
            let detail = format!("session {} has moved, but nobody else has asked for it", entry.session);
            return Err(Violation::new(Reason::NotMoved, Place::Request(number, at), detail));
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
            session.closed.get_or_insert((entry.zxid, entry.at, is_servers_own(entry)));
        }
    }
    for (number, connection) in history.connections.iter().enumerate() {
        if let Some(session) = matching.sessions[number].and_then(|id| sessions.get_mut(&id)) {
            session.connections.push((number, connection));
        }
    }
    sessions
}

/// For each server what anybody knew of it by when: moments and the highest zxid shown until then.
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

/// After somebody has seen its end on a server, that server resumes it for nobody.
fn check_revival(known: &BTreeMap<u32, Vec<(Time, Zxid)>>, session: &Session<'_>) -> Checked {
    let Some((closed, ..)) = session.closed else { return Ok(()) };
    for (number, connection) in &session.connections {
        if connection.asked != session.id || connection.session().is_none() {
            continue;
        }
        let shown = known.get(&connection.server).map_or(&[][..], Vec::as_slice);
        let before = shown.partition_point(|(at, _)| *at < connection.opened);
        if before.checked_sub(1).is_some_and(|at| closed <= shown[at].1) {
            let detail = format!("session {} ended at {closed}", session.id);
            return Err(Violation::new(Reason::ClosedSessionRevived, Place::Connection(*number), detail));
        }
    }
    Ok(())
}

/// No connection writes after another one has got the session.
fn check_single_writer(history: &History, matching: &Matching, session: &Session<'_>) -> Checked {
    let mut writes = Vec::new();
    for (number, connection) in &session.connections {
        for (at, sent) in connection.requests.iter().enumerate() {
            // To end what has ended changes nothing.
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
    let fail =
        |number, at, detail: String| Err(Violation::new(Reason::MovedSessionWrote, Place::Request(number, at), detail));
    let mut finished: Vec<usize> = Vec::new();
    let mut current = None;
    for (zxid, number, at, sent) in writes {
        if current != Some(number) {
            if finished.contains(&number) {
                return fail(number, at, format!("{zxid} was written after another connection had written"));
            }
            finished.extend(current.replace(number));
        }
        // Whose handshake was answered in which order is certain only if one was sent after the other's answer.
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

fn grant(connection: &Connection) -> Option<Time> {
    match connection.granted {
        Some(Granted::Session { at, .. }) => Some(at),
        _ => None,
    }
}

/// The last moment at which the client is known to have said something that arrived before `closed`, with the
/// shortest timeout that may have been in force then. Only an answer proves an arrival.
fn last_proof(history: &History, session: &Session<'_>, closed: Time) -> Option<(Time, i32)> {
    let mut proof: Option<(Time, i32)> = None;
    let granted = session.connections.iter().filter_map(|(_, connection)| match connection.granted {
        Some(Granted::Session { at, timeout_ms, .. }) => Some((at, timeout_ms, connection)),
        _ => None,
    });
    for (at, timeout_ms, connection) in granted.clone().filter(|(at, ..)| *at <= closed) {
        let answers = connection.received.iter().filter_map(reply).take_while(|reply| reply.at <= closed).count();
        let sent = connection.requests[..answers].last().map_or(connection.opened, |sent| sent.at);
        // A start between the handshake and its answer: either it came before, and the session was given its stored
        // time anew, or it came after, and the handshake counts from then on.
        let start = history.starts.iter().copied().filter(|start| *start <= at).max();
        let arrived = match start {
            Some(start) if sent < start => (start, timeout_ms.min(session.timeout_ms)),
            _ => (sent, timeout_ms),
        };
        if proof.is_none_or(|(at, _)| at < arrived.0) {
            proof = Some(arrived);
        }
    }
    // Whoever got the session later, or at the same time, has said for how long.
    let (last, timeout_ms) = proof?;
    let later = granted
        .filter(|(at, _, connection)| last <= *at && connection.opened <= closed)
        .map(|(_, timeout_ms, _)| timeout_ms);
    Some((last, later.fold(timeout_ms, i32::min)))
}

/// The timeouts that were asked for by handshakes whose reply was lost, or had not arrived by then: the last of them may
/// count already.
fn unknown_timeouts<'h>(history: &'h History, session: &Session<'_>, until: Time) -> impl Iterator<Item = i32> + 'h {
    let id = session.id;
    let named = history.connections.iter().filter(move |connection| connection.asked == id && connection.is_proven);
    let unknown = named.filter(move |connection| {
        let is_pending = match connection.granted {
            None => true,
            Some(Granted::Session { at, .. }) => until < at,
            Some(Granted::Refused { .. }) => false,
        };
        is_pending && connection.opened <= until
    });
    unknown.map(|connection| connection.asked_timeout_ms)
}

fn check_early(history: &History, session: &Session<'_>) -> Checked {
    let Some((zxid, Some(at), true)) = session.closed else { return Ok(()) };
    let shortest = |timeout_ms: i32| i64::from(unknown_timeouts(history, session, at).fold(timeout_ms, i32::min));
    let fail = |since: Time, timeout_ms: i32| {
        let detail = format!("session {} was closed at {at:?}, {timeout_ms} ms from {since:?}", session.id);
        Err(Violation::new(Reason::EarlyExpiry, Place::Log(zxid), detail))
    };
    let started = history.starts.iter().copied().filter(|start| *start <= at).max();
    let proof = last_proof(history, session, at);
    // A server that starts gives every session its stored time anew.
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
                && at < proof.plus_ms(shortest(timeout_ms) - history.settings.unheard_max_ms) =>
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
            return Ok(()); // alive as long as anybody looked
        }
        last = last.max(connection.opened).max(connection.closed.unwrap_or_default());
        last = connection.requests.last().map_or(last, |sent| last.max(sent.at));
        if let Some(Granted::Session { timeout_ms: granted, .. }) = connection.granted {
            timeout_ms = timeout_ms.max(granted);
        }
    }
    // A handshake whose answer was lost may have touched the session too.
    let named = history.connections.iter().filter(|connection| connection.asked == session.id);
    last = named.map(|connection| connection.opened.max(connection.closed.unwrap_or(ended))).fold(last, Time::max);
    // As long as something of it was on its way, it was not silent.
    let wrote = history.log.iter().filter(|entry| entry.session == session.id && !is_servers_own(entry));
    last = wrote.filter_map(|entry| entry.applied).fold(last, Time::max);
    // Nor as long as the disk of its server kept it from beginning.
    let hangs = history.hangs.iter().filter(|(server, _)| *server == session.id.server()).map(|(_, until)| until);
    let anew = history.starts.iter().chain(&history.pauses).chain(hangs).copied();
    last = anew.filter(|from| *from <= ended).fold(last, Time::max);
    timeout_ms = unknown_timeouts(history, session, ended).fold(timeout_ms, i32::max);
    let patience = i64::from(timeout_ms) + 2 * history.settings.tick_ms + history.settings.delay_max_ms;
    if last.plus_ms(patience) < ended {
        let place = session.closed.map_or(Place::Everywhere, |(zxid, ..)| Place::Log(zxid));
        let detail = format!("session {} was last heard of at {last:?}, and lived until {ended:?}", session.id);
        return Err(Violation::new(Reason::LateExpiry, place, detail));
    }
    Ok(())
}

/// A session is reported as gone only when its end is in the log; by a single server, also when it was on its way
/// there when the server stopped. Servers that have to agree say it of an end that they do agree on.
fn check_refusal(history: &History, number: usize, at: Time, session: &Session<'_>) -> Checked {
    let closed = session.closed.is_some_and(|(_, proposed, _)| proposed.is_none_or(|proposed| proposed <= at));
    let restarted = !history.settings.is_ensemble && history.starts.iter().any(|start| at <= *start);
    // Another server knows it only when it is global.
    let asked = history.connections[number].opened;
    let was_local = history.settings.local_sessions && session.opened.is_none_or(|opened| asked <= opened);
    if closed || restarted || was_local {
        return Ok(());
    }
    let detail = format!("session {} was refused at {at:?}; its end: {:?}", session.id, session.closed);
    Err(Violation::new(Reason::LiveSessionRefused, Place::Connection(number), detail))
}
