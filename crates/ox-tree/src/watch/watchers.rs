//! The watchers of one path and kind.

use super::WatchMode;
use crate::conn::ConnId;

const MODES: u64 = WatchMode::Standard as u64 | WatchMode::Persistent as u64 | WatchMode::Recursive as u64;

/// A connection and its modes, packed into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watcher(u64);

impl Watcher {
    pub(super) fn new(conn: ConnId, mode: WatchMode) -> Self {
        Self(conn.bits() | mode as u64)
    }

    pub(super) fn conn(self) -> ConnId {
        ConnId::from_bits(self.0 & !MODES)
    }

    pub(super) fn has(self, mode: WatchMode) -> bool {
        self.0 & mode as u64 != 0
    }

    pub(super) fn add(&mut self, mode: WatchMode) {
        self.0 |= mode as u64;
    }

    pub(super) fn remove(&mut self, mode: WatchMode) {
        self.0 &= !(mode as u64);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 & MODES == 0
    }
}

/// Most paths have at most one watcher, for which no list is allocated.
#[derive(Debug, Default)]
pub(super) enum Watchers {
    #[default]
    None,
    One(Watcher),
    /// Sorted by connection, for binary search.
    #[expect(clippy::box_collection, reason = "keeps the common cases at sixteen bytes")]
    Many(Box<Vec<Watcher>>),
}

impl Watchers {
    pub(super) fn as_slice(&self) -> &[Watcher] {
        match self {
            Self::None => &[],
            Self::One(watcher) => std::slice::from_ref(watcher),
            Self::Many(list) => list,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Watcher] {
        match self {
            Self::None => &mut [],
            Self::One(watcher) => std::slice::from_mut(watcher),
            Self::Many(list) => list,
        }
    }

    fn place(&self, conn: ConnId) -> Result<usize, usize> {
        self.as_slice().binary_search_by_key(&conn, |watcher| watcher.conn())
    }

    pub(super) fn find(&self, conn: ConnId) -> Option<Watcher> {
        self.place(conn).ok().map(|at| self.as_slice()[at])
    }

    pub(super) fn find_mut(&mut self, conn: ConnId) -> Option<&mut Watcher> {
        let at = self.place(conn).ok()?;
        Some(&mut self.as_mut_slice()[at])
    }

    /// Adds a watcher whose connection is not in the list.
    pub(super) fn insert(&mut self, new: Watcher) {
        match self {
            Self::None => *self = Self::One(new),
            Self::One(only) => {
                let mut list = vec![*only, new];
                list.sort_by_key(|watcher| watcher.conn());
                *self = Self::Many(Box::new(list));
            }
            Self::Many(list) => {
                let at = list.partition_point(|watcher| watcher.conn() < new.conn());
                list.insert(at, new);
            }
        }
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Watcher> {
        let at = self.place(conn).ok()?;
        let removed = self.as_slice()[at];
        match self {
            Self::Many(list) if 1 < list.len() => _ = list.remove(at),
            Self::None | Self::One(_) | Self::Many(_) => *self = Self::None,
        }
        Some(removed)
    }

    /// Removes watchers for which `keep` returns false; `keep` may change modes.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Watcher) -> bool) {
        match self {
            Self::None => (),
            Self::One(watcher) => {
                if !keep(watcher) {
                    *self = Self::None;
                }
            }
            Self::Many(list) => {
                list.retain_mut(keep);
                if list.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}
