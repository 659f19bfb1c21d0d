//! Watches (client protocol, 6): which connections receive an event, and which watches they have.

use super::node::key;
use super::{AuthIds, Model, WatchTrigger};
use crate::op::{Op, OpResult};
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::{ErrorCode, Zxid};
use std::collections::{BTreeMap, BTreeSet};

const STANDARD: u8 = 1;
const PERSISTENT: u8 = 2;
const RECURSIVE: u8 = 4;
/// The key of a null path, which no node has.
const NULL: &str = "\0";
const ALL: u8 = STANDARD | PERSISTENT | RECURSIVE;

/// One of the two tables: path, then connection, then modes.
type Table = BTreeMap<String, BTreeMap<usize, u8>>;

/// The watches of all connections, each with a number.
#[derive(Debug, Default)]
pub struct Watches {
    data: Table,
    child: Table,
    /// Number of recursive watches.
    recursive: usize,
    /// One-shot watches that have fired and were not set again.
    pub(crate) fired: BTreeSet<(usize, String)>,
    /// Watches whose removal was confirmed.
    pub(crate) removed: BTreeSet<(usize, String)>,
}

impl Watches {
    /// Returns the connections that receive the event; removes one-shot watches.
    pub fn fire(&mut self, trigger: &WatchTrigger) -> BTreeSet<usize> {
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
    pub fn drop_connection(&mut self, conn: usize) {
        for table in [&mut self.data, &mut self.child] {
            table.retain(|_, watchers| {
                if watchers.remove(&conn).is_some_and(|modes| modes & RECURSIVE != 0) {
                    self.recursive -= 1;
                }
                !watchers.is_empty()
            });
        }
    }

    /// The number of watched paths of all connections, by table.
    pub fn total(&self) -> usize {
        self.data.values().chain(self.child.values()).map(BTreeMap::len).sum()
    }

    /// The paths with data watches.
    pub fn data_paths(&self) -> impl Iterator<Item = &str> {
        self.data.keys().map(String::as_str)
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
    pub fn register(&mut self, conn: usize, op: &Op, result: &OpResult) {
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
            Op::NullPath(op) if found => self.register(conn, &op.as_ref().clone().with_path(Some(NULL)), result),
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
    pub fn check_or_remove(&mut self, conn: usize, op: &Op) -> Option<i32> {
        let (path, kind, removes) = match op {
            Op::CheckWatches { path, kind } => (path, *kind, false),
            Op::RemoveWatches { path, kind } => (path, *kind, true),
            Op::NullPath(op) => return self.check_or_remove(conn, &op.as_ref().clone().with_path(Some(NULL))),
            _ => return None,
        };
        // Modes in the data table and in the child table.
        let (data, child) = match kind {
            1 => (0, STANDARD),
            2 => (STANDARD, 0),
            3 => (ALL, ALL),
            4 => (PERSISTENT, PERSISTENT),
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
    pub fn set_watches(
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
                let node = model.nodes.get(key(path));
                let is_hidden = node.is_some_and(|node| !ids.may(&node.readers(), perms::READ));
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
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &str| match path.rfind('/') {
        None => None,
        Some(0) if path.len() == 1 => None,
        Some(0) => Some(1),
        Some(slash) => Some(slash),
    };
    std::iter::successors(parent(path).map(|end| &path[..end]), move |above| parent(above).map(|end| &above[..end]))
}
