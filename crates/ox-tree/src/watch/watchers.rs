//! Watchers: who has a watch, and the watchers of one path and kind.

use super::WatchMode;

const MODES: u64 = WatchMode::Standard as u64 | WatchMode::Persistent as u64 | WatchMode::Recursive as u64;

/// The owner of watches, by a number that the caller chooses. It is unique while watches or events refer to it.
///
/// ```text
/// bits 60..32 any | 31..24 table | 23..0 index
/// ```
///
/// What is stored per watcher is found by table and index, which no two watchers have in common at the same time.
/// Indices should be small: a table is as long as its largest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(u64);

impl WatcherId {
    /// # Panics
    /// If `bits` uses one of the top three bits, which store the modes of a watch.
    pub fn new(bits: u64) -> Self {
        assert!(bits & MODES == 0, "the top bits are for the modes");
        Self(bits)
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    /// The table and the index in it.
    pub(super) fn position(self) -> (usize, usize) {
        ((self.0 >> 24 & 0xff) as usize, (self.0 & 0xff_ffff) as usize)
    }
}

/// A watcher and its modes, packed into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watcher(u64);

impl Watcher {
    pub(super) fn new(id: WatcherId, mode: WatchMode) -> Self {
        Self(id.0 | mode as u64)
    }

    pub(super) fn id(self) -> WatcherId {
        WatcherId(self.0 & !MODES)
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
    /// Sorted by id, for binary search.
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

    fn place(&self, id: WatcherId) -> Result<usize, usize> {
        self.as_slice().binary_search_by_key(&id, |watcher| watcher.id())
    }

    pub(super) fn find(&self, id: WatcherId) -> Option<Watcher> {
        self.place(id).ok().map(|at| self.as_slice()[at])
    }

    pub(super) fn find_mut(&mut self, id: WatcherId) -> Option<&mut Watcher> {
        let at = self.place(id).ok()?;
        Some(&mut self.as_mut_slice()[at])
    }

    /// Adds a watcher that is not in the list.
    pub(super) fn insert(&mut self, new: Watcher) {
        match self {
            Self::None => *self = Self::One(new),
            Self::One(only) => {
                let mut list = vec![*only, new];
                list.sort_by_key(|watcher| watcher.id());
                *self = Self::Many(Box::new(list));
            }
            Self::Many(list) => {
                let at = list.partition_point(|watcher| watcher.id() < new.id());
                list.insert(at, new);
            }
        }
    }

    pub(super) fn remove(&mut self, id: WatcherId) -> Option<Watcher> {
        let at = self.place(id).ok()?;
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
