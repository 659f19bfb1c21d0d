//! The watch table: who wants to hear of which path.
//!
//! Watches hang on paths, not on nodes: a node may not exist, or come back, while it is watched. The key is the
//! text the client sent. Each path has two lists of watchers (data and child), each watcher a connection and a set
//! of modes in eight bytes. A connection's own list of paths is cleaned up lazily; it may name paths where the
//! watch has fired since.

mod scan;
mod address_limits;
mod watchers;

use crate::conn::ConnId;
use crate::hash::PathHasher;
use crate::path;
use hashbrown::HashTable;
use address_limits::Owners;
use std::collections::BTreeMap;
use std::net::IpAddr;
use watchers::{Watcher, Watchers};

/// Tables with fewer places are not worth shrinking.
const SHRINK_MIN: usize = 1024;

/// Which of the two tables a watch is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Fires for the node itself.
    Data,
    /// Fires for its list of children.
    Child,
}

/// How long a watch lives and how far it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// Fires once.
    Standard = 1 << 61,
    /// Fires until removed.
    Persistent = 1 << 62,
    /// Fires until removed, for all descendants too.
    Recursive = 1 << 63,
}

#[derive(Debug)]
struct WatchedPath {
    path: Box<str>,
    data: Watchers,
    child: Watchers,
}

impl WatchedPath {
    fn table(&mut self, table: Table) -> &mut Watchers {
        match table {
            Table::Data => &mut self.data,
            Table::Child => &mut self.child,
        }
    }

    fn is_idle(&self) -> bool {
        self.data.is_empty() && self.child.is_empty()
    }

    fn watchers(&self) -> impl Iterator<Item = Watcher> {
        self.data.as_slice().iter().chain(self.child.as_slice()).copied()
    }

    fn has(&self, conn: ConnId) -> bool {
        self.data.find(conn).is_some() || self.child.find(conn).is_some()
    }
}

/// The paths a connection has watched, perhaps more than it still does.
#[derive(Debug, Default)]
struct ConnWatches {
    slots: Vec<u32>,
    /// Length at which the list is checked for leftovers again.
    check_at: usize,
}

/// All watches of a server.
#[derive(Debug)]
pub struct WatchTable {
    index: HashTable<u32>,
    paths: Vec<Option<WatchedPath>>,
    free: Vec<u32>,
    conns: BTreeMap<ConnId, ConnWatches>,
    /// Recursive registrations; while there are none, ancestors need not be looked up.
    recursive: usize,
    /// Registrations in both tables.
    total: usize,
    owners: Owners,
    hasher: PathHasher,
}

impl WatchTable {
    /// An empty table, in which the clients of one address may have so many registrations; 0 is any number.
    pub fn new(seed: u64, per_address_max: usize) -> Self {
        Self {
            index: HashTable::new(),
            paths: Vec::new(),
            free: Vec::new(),
            conns: BTreeMap::new(),
            recursive: 0,
            total: 0,
            owners: Owners::new(per_address_max),
            hasher: PathHasher::new(seed),
        }
    }

    /// True when nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Registrations in both tables, a connection's modes on a path counting as one.
    pub fn total(&self) -> usize {
        self.total
    }

    fn hash(&self, path: &str) -> u64 {
        self.hasher.hash(path)
    }

    fn find(&self, path: &str) -> Option<u32> {
        let is_it = |slot: &u32| self.paths[*slot as usize].as_ref().is_some_and(|watched| &*watched.path == path);
        self.index.find(self.hash(path), is_it).copied()
    }

    /// A connection that may register watches, and where it comes from.
    pub fn add_conn(&mut self, conn: ConnId, address: IpAddr) {
        self.owners.join(conn, address);
    }

    /// How often watches were refused because their address has enough, and the last such address.
    pub fn refused(&self) -> (u64, Option<IpAddr>) {
        self.owners.refused()
    }

    /// Registers a watch in each of `tables`; repeating one has no effect. False when its client's address has
    /// enough: then nothing is registered.
    #[must_use]
    pub fn add(&mut self, conn: ConnId, path: &str, tables: &[Table], mode: Mode) -> bool {
        let slot = self.find(path).unwrap_or_else(|| self.insert_path(path));
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let (in_data, in_child) = (watched.data.find(conn).is_some(), watched.child.find(conn).is_some());
        let is_new = |table: &&Table| !if **table == Table::Data { in_data } else { in_child };
        let new = tables.iter().filter(is_new).count();
        if new != 0 && !self.owners.take(conn, new) {
            self.drop_if_idle(slot);
            return false;
        }
        self.total += new;
        for table in tables {
            let watchers = watched.table(*table);
            let is_new_mode = match watchers.find_mut(conn) {
                Some(watcher) => {
                    let is_new = !watcher.has(mode);
                    watcher.add(mode);
                    is_new
                }
                None => {
                    watchers.insert(Watcher::new(conn, mode));
                    true
                }
            };
            self.recursive += usize::from(is_new_mode && mode == Mode::Recursive);
        }
        if !in_data && !in_child {
            self.remember(conn, slot);
        }
        true
    }

    fn insert_path(&mut self, path: &str) -> u32 {
        self.place(WatchedPath { path: path.into(), data: Watchers::None, child: Watchers::None })
    }

    fn place(&mut self, watched: WatchedPath) -> u32 {
        let hash = self.hash(&watched.path);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.paths[slot as usize] = Some(watched);
                slot
            }
            None => {
                self.paths.push(Some(watched));
                u32::try_from(self.paths.len() - 1).expect("memory ends before four billion paths")
            }
        };
        let (paths, hasher) = (&self.paths, &self.hasher);
        let rehash = |slot: &u32| hasher.hash(&*paths[*slot as usize].as_ref().expect("indexed").path);
        self.index.insert_unique(hash, slot, rehash);
        slot
    }

    /// Notes that `conn` watches the path in `slot`, and drops leftovers when the list has doubled.
    fn remember(&mut self, conn: ConnId, slot: u32) {
        let watches = self.conns.entry(conn).or_default();
        watches.slots.push(slot);
        if watches.check_at <= watches.slots.len() {
            watches.slots.sort_unstable();
            watches.slots.dedup();
            let paths = &self.paths;
            watches.slots.retain(|slot| paths[*slot as usize].as_ref().is_some_and(|watched| watched.has(conn)));
            watches.check_at = (2 * watches.slots.len()).max(16);
        }
    }

    fn drop_if_idle(&mut self, slot: u32) {
        let entry = &mut self.paths[slot as usize];
        if !entry.as_ref().is_some_and(WatchedPath::is_idle) {
            return;
        }
        let watched = entry.take().expect("just looked at");
        let hash = self.hash(&watched.path);
        let found = self.index.find_entry(hash, |candidate| *candidate == slot);
        found.expect("slots in use are indexed").remove();
        self.free.push(slot);
    }

    /// Everybody who hears of a change at `path`, each connection once and in their order; one-shot watches are
    /// used up.
    pub(crate) fn collect(&mut self, table: Table, path: &str, found: &mut Vec<ConnId>) {
        found.clear();
        if self.is_empty() {
            return;
        }
        if let Some(slot) = self.find(path) {
            self.collect_at(slot, table, found);
            self.shrink();
        }
        if self.recursive != 0 && table == Table::Data {
            self.collect_above(path, found);
        }
    }

    fn collect_at(&mut self, slot: u32, table: Table, found: &mut Vec<ConnId>) {
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let (mut spent, owners) = (0, &mut self.owners);
        watched.table(table).retain(|watcher| {
            found.push(watcher.conn());
            watcher.remove(Mode::Standard);
            if watcher.is_spent() {
                spent += 1;
                owners.give_back(watcher.conn(), 1);
            }
            !watcher.is_spent()
        });
        self.total -= spent;
        self.drop_if_idle(slot);
    }

    fn collect_above(&self, at: &str, found: &mut Vec<ConnId>) {
        let direct = found.len();
        if at == path::ROOT {
            return;
        }
        for ancestor in path::ancestors(at) {
            let Some(slot) = self.find(path::external(ancestor)) else { continue };
            let watchers = self.paths[slot as usize].as_ref().map_or(&[][..], |watched| watched.data.as_slice());
            found.extend(watchers.iter().filter(|watcher| watcher.has(Mode::Recursive)).map(|watcher| watcher.conn()));
        }
        if direct < found.len() {
            found.sort_unstable();
            found.dedup();
        }
    }

    /// Whether the connection has any of `modes` in `table` at `path`.
    pub fn has(&mut self, conn: ConnId, path: &str, table: Table, modes: &[Mode]) -> bool {
        let Some(slot) = self.find(path) else { return false };
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let watcher = watched.table(table).find(conn);
        watcher.is_some_and(|watcher| modes.iter().any(|mode| watcher.has(*mode)))
    }

    /// Removes modes; true when there were any.
    pub fn remove(&mut self, conn: ConnId, path: &str, table: Table, modes: &[Mode]) -> bool {
        if !self.has(conn, path, table, modes) {
            return false;
        }
        let slot = self.find(path).expect("just found");
        let watchers = self.paths[slot as usize].as_mut().expect("slots in the index are taken").table(table);
        let watcher = watchers.find_mut(conn).expect("just found");
        let was_recursive = watcher.has(Mode::Recursive);
        modes.iter().for_each(|mode| watcher.remove(*mode));
        self.recursive -= usize::from(was_recursive && !watcher.has(Mode::Recursive));
        if watcher.is_spent() {
            watchers.remove(conn);
            self.total -= 1;
            self.owners.give_back(conn, 1);
        }
        self.drop_if_idle(slot);
        self.shrink();
        true
    }

    /// Removes everything a connection has; it is closed.
    pub fn drop_conn(&mut self, conn: ConnId) {
        for slot in self.conns.remove(&conn).unwrap_or_default().slots {
            let Some(watched) = self.paths[slot as usize].as_mut() else { continue };
            for table in [Table::Data, Table::Child] {
                if let Some(watcher) = watched.table(table).remove(conn) {
                    self.total -= 1;
                    self.owners.give_back(conn, 1);
                    self.recursive -= usize::from(watcher.has(Mode::Recursive));
                }
            }
            self.drop_if_idle(slot);
        }
        self.owners.leave(conn);
        self.shrink();
    }

    /// Gives memory back after most watches have gone: paths move together and everybody's list is made anew.
    fn shrink(&mut self) {
        if self.paths.len() < SHRINK_MIN || self.paths.len() / 4 < self.index.len() {
            return;
        }
        let paths = std::mem::take(&mut self.paths);
        (self.index, self.free, self.conns) = (HashTable::new(), Vec::new(), BTreeMap::new());
        for watched in paths.into_iter().flatten() {
            let slot = u32::try_from(self.paths.len()).expect("fewer paths than before");
            let mut conns: Vec<ConnId> = watched.watchers().map(|watcher| watcher.conn()).collect();
            conns.sort_unstable();
            conns.dedup();
            for conn in conns {
                let watches = self.conns.entry(conn).or_default();
                watches.slots.push(slot);
                watches.check_at = (2 * watches.slots.len()).max(16);
            }
            self.place(watched);
        }
    }
}

#[cfg(test)]
mod tests;
