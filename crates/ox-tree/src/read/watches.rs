//! addWatch, checkWatches, removeWatches, and the re-arming of watches after a reconnect.

use super::{Asker, TOO_MANY_WATCHES, readable};
use crate::State;
use crate::node::Node;
use crate::path;
use crate::watch::{Mode, Table, WatchTable};
use ox_proto::event::{EventType, put_event};
use ox_proto::request::PathKind;
use ox_proto::{DecodeError, ErrorCode, Jute, OpCode, Reader, Zxid};
use std::borrow::Cow;

pub(super) fn add(state: &State, asker: Asker<'_>, request: &PathKind<'_>, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    let mode = match request.kind {
        0 => Mode::Persistent,
        1 => Mode::Recursive,
        _ => return Err(ErrorCode::MarshallingError),
    };
    add_persistent(&mut state.watches().lock(), asker, key(request), mode)?;
    0_i32.put(out);
    Ok(())
}

/// Stands for a null path: to Apache a key like any other, which no node ever has.
const NULL_KEY: &str = "\0";

/// The text a watch is kept under.
fn key<'a>(request: &'a PathKind<'_>) -> &'a str {
    request.path.as_deref().unwrap_or(NULL_KEY)
}

fn add_persistent(watches: &mut WatchTable, asker: Asker<'_>, path: &str, mode: Mode) -> Result<(), ErrorCode> {
    let tables: &[Table] = if mode == Mode::Persistent { &[Table::Data, Table::Child] } else { &[Table::Data] };
    if watches.add(asker.conn, path, tables, mode) { Ok(()) } else { Err(TOO_MANY_WATCHES) }
}

/// A watcher type: what makes checkWatches succeed, and what removeWatches takes away.
struct Type {
    checked: &'static [(Table, &'static [Mode])],
    removed: &'static [(Table, &'static [Mode])],
}

const ALL: &[Mode] = &[Mode::Standard, Mode::Persistent, Mode::Recursive];

fn watcher_type(kind: i32) -> Result<Type, ErrorCode> {
    let same = |list| Type { checked: list, removed: list };
    Ok(match kind {
        1 => same(&[(Table::Child, &[Mode::Standard])]),
        2 => same(&[(Table::Data, &[Mode::Standard])]),
        3 => same(&[(Table::Data, ALL), (Table::Child, ALL)]),
        4 => Type {
            checked: &[(Table::Data, &[Mode::Persistent])],
            removed: &[(Table::Data, &[Mode::Persistent]), (Table::Child, &[Mode::Persistent])],
        },
        5 => same(&[(Table::Data, &[Mode::Recursive])]),
        _ => return Err(ErrorCode::MarshallingError),
    })
}

pub(super) fn check(state: &State, asker: Asker<'_>, request: &PathKind<'_>) -> Result<(), ErrorCode> {
    let kind = watcher_type(request.kind)?;
    let mut watches = state.watches().lock();
    let found = kind.checked.iter().any(|(table, modes)| watches.has(asker.conn, key(request), *table, modes));
    if found { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

pub(super) fn remove(state: &State, asker: Asker<'_>, request: &PathKind<'_>) -> Result<(), ErrorCode> {
    let kind = watcher_type(request.kind)?;
    let mut watches = state.watches().lock();
    let mut found = false;
    for (table, modes) in kind.removed {
        found |= watches.remove(asker.conn, key(request), *table, modes);
    }
    if found { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

/// The lists of setWatches, in wire order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rearm {
    Data,
    Exists,
    Child,
    Persistent,
    Recursive,
}

/// Re-arms what a client watched before it lost its connection, and tells it what it has missed. Each list takes
/// effect before the next is decoded.
pub(super) fn rearm(
    state: &State,
    asker: Asker<'_>,
    op: OpCode,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let (relative, lists) = lists(op, body).map_err(|_| ErrorCode::MarshallingError)?;
    let mut watches = state.watches().lock();
    for (kind, list) in lists {
        for path in list.ok_or(ErrorCode::MarshallingError)? {
            // Compat: Apache stumbles over a null where it looks for the node; elsewhere it is a key like any other.
            let path = match path {
                Some(path) => path,
                None if matches!(kind, Rearm::Persistent | Rearm::Recursive) => NULL_KEY.into(),
                None => return Err(ErrorCode::MarshallingError),
            };
            let path = &*path;
            match missed(state, asker, kind, path, relative) {
                Some(event) => put_event(out, Zxid(-1), event, path),
                None => arm(&mut watches, asker, kind, path)?,
            }
        }
    }
    Ok(())
}

/// The paths of one list, or null.
type Paths<'a> = Option<Vec<Option<Cow<'a, str>>>>;

/// The zxid since which changes count, and the lists. They are decoded together: a body that ends early has no effect, a null
/// list stops where it is.
fn lists(op: OpCode, body: &[u8]) -> Result<(Zxid, Vec<(Rearm, Paths<'_>)>), DecodeError> {
    let kinds = [Rearm::Data, Rearm::Exists, Rearm::Child, Rearm::Persistent, Rearm::Recursive];
    let kinds = if op == OpCode::SetWatches { &kinds[..3] } else { &kinds };
    let mut from = Reader::new(body);
    let relative = from.get()?;
    let lists = kinds.iter().map(|kind| Ok((*kind, from.get()?))).collect::<Result<_, DecodeError>>()?;
    Ok((relative, lists))
}

/// Bytes of the events that [`rearm`] would put, at most.
pub(super) fn event_bytes(state: &State, op: OpCode, body: &[u8]) -> usize {
    /// Of an event beside its path.
    const EVENT_BYTES: usize = 32;
    let Ok((relative, lists)) = lists(op, body) else { return 0 };
    let paths = lists.iter().flat_map(|(kind, list)| list.iter().flatten().flatten().map(|path| (*kind, path)));
    let missed = paths.filter(|(kind, path)| {
        let node = state.tree.find(path::internal(path)).map(|id| state.tree.get(id));
        change(*kind, node, relative).is_some()
    });
    missed.map(|(_, path)| EVENT_BYTES + path.len()).sum()
}

/// What happened to a watched path since `relative`, as far as the client may know.
fn missed(state: &State, asker: Asker<'_>, kind: Rearm, client_path: &str, relative: Zxid) -> Option<EventType> {
    let found = state.tree.find(path::internal(client_path));
    // K167: no event about a node that the client could not read itself. Apache sends it.
    if found.is_some() && readable(state, asker, Some(client_path)).is_err() {
        return None;
    }
    change(kind, found.map(|id| state.tree.get(id)), relative)
}

/// What happened to a node since `relative` that a watch of this kind would have told.
fn change(kind: Rearm, node: Option<&Node>, relative: Zxid) -> Option<EventType> {
    match (kind, node) {
        (Rearm::Data | Rearm::Child, None) => Some(EventType::NodeDeleted),
        (Rearm::Data, Some(node)) => (relative < node.mzxid).then_some(EventType::NodeDataChanged),
        (Rearm::Exists, Some(_)) => Some(EventType::NodeCreated),
        (Rearm::Child, Some(node)) => (relative < node.pzxid).then_some(EventType::NodeChildrenChanged),
        (Rearm::Exists, None) | (Rearm::Persistent | Rearm::Recursive, _) => None,
    }
}

fn arm(watches: &mut WatchTable, asker: Asker<'_>, kind: Rearm, path: &str) -> Result<(), ErrorCode> {
    let is_armed = match kind {
        Rearm::Data | Rearm::Exists => watches.add(asker.conn, path, &[Table::Data], Mode::Standard),
        Rearm::Child => watches.add(asker.conn, path, &[Table::Child], Mode::Standard),
        Rearm::Persistent => return add_persistent(watches, asker, path, Mode::Persistent),
        Rearm::Recursive => return add_persistent(watches, asker, path, Mode::Recursive),
    };
    if is_armed { Ok(()) } else { Err(TOO_MANY_WATCHES) }
}
