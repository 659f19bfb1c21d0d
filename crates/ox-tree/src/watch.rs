//! The watch table (Apache's `WatchManager`). `read.rs` and `read/watches.rs` register watches, `apply.rs` fires them.
//!
//! Watches belong to paths, not to nodes: a watched node may not exist, or may be deleted and created again. The key is
//! the path as the client sent it. Each path has two lists of watchers, for data and child watches; a watcher is an id
//! with a set of modes, in eight bytes. The list of paths of a watcher is cleaned up lazily, so it may contain paths
//! whose watch has fired.

mod address_limits;
mod by_top_level;
mod event;
mod scan;
mod watchers;

use crate::hash::PathHasher;
use crate::path;
use address_limits::AddressLimits;
use by_top_level::ByTopLevel;
pub use event::{EventSink, FiredCounts, FiredEvent};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::net::IpAddr;
use watchers::Watcher;
pub use watchers::WatcherId;
use watchers::Watchers;

/// Smaller tables are never shrunk.
const SHRINK_MIN: usize = 1024;

/// Data watches and child watches are registered separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// Fires for changes of the node itself.
    Data,
    /// Fires for changes of the list of children.
    Child,
}

/// Whether a watch fires once, and whether it covers descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum WatchMode {
    /// Is removed when it fires.
    Standard = 1 << 61,
    /// Fires until it is removed.
    Persistent = 1 << 62,
    /// Fires until it is removed, for all descendants too.
    Recursive = 1 << 63,
}

#[derive(Debug)]
struct WatchedPath {
    path: Box<str>,
    data: Watchers,
    child: Watchers,
}

impl WatchedPath {
    fn watchers_mut(&mut self, watch_kind: WatchKind) -> &mut Watchers {
        match watch_kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Child => &mut self.child,
        }
    }

    fn is_idle(&self) -> bool {
        self.data.is_empty() && self.child.is_empty()
    }

    fn watchers(&self) -> impl Iterator<Item = Watcher> {
        self.data.as_slice().iter().chain(self.child.as_slice()).copied()
    }

    fn has(&self, id: WatcherId) -> bool {
        self.data.find(id).is_some() || self.child.find(id).is_some()
    }
}

/// The paths that a watcher watches. May contain paths whose watch has fired.
#[derive(Debug, Default)]
struct WatchedPaths {
    slots: Vec<u32>,
    /// The length at which stale entries are removed next.
    check_at: usize,
}

/// All watches of a server, by path and by watcher.
#[derive(Debug)]
pub struct WatchTable {
    index: HashTable<u32>,
    paths: Vec<Option<WatchedPath>>,
    free: Vec<u32>,
    watchers: BTreeMap<WatcherId, WatchedPaths>,
    /// The number of recursive registrations. If it is 0, ancestors need not be looked up.
    recursive: usize,
    /// The number of registrations of both kinds.
    total: usize,
    by_top_level: ByTopLevel,
    limits: AddressLimits,
    hasher: PathHasher,
}

impl WatchTable {
    /// An empty table. `per_address_max` limits the registrations of all clients with one address; 0 for no limit.
    pub fn new(seed: u64, per_address_max: usize) -> Self {
        Self {
            index: HashTable::new(),
            paths: Vec::new(),
            free: Vec::new(),
            watchers: BTreeMap::new(),
            recursive: 0,
            total: 0,
            by_top_level: ByTopLevel::new(false),
            limits: AddressLimits::new(per_address_max),
            hasher: PathHasher::new(seed),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Registrations of both kinds. All modes of a watcher on a path count as one.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Keeps [`Self::by_top_level`]. To be called while the table is empty.
    #[must_use]
    pub fn counting_by_top_level(self) -> Self {
        Self { by_top_level: ByTopLevel::new(true), ..self }
    }

    /// Registrations by the name of their top-level node, if they are counted.
    pub fn by_top_level(&self) -> impl Iterator<Item = (&str, i64)> {
        self.by_top_level.counts()
    }

    fn hash(&self, path: &str) -> u64 {
        self.hasher.hash(path)
    }

    fn find(&self, path: &str) -> Option<u32> {
        let is_it = |slot: &u32| self.paths[*slot as usize].as_ref().is_some_and(|watched| &*watched.path == path);
        self.index.find(self.hash(path), is_it).copied()
    }

    /// Adds a watcher that may register watches, with its client's address.
    pub fn add_watcher(&mut self, id: WatcherId, address: IpAddr) {
        self.limits.add_watcher(id, address);
    }

    /// Changes the limit of registrations per address, for further ones; 0 for no limit.
    pub fn set_address_limit(&mut self, max: usize) {
        self.limits.set_limit(max);
    }

    /// How often a watch was refused because of the limit per address, and the last refused address.
    pub fn refused(&self) -> (u64, Option<IpAddr>) {
        self.limits.refused()
    }

    /// Registers a watch of each of `watch_kinds`; repeating a registration has no effect. Returns false, without
    /// registering anything, if the limit of the client's address is reached.
    #[must_use]
    pub fn add(&mut self, id: WatcherId, path: &str, watch_kinds: &[WatchKind], mode: WatchMode) -> bool {
        let slot = self.find(path).unwrap_or_else(|| self.insert_path(path));
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let (in_data, in_child) = (watched.data.find(id).is_some(), watched.child.find(id).is_some());
        let is_new = |watch_kind: &&WatchKind| !if **watch_kind == WatchKind::Data { in_data } else { in_child };
        let new = watch_kinds.iter().filter(is_new).count();
        if new != 0 && !self.limits.acquire(id, new) {
            self.drop_if_idle(slot);
            return false;
        }
        self.total += new;
        self.by_top_level.add(path, signed(new));
        for watch_kind in watch_kinds {
            let watchers = watched.watchers_mut(*watch_kind);
            let is_new_mode = match watchers.find_mut(id) {
                Some(watcher) => {
                    let is_new = !watcher.has(mode);
                    watcher.add(mode);
                    is_new
                }
                None => {
                    watchers.insert(Watcher::new(id, mode));
                    true
                }
            };
            self.recursive += usize::from(is_new_mode && mode == WatchMode::Recursive);
        }
        if !in_data && !in_child {
            self.note_path(id, slot);
        }
        true
    }

    fn insert_path(&mut self, path: &str) -> u32 {
        self.insert(WatchedPath { path: path.into(), data: Watchers::None, child: Watchers::None })
    }

    fn insert(&mut self, watched: WatchedPath) -> u32 {
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

    /// Records that a watcher watches the path in `slot`, and removes stale entries whenever the list has doubled.
    fn note_path(&mut self, id: WatcherId, slot: u32) {
        let watches = self.watchers.entry(id).or_default();
        watches.slots.push(slot);
        if watches.check_at <= watches.slots.len() {
            watches.slots.sort_unstable();
            watches.slots.dedup();
            let paths = &self.paths;
            watches.slots.retain(|slot| paths[*slot as usize].as_ref().is_some_and(|watched| watched.has(id)));
            watches.check_at = (2 * watches.slots.len()).max(16);
        }
    }

    fn drop_if_idle(&mut self, slot: u32) {
        let entry = &mut self.paths[slot as usize];
        if !entry.as_ref().is_some_and(WatchedPath::is_idle) {
            return;
        }
        let watched = entry.take().expect("checked above");
        let hash = self.hash(&watched.path);
        let found = self.index.find_entry(hash, |candidate| *candidate == slot);
        found.expect("slots in use are indexed").remove();
        self.free.push(slot);
    }

    /// Appends the watchers of a change at `path`, each once and sorted. One-shot watches are removed.
    pub(crate) fn collect(&mut self, watch_kind: WatchKind, path: &str, found: &mut Vec<WatcherId>) {
        found.clear();
        if self.is_empty() {
            return;
        }
        if let Some(slot) = self.find(path) {
            self.collect_at(slot, watch_kind, found);
            self.shrink();
        }
        if self.recursive != 0 && watch_kind == WatchKind::Data {
            self.collect_above(path, found);
        }
    }

    fn collect_at(&mut self, slot: u32, watch_kind: WatchKind, found: &mut Vec<WatcherId>) {
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let (mut spent, limits) = (0, &mut self.limits);
        watched.watchers_mut(watch_kind).retain(|watcher| {
            found.push(watcher.id());
            watcher.remove(WatchMode::Standard);
            if watcher.is_empty() {
                spent += 1;
                limits.release(watcher.id(), 1);
            }
            !watcher.is_empty()
        });
        self.total -= spent;
        self.by_top_level.add(&watched.path, -signed(spent));
        self.drop_if_idle(slot);
    }

    fn collect_above(&self, at: &str, found: &mut Vec<WatcherId>) {
        let direct = found.len();
        if at == path::ROOT {
            return;
        }
        for ancestor in path::ancestors(at) {
            let Some(slot) = self.find(path::external(ancestor)) else { continue };
            let watchers = self.paths[slot as usize].as_ref().map_or(&[][..], |watched| watched.data.as_slice());
            found.extend(
                watchers.iter().filter(|watcher| watcher.has(WatchMode::Recursive)).map(|watcher| watcher.id()),
            );
        }
        if direct < found.len() {
            found.sort_unstable();
            found.dedup();
        }
    }

    /// Whether the watcher has a watch with any of `modes` at `path`.
    pub fn has(&mut self, id: WatcherId, path: &str, watch_kind: WatchKind, modes: &[WatchMode]) -> bool {
        let Some(slot) = self.find(path) else { return false };
        let watched = self.paths[slot as usize].as_mut().expect("slots in the index are taken");
        let watcher = watched.watchers_mut(watch_kind).find(id);
        watcher.is_some_and(|watcher| modes.iter().any(|mode| watcher.has(*mode)))
    }

    /// Removes modes of a watch. Returns whether the watcher had any of them.
    pub fn remove(&mut self, id: WatcherId, path: &str, watch_kind: WatchKind, modes: &[WatchMode]) -> bool {
        if !self.has(id, path, watch_kind, modes) {
            return false;
        }
        let slot = self.find(path).expect("just found");
        let watchers =
            self.paths[slot as usize].as_mut().expect("slots in the index are taken").watchers_mut(watch_kind);
        let watcher = watchers.find_mut(id).expect("just found");
        let was_recursive = watcher.has(WatchMode::Recursive);
        modes.iter().for_each(|mode| watcher.remove(*mode));
        self.recursive -= usize::from(was_recursive && !watcher.has(WatchMode::Recursive));
        if watcher.is_empty() {
            watchers.remove(id);
            self.total -= 1;
            self.by_top_level.add(path, -1);
            self.limits.release(id, 1);
        }
        self.drop_if_idle(slot);
        self.shrink();
        true
    }

    /// Removes a watcher with all its watches.
    pub fn drop_watcher(&mut self, id: WatcherId) {
        for slot in self.watchers.remove(&id).unwrap_or_default().slots {
            let Some(watched) = self.paths[slot as usize].as_mut() else { continue };
            for watch_kind in [WatchKind::Data, WatchKind::Child] {
                if let Some(watcher) = watched.watchers_mut(watch_kind).remove(id) {
                    self.total -= 1;
                    self.by_top_level.add(&watched.path, -1);
                    self.limits.release(id, 1);
                    self.recursive -= usize::from(watcher.has(WatchMode::Recursive));
                }
            }
            self.drop_if_idle(slot);
        }
        self.limits.remove_watcher(id);
        self.shrink();
    }

    /// Releases memory after most watches are gone: compacts the paths and rebuilds the lists of all watchers.
    fn shrink(&mut self) {
        if self.paths.len() < SHRINK_MIN || self.paths.len() / 4 < self.index.len() {
            return;
        }
        let paths = std::mem::take(&mut self.paths);
        (self.index, self.free, self.watchers) = (HashTable::new(), Vec::new(), BTreeMap::new());
        for watched in paths.into_iter().flatten() {
            let slot = u32::try_from(self.paths.len()).expect("fewer paths than before");
            let mut ids: Vec<WatcherId> = watched.watchers().map(|watcher| watcher.id()).collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let watches = self.watchers.entry(id).or_default();
                watches.slots.push(slot);
                watches.check_at = (2 * watches.slots.len()).max(16);
            }
            self.insert(watched);
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
