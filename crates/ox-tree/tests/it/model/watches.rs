//! Watches of the model, and the events that they fire.

use super::Stored;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Standard,
    Persistent,
    Recursive,
}

/// An event for a connection, before the ACL filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) conn: usize,
    pub(crate) zxid: i64,
    pub(crate) kind: i32,
    pub(crate) path: String,
    pub(crate) acl: Option<Stored>,
}

type Table = BTreeMap<(String, usize), BTreeSet<Mode>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    pub(crate) data: Table,
    pub(crate) child: Table,
    pub(crate) sent: Vec<Event>,
}

impl Watches {
    /// Removes the watches that fire at `path`, and returns their connections.
    fn fire(table: &mut Table, path: &str) -> BTreeSet<usize> {
        let mut told = BTreeSet::new();
        for ((at, conn), modes) in &mut *table {
            let is_above = at == "/" || (!at.is_empty() && path.starts_with(&format!("{at}/")));
            if at == path {
                told.insert(*conn);
                modes.remove(&Mode::Standard);
            } else if modes.contains(&Mode::Recursive) && is_above {
                told.insert(*conn);
            }
        }
        table.retain(|_, modes| !modes.is_empty());
        told
    }

    fn send(&mut self, conns: BTreeSet<usize>, kind: i32, path: &str, zxid: i64, acl: &Option<Stored>) {
        for conn in conns {
            self.sent.push(Event { conn, zxid, kind, path: path.to_owned(), acl: acl.clone() });
        }
    }

    pub(super) fn trigger_data(&mut self, kind: i32, path: &str, zxid: i64, acl: &Option<Stored>) {
        let told = Self::fire(&mut self.data, path);
        self.send(told, kind, path, zxid, acl);
    }

    pub(super) fn trigger_child(&mut self, kind: i32, path: &str, zxid: i64, acl: &Option<Stored>) {
        let told = Self::fire(&mut self.child, path);
        self.send(told, kind, path, zxid, acl);
    }

    pub(super) fn trigger_deleted(&mut self, path: &str, zxid: i64, acl: &Option<Stored>) {
        let told = Self::fire(&mut self.data, path);
        let also = Self::fire(&mut self.child, path);
        self.send(told.union(&also).copied().collect(), 2, path, zxid, acl);
    }

    pub(crate) fn add(&mut self, conn: usize, path: &str, in_child: bool, mode: Mode) {
        let table = if in_child { &mut self.child } else { &mut self.data };
        table.entry((path.to_owned(), conn)).or_default().insert(mode);
    }

    pub(crate) fn drop_conn(&mut self, conn: usize) {
        self.data.retain(|(_, owner), _| *owner != conn);
        self.child.retain(|(_, owner), _| *owner != conn);
    }

    pub(crate) fn total(&self) -> usize {
        self.data.len() + self.child.len()
    }
}
