//! addWatch, checkWatches, removeWatches, and the re-arming of watches after a reconnect.

use super::{Requester, TOO_MANY_WATCHES, readable};
use crate::State;
use crate::node::Node;
use crate::path;
use crate::watch::{WatchKind, WatchMode, WatchTable};
use ox_proto::event::{EventType, put_event};
use ox_proto::request::PathKind;
use ox_proto::{DecodeError, ErrorCode, Jute, OpCode, Reader, Zxid};
use std::borrow::Cow;

pub(super) fn add(
    state: &State,
    requester: Requester<'_>,
    request: &PathKind<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let mode = match request.kind {
        0 => WatchMode::Persistent,
        1 => WatchMode::Recursive,
        _ => return Err(ErrorCode::MarshallingError),
    };
    add_persistent(&mut state.watches().lock(), requester, key(request), mode)?;
    0_i32.put(out);
    Ok(())
}

/// The key of a null path. Apache accepts it as a key; no node has it.
const NULL_KEY: &str = "\0";

/// The key under which a watch is registered.
fn key<'a>(request: &'a PathKind<'_>) -> &'a str {
    request.path.as_deref().unwrap_or(NULL_KEY)
}

fn add_persistent(
    watches: &mut WatchTable,
    requester: Requester<'_>,
    path: &str,
    mode: WatchMode,
) -> Result<(), ErrorCode> {
    let watch_kinds: &[WatchKind] =
        if mode == WatchMode::Persistent { &[WatchKind::Data, WatchKind::Child] } else { &[WatchKind::Data] };
    if watches.add(requester.watcher, path, watch_kinds, mode) { Ok(()) } else { Err(TOO_MANY_WATCHES) }
}

/// A watcher type: the watches that satisfy checkWatches, and those that removeWatches removes.
struct WatcherType {
    checked: &'static [(WatchKind, &'static [WatchMode])],
    removed: &'static [(WatchKind, &'static [WatchMode])],
}

const ALL: &[WatchMode] = &[WatchMode::Standard, WatchMode::Persistent, WatchMode::Recursive];

fn watcher_type(kind: i32) -> Result<WatcherType, ErrorCode> {
    let same = |list| WatcherType { checked: list, removed: list };
    Ok(match kind {
        1 => same(&[(WatchKind::Child, &[WatchMode::Standard])]),
        2 => same(&[(WatchKind::Data, &[WatchMode::Standard])]),
        3 => same(&[(WatchKind::Data, ALL), (WatchKind::Child, ALL)]),
        4 => WatcherType {
            checked: &[(WatchKind::Data, &[WatchMode::Persistent])],
            removed: &[(WatchKind::Data, &[WatchMode::Persistent]), (WatchKind::Child, &[WatchMode::Persistent])],
        },
        5 => same(&[(WatchKind::Data, &[WatchMode::Recursive])]),
        _ => return Err(ErrorCode::MarshallingError),
    })
}

pub(super) fn check(state: &State, requester: Requester<'_>, request: &PathKind<'_>) -> Result<(), ErrorCode> {
    let kind = watcher_type(request.kind)?;
    let mut watches = state.watches().lock();
    let found =
        kind.checked.iter().any(|(watch_kind, modes)| watches.has(requester.watcher, key(request), *watch_kind, modes));
    if found { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

pub(super) fn remove(state: &State, requester: Requester<'_>, request: &PathKind<'_>) -> Result<(), ErrorCode> {
    let kind = watcher_type(request.kind)?;
    let mut watches = state.watches().lock();
    let mut found = false;
    for (watch_kind, modes) in kind.removed {
        found |= watches.remove(requester.watcher, key(request), *watch_kind, modes);
    }
    if found { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

/// The lists of setWatches, in wire order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RearmList {
    Data,
    Exists,
    Child,
    Persistent,
    Recursive,
}

/// Re-arms the watches that a client had on its previous connection, and puts events for the changes that it missed.
/// Each list takes effect before the next is decoded.
pub(super) fn rearm(
    state: &State,
    requester: Requester<'_>,
    op: OpCode,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let (seen, lists) = lists(op, body).map_err(|_| ErrorCode::MarshallingError)?;
    let relative = state.unchanged_since(seen);
    let mut watches = state.watches().lock();
    for (kind, list) in lists {
        for path in list.ok_or(ErrorCode::MarshallingError)? {
            // Compat: Apache throws on a null path where it looks up the node; elsewhere a null is a valid key.
            let path = match path {
                Some(path) => path,
                None if matches!(kind, RearmList::Persistent | RearmList::Recursive) => NULL_KEY.into(),
                None => return Err(ErrorCode::MarshallingError),
            };
            let path = &*path;
            match missed_event(state, requester, kind, path, relative) {
                Some(event) => put_event(out, Zxid(-1), event, path),
                None => arm(&mut watches, requester, kind, path)?,
            }
        }
    }
    Ok(())
}

/// The paths of one list; the list and each path may be null.
type Paths<'a> = Option<Vec<Option<Cow<'a, str>>>>;

/// Decodes the client's last zxid and the lists. A body that ends early has no effect; a null list stops the request at
/// that list.
fn lists(op: OpCode, body: &[u8]) -> Result<(Zxid, Vec<(RearmList, Paths<'_>)>), DecodeError> {
    let kinds = [RearmList::Data, RearmList::Exists, RearmList::Child, RearmList::Persistent, RearmList::Recursive];
    let kinds = if op == OpCode::SetWatches { &kinds[..3] } else { &kinds };
    let mut from = Reader::new(body);
    let relative = from.get()?;
    let lists = kinds.iter().map(|kind| Ok((*kind, from.get()?))).collect::<Result<_, DecodeError>>()?;
    Ok((relative, lists))
}

/// An upper bound of the size of the events that [`rearm`] would put.
pub(super) fn event_bytes(state: &State, op: OpCode, body: &[u8]) -> usize {
    /// The size of an event without its path.
    const EVENT_BYTES: usize = 32;
    let Ok((seen, lists)) = lists(op, body) else { return 0 };
    let relative = state.unchanged_since(seen);
    let paths = lists.iter().flat_map(|(kind, list)| list.iter().flatten().flatten().map(|path| (*kind, path)));
    let missed_event = paths.filter(|(kind, path)| {
        let node = state.tree.find(path::internal(path)).map(|id| state.tree.get(id));
        change(*kind, node, relative).is_some()
    });
    missed_event.map(|(_, path)| EVENT_BYTES + path.len()).sum()
}

/// The event that a watch would have fired since `relative`, if the client may read the node.
fn missed_event(
    state: &State,
    requester: Requester<'_>,
    kind: RearmList,
    client_path: &str,
    relative: Zxid,
) -> Option<EventType> {
    let found = state.tree.find(path::internal(client_path));
    // No event about a node that the client cannot read (K167). Apache sends it.
    if found.is_some() && readable(state, requester, Some(client_path)).is_err() {
        return None;
    }
    change(kind, found.map(|id| state.tree.get(id)), relative)
}

/// The event that a watch of this kind would have fired since `relative`.
fn change(kind: RearmList, node: Option<&Node>, relative: Zxid) -> Option<EventType> {
    match (kind, node) {
        (RearmList::Data | RearmList::Child, None) => Some(EventType::NodeDeleted),
        (RearmList::Data, Some(node)) => (relative < node.mzxid).then_some(EventType::NodeDataChanged),
        (RearmList::Exists, Some(_)) => Some(EventType::NodeCreated),
        (RearmList::Child, Some(node)) => (relative < node.pzxid).then_some(EventType::NodeChildrenChanged),
        (RearmList::Exists, None) | (RearmList::Persistent | RearmList::Recursive, _) => None,
    }
}

fn arm(watches: &mut WatchTable, requester: Requester<'_>, kind: RearmList, path: &str) -> Result<(), ErrorCode> {
    let is_armed = match kind {
        RearmList::Data | RearmList::Exists => {
            watches.add(requester.watcher, path, &[WatchKind::Data], WatchMode::Standard)
        }
        RearmList::Child => watches.add(requester.watcher, path, &[WatchKind::Child], WatchMode::Standard),
        RearmList::Persistent => return add_persistent(watches, requester, path, WatchMode::Persistent),
        RearmList::Recursive => return add_persistent(watches, requester, path, WatchMode::Recursive),
    };
    if is_armed { Ok(()) } else { Err(TOO_MANY_WATCHES) }
}
