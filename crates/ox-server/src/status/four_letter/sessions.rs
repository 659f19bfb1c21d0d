//! The command `dump`: sessions, ephemeral nodes and connections.
//!
//! The replica thread returns sessions in batches; ephemeral nodes are read from the state, one batch per read lock.
//! Expiry times are shown as the buckets in which sessions expire.

use super::{Listing, ListingStatus, NOT_SERVING};
use crate::limits::LISTING_BATCH_MAX;
use crate::shared::Shared;
use crate::status::java_text;
use crate::status::server_mode::{ServerMode, ask_replica};
use ox_proto::SessionId;
use ox_replica::{Replica, SessionInfo};
use ox_tree::EphemeralCursor;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The part of the listing that comes next.
enum Part {
    Sessions,
    Ephemerals(Option<EphemeralCursor>),
    Connections,
}

pub(super) fn dump(mode: ServerMode) -> Listing {
    let mut part = Part::Sessions;
    Box::new(move |shared, text| {
        match part {
            Part::Sessions => {
                if put_sessions(shared, mode, text).is_none() {
                    text.push_str(NOT_SERVING);
                    return ListingStatus::Last;
                }
                let owners = shared.state.read().ephemeral_owner_count();
                write!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({owners}):\n")
                    .expect("a string takes every write");
                part = Part::Ephemerals(None);
            }
            Part::Ephemerals(after) => {
                let next = put_ephemerals(shared, after, text);
                part = next.map_or(Part::Connections, |cursor| Part::Ephemerals(Some(cursor)));
            }
            Part::Connections => {
                text.push_str("Connections dump:\n");
                put_connections(shared, text);
                return ListingStatus::Last;
            }
        }
        ListingStatus::More
    })
}

/// Appends all sessions; `None` when the replica does not reply.
fn put_sessions(shared: &Shared, mode: ServerMode, text: &mut String) -> Option<()> {
    let has_local = shared.config.member.as_ref().is_some_and(|member| member.local_sessions);
    let ends_them = matches!(mode, ServerMode::Standalone | ServerMode::Leader(_));
    let list_local: ListSessions = |replica, after, max| replica.status().local_sessions_after(after, max);
    let local = if has_local { Some(sessions(shared, list_local)?) } else { None };
    let global = if ends_them { Some(global_sessions(shared)?) } else { None };
    text.push_str("SessionTracker dump:\n");
    let items =
        |sessions: Vec<SessionInfo>| sessions.into_iter().map(|info| (info.expires_ms, format!("\t{}\n", info.id)));
    if let Some(local) = local {
        put_buckets(shared, "Local Session Sets", items(local), text);
    }
    match global {
        Some(global) if has_local => put_buckets(shared, "Global Session Sets", items(global), text),
        Some(global) => put_buckets(shared, "Session Sets", items(global), text),
        None => put_global_sessions(shared, text),
    }
    Some(())
}

/// A learner knows all global sessions, but not when they expire.
fn put_global_sessions(shared: &Shared, text: &mut String) {
    let sessions: Vec<(SessionId, i32)> = shared.state.read().sessions().collect();
    writeln!(text, "Global Sessions({}):", sessions.len()).expect("a string takes every write");
    for (session, timeout_ms) in sessions {
        writeln!(text, "{session}\t{timeout_ms}ms").expect("a string takes every write");
    }
}

/// Lists at most a number of sessions after a given one.
type ListSessions = fn(&Replica, Option<SessionId>, usize) -> Vec<SessionInfo>;

/// All global sessions of a server that expires them; `None` when the replica does not reply.
pub(crate) fn global_sessions(shared: &Shared) -> Option<Vec<SessionInfo>> {
    sessions(shared, |replica, after, max| replica.status().sessions_after(after, max))
}

/// All sessions of a list, `None` when the replica does not reply.
fn sessions(shared: &Shared, list: ListSessions) -> Option<Vec<SessionInfo>> {
    let (mut all, mut after): (Vec<SessionInfo>, Option<SessionId>) = (Vec::new(), None);
    loop {
        let some = ask_replica(shared, move |replica| list(replica, after, LISTING_BATCH_MAX))?;
        after = some.last().map(|info| info.id);
        all.extend(some);
        if after.is_none() {
            return Some(all);
        }
    }
}

/// Appends a batch of nodes, each session id before its first node; returns the last one, `None` at the end.
fn put_ephemerals(shared: &Shared, after: Option<EphemeralCursor>, text: &mut String) -> Option<EphemeralCursor> {
    let nodes = shared.state.read().ephemerals_after(after, LISTING_BATCH_MAX);
    let mut named = after.map(|cursor| cursor.session);
    for (cursor, path) in &nodes {
        if named.replace(cursor.session) != Some(cursor.session) {
            writeln!(text, "{}:", cursor.session).expect("a string takes every write");
        }
        writeln!(text, "\t{path}").expect("a string takes every write");
    }
    nodes.last().map(|(cursor, _)| *cursor)
}

fn put_connections(shared: &Shared, text: &mut String) {
    let step_ms = i64::from(shared.config.sessionless_timeout_ms.max(1));
    let (mut lines, mut after) = (Vec::new(), None);
    loop {
        let conns = shared.connections.list_after(after, LISTING_BATCH_MAX);
        let Some((last, _)) = conns.last() else { break };
        after = Some(*last);
        lines.extend(conns.iter().map(|(_, conn)| {
            let line = format!("\tip: {} sessionId: {}\n", java_text::address(conn.address), conn.session());
            (conn.closes_at_ms(step_ms), line)
        }));
    }
    put_buckets(shared, "Connections Sets", lines.into_iter(), text);
}

/// Appends lines in buckets, each with its expiry time.
fn put_buckets(shared: &Shared, title: &str, lines: impl ExactSizeIterator<Item = (i64, String)>, text: &mut String) {
    let total = lines.len();
    let mut buckets: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for (due_ms, line) in lines {
        buckets.entry(due_ms).or_default().push(line);
    }
    let now = shared.clock.now();
    writeln!(text, "{title} ({})/({total}):", buckets.len()).expect("a string takes every write");
    for (due_ms, lines) in buckets {
        let date = java_text::date(now.wall_ms + due_ms - now.mono_ms);
        writeln!(text, "{} expire at {date}:", lines.len()).expect("a string takes every write");
        lines.iter().for_each(|line| text.push_str(line));
    }
}
