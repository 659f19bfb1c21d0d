//! Who watches one path in one table.

use super::Mode;
use crate::conn::ConnId;

const MODES: u64 = Mode::Standard as u64 | Mode::Persistent as u64 | Mode::Recursive as u64;

/// A connection and its modes, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watcher(u64);

impl Watcher {
    pub(super) fn new(conn: ConnId, mode: Mode) -> Self {
        Self(conn.bits() | mode as u64)
    }

    pub(super) fn conn(self) -> ConnId {
        ConnId::from_bits(self.0 & !MODES)
    }

    pub(super) fn has(self, mode: Mode) -> bool {
        self.0 & mode as u64 != 0
    }

    pub(super) fn add(&mut self, mode: Mode) {
        self.0 |= mode as u64;
    }

    pub(super) fn remove(&mut self, mode: Mode) {
        self.0 &= !(mode as u64);
    }

    pub(super) fn is_spent(self) -> bool {
        self.0 & MODES == 0
    }
}

/// Usually nobody or one connection watches a path; then no list is allocated.
#[derive(Debug, Default)]
pub(super) enum Watchers {
    #[default]
    None,
    One(Watcher),
    /// Sorted by connection, so that a thousand watchers are searched, not walked.
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

    /// Adds a watcher whose connection has none here.
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

    /// Takes a connection out.
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Watcher> {
        let at = self.place(conn).ok()?;
        let removed = self.as_slice()[at];
        match self {
            Self::Many(list) if 1 < list.len() => _ = list.remove(at),
            Self::None | Self::One(_) | Self::Many(_) => *self = Self::None,
        }
        Some(removed)
    }

    /// Keeps what `keep` says; it may change modes on the way.
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
