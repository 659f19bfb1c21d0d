//! Watches (client protocol, 6): the exact events that each connection must receive (P49, P50, P52), and the events of
//! setWatches (P51).

use crate::history::{History, ReceivedFrame};
use crate::model::{AuthIds, Model, WatchTrigger};
use crate::op::{Op, OpResult};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::{ErrorCode, Zxid};
use std::collections::{BTreeMap, BTreeSet};

const STANDARD: u8 = 1;
const PERSISTENT: u8 = 2;
const RECURSIVE: u8 = 4;
const ALL: u8 = STANDARD | PERSISTENT | RECURSIVE;

/// One of the two tables: path, then connection, then modes.
type Table = BTreeMap<String, BTreeMap<usize, u8>>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: Table,
    child: Table,
    /// Number of recursive watches.
    recursive: usize,
    /// One-shot watches that have fired and were not set again.
    fired: BTreeSet<(usize, String)>,
    /// Watches whose removal was confirmed.
    removed: BTreeSet<(usize, String)>,
}

/// Whether a connection must receive an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Must,
    /// Authentication was in flight: depends on the moment at which the server checked.
    May,
    MustNot,
}

/// An event that is due.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: EventType,
    pub(crate) path: String,
    pub(crate) due: Due,
}

impl Watches {
    /// Returns the connections that receive the event; removes one-shot watches.
    pub(crate) fn fire(&mut self, trigger: &WatchTrigger) -> BTreeSet<usize> {
        let path = trigger.path.as_str();
        let mut receivers = BTreeSet::new();
        if trigger.kind != EventType::NodeChildrenChanged {
            receivers.extend(take(&mut self.data, path, &mut self.fired));
            if self.recursive != 0 {
                for ancestor in ancestors(path) {
                    let above = self.data.get(ancestor).into_iter().flatten();
                    receivers.extend(above.filter(|(_, modes)| **modes & RECURSIVE != 0).map(|(conn, _)| *conn));
                }
            }
        }
        if matches!(trigger.kind, EventType::NodeDeleted | EventType::NodeChildrenChanged) {
            receivers.extend(take(&mut self.child, path, &mut self.fired));
        }
        receivers
    }

    /// Removes all watches of a connection that receives nothing any more.
    pub(crate) fn drop_connection(&mut self, conn: usize) {
        for table in [&mut self.data, &mut self.child] {
            table.retain(|_, watchers| {
                if watchers.remove(&conn).is_some_and(|modes| modes & RECURSIVE != 0) {
                    self.recursive -= 1;
                }
                !watchers.is_empty()
            });
        }
    }

    fn add(&mut self, conn: usize, path: &str, is_child: bool, mode: u8) {
        let table = if is_child { &mut self.child } else { &mut self.data };
        let modes = table.entry(path.to_owned()).or_default().entry(conn).or_default();
        if mode == RECURSIVE && *modes & RECURSIVE == 0 {
            self.recursive += 1;
        }
        *modes |= mode;
        self.fired.remove(&(conn, path.to_owned()));
        self.removed.remove(&(conn, path.to_owned()));
    }

    fn has(&self, conn: usize, path: &str, is_child: bool, mode: u8) -> bool {
        let table = if is_child { &self.child } else { &self.data };
        table.get(path).and_then(|watchers| watchers.get(&conn)).is_some_and(|modes| modes & mode != 0)
    }

    fn remove(&mut self, conn: usize, path: &str, is_child: bool, mode: u8) -> bool {
        let table = if is_child { &mut self.child } else { &mut self.data };
        let Some(watchers) = table.get_mut(path) else { return false };
        let Some(modes) = watchers.get_mut(&conn) else { return false };
        let removed = *modes & mode;
        *modes &= !mode;
        if *modes == 0 {
            watchers.remove(&conn);
        }
        if watchers.is_empty() {
            table.remove(path);
        }
        if removed & RECURSIVE != 0 {
            self.recursive -= 1;
        }
        if removed != 0 {
            self.removed.insert((conn, path.to_owned()));
        }
        removed != 0
    }

    /// Adds the watches that a completed request sets.
    pub(crate) fn register(&mut self, conn: usize, op: &Op, result: &OpResult) {
        let found = result.err == 0;
        match op {
            Op::Exists { path, watch: true } if found || result.err == ErrorCode::NoNode.code() => {
                self.add(conn, path, false, STANDARD);
            }
            Op::GetData { path, watch: true } if found => self.add(conn, path, false, STANDARD),
            Op::GetChildren { path, watch: true } | Op::GetChildren2 { path, watch: true } if found => {
                self.add(conn, path, true, STANDARD);
            }
            Op::AddWatch { path, mode } if found => self.add_lasting(conn, path, *mode == 1),
            _ => (),
        }
    }

    fn add_lasting(&mut self, conn: usize, path: &str, is_recursive: bool) {
        if is_recursive {
            self.add(conn, path, false, RECURSIVE);
        } else {
            self.add(conn, path, false, PERSISTENT);
            self.add(conn, path, true, PERSISTENT);
        }
    }

    /// The error code of checkWatches or removeWatches; carries out the removal.
    pub(crate) fn check_or_remove(&mut self, conn: usize, op: &Op) -> Option<i32> {
        let (path, kind, removes) = match op {
            Op::CheckWatches { path, kind } => (path, *kind, false),
            Op::RemoveWatches { path, kind } => (path, *kind, true),
            _ => return None,
        };
        // Modes in the data table and in the child table.
        let (data, child) = match kind {
            1 => (0, STANDARD),
            2 => (STANDARD, 0),
            3 => (ALL, ALL),
            4 if removes => (PERSISTENT, PERSISTENT),
            4 => (PERSISTENT, 0),
            5 => (RECURSIVE, 0),
            _ => return Some(ErrorCode::MarshallingError.code()),
        };
        let found = if removes {
            let removed = self.remove(conn, path, false, data);
            self.remove(conn, path, true, child) || removed
        } else {
            self.has(conn, path, false, data) || self.has(conn, path, true, child)
        };
        Some(if found { 0 } else { ErrorCode::NoWatcher.code() })
    }

    /// Handles setWatches; returns the events that must precede its reply.
    pub(crate) fn set_watches(
        &mut self,
        conn: usize,
        model: &Model,
        ids: &AuthIds,
        relative: Zxid,
        lists: &[Vec<String>],
    ) -> Vec<(EventType, String)> {
        let mut events = Vec::new();
        for (list, paths) in lists.iter().enumerate() {
            for path in paths {
                let node = model.watched(path);
                let is_hidden = node.is_some_and(|node| !ids.may(node.acl, perms::READ));
                let missed = match (list, node) {
                    (0 | 2, None) => Some(EventType::NodeDeleted),
                    (0, Some(node)) if relative < node.mzxid => Some(EventType::NodeDataChanged),
                    (1, Some(_)) => Some(EventType::NodeCreated),
                    (2, Some(node)) if relative < node.pzxid => Some(EventType::NodeChildrenChanged),
                    _ => None,
                };
                match (missed.filter(|_| !is_hidden), list) {
                    (Some(kind), _) => events.push((kind, path.clone())),
                    (None, 0 | 1) => self.add(conn, path, false, STANDARD),
                    (None, 2) => self.add(conn, path, true, STANDARD),
                    (None, list) => self.add_lasting(conn, path, list == 4),
                }
            }
        }
        events
    }

    /// Why an unexpected event is wrong.
    pub(crate) fn classify_unexpected(&self, conn: usize, path: &str) -> ViolationKind {
        let is_of = |set: &BTreeSet<(usize, String)>, path: &str| set.contains(&(conn, path.to_owned()));
        let above = || std::iter::once(path).chain(ancestors(path));
        if is_of(&self.fired, path) {
            ViolationKind::FiredTwice
        } else if above().any(|path| is_of(&self.removed, path)) {
            ViolationKind::EventAfterRemoval
        } else {
            ViolationKind::InventedEvent
        }
    }
}

fn take(table: &mut Table, path: &str, fired: &mut BTreeSet<(usize, String)>) -> Vec<usize> {
    let Some(watchers) = table.get_mut(path) else { return Vec::new() };
    let receivers = watchers.keys().copied().collect();
    watchers.retain(|conn, modes| {
        if *modes & STANDARD != 0 {
            fired.insert((*conn, path.to_owned()));
        }
        *modes &= !STANDARD;
        *modes != 0
    });
    if watchers.is_empty() {
        table.remove(path);
    }
    receivers
}

/// The ancestors of a path, nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &str| match path.rfind('/') {
        None => None,
        Some(0) if path.len() == 1 => None,
        Some(0) => Some(1),
        Some(slash) => Some(slash),
    };
    std::iter::successors(parent(path).map(|end| &path[..end]), move |above| parent(above).map(|end| &above[..end]))
}

/// Compares the events of one transaction on one connection. Returns the number of frames they take, or `None` if the
/// stream ends before the last of them.
pub(crate) fn compare(
    history: &History,
    watches: &Watches,
    (conn, cursor): (usize, usize),
    zxid: Zxid,
    expected: &[Expected],
) -> Checked<Option<usize>> {
    let connection = &history.connections[conn];
    let frames = &connection.received[cursor..];
    let seen: Vec<(i32, &str)> = frames
        .iter()
        .map_while(|frame| match frame {
            ReceivedFrame::Event { zxid: at, kind, path, .. } if *at == zxid => Some((*kind, path.as_str())),
            _ => None,
        })
        .collect();
    let mut taken = 0;
    for (at, event) in expected.iter().enumerate() {
        let wanted = (event.kind as i32, event.path.as_str());
        let place = ViolationPlace::Frame(conn, cursor + taken);
        // A multi may recreate a node that the client may then read.
        let may_come_later = || {
            let is_same = |later: &Expected| (later.kind as i32, later.path.as_str()) == wanted;
            expected[at + 1..].iter().any(|later| is_same(later) && later.due != Due::MustNot)
        };
        if seen.get(taken) == Some(&wanted) {
            if event.due == Due::MustNot && may_come_later() {
                continue;
            }
            if event.due == Due::MustNot {
                return Err(Violation::new(ViolationKind::LeakedEvent, place, format!("{wanted:?} at {zxid}")));
            }
            taken += 1;
        } else if event.due == Due::Must {
            let Some(other) = seen.get(taken) else {
                let may_be_cut = connection.closed.is_some() || !history.is_settled;
                // Also between the events of setWatches and its reply.
                let is_over = |frame: &ReceivedFrame| matches!(frame, ReceivedFrame::Event { zxid: Zxid(-1), .. });
                if frames[taken..].iter().all(is_over) && may_be_cut {
                    return Ok(None);
                }
                return Err(Violation::new(ViolationKind::LostEvent, place, format!("{wanted:?} at {zxid}")));
            };
            let is_later = seen[taken..].contains(&wanted);
            let is_expected = expected[at..].iter().any(|event| (event.kind as i32, event.path.as_str()) == *other);
            let reason = match (is_later, is_expected) {
                (true, true) => ViolationKind::EventsOutOfOrder,
                (true, false) => watches.classify_unexpected(conn, other.1),
                (false, _) => ViolationKind::LostEvent,
            };
            return Err(Violation::new(reason, place, format!("{other:?} instead of {wanted:?} at {zxid}")));
        }
    }
    if let Some(extra) = seen.get(taken) {
        let place = ViolationPlace::Frame(conn, cursor + taken);
        return Err(Violation::new(watches.classify_unexpected(conn, extra.1), place, format!("{extra:?} at {zxid}")));
    }
    Ok(Some(taken))
}
