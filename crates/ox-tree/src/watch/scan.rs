//! Paged listings of the watch table, so that listing a million watches locks it only briefly at a time.
//!
//! Watches may be added and removed between two pages. A listing contains every watch that exists throughout, once; if
//! the table shrinks meanwhile, it may miss some.

use super::{WatchTable, WatcherId};
use std::ops::Bound;

impl WatchTable {
    /// Passes paths with their data watchers to `show`, starting at slot `from`, until about `work_max` slots and
    /// watchers were visited. Returns the next slot, or `None` at the end.
    pub fn scan_data_watches(
        &self,
        from: usize,
        work_max: usize,
        mut show: impl FnMut(&str, &mut dyn ExactSizeIterator<Item = WatcherId>),
    ) -> Option<usize> {
        let mut work = 0;
        for (place, watched) in self.paths.iter().enumerate().skip(from) {
            if work_max <= work {
                return Some(place);
            }
            work += 1;
            if let Some(watched) = watched.as_ref().filter(|watched| !watched.data.is_empty()) {
                let watchers = watched.data.as_slice();
                work += watchers.len();
                show(&watched.path, &mut watchers.iter().map(|watcher| watcher.id()));
            }
        }
        None
    }

    /// The next watcher after `after`, with the slots of its paths.
    pub fn next_watcher(&self, after: Option<WatcherId>) -> Option<(WatcherId, Vec<u32>)> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (id, watches) = self.watchers.range((behind, Bound::Unbounded)).next()?;
        Some((*id, watches.slots.clone()))
    }

    /// The path in a slot, if the watcher has a data watch there.
    pub fn data_path(&self, place: u32, id: WatcherId) -> Option<&str> {
        let watched = self.paths.get(place as usize)?.as_ref()?;
        watched.data.find(id).map(|_| &*watched.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WatchKind, WatchMode};
    use super::*;

    fn table() -> WatchTable {
        let mut watches = WatchTable::new(0, 0);
        for (number, path, table) in [
            (1, "/a", WatchKind::Data),
            (2, "/a", WatchKind::Data),
            (2, "/b", WatchKind::Child),
            (1, "/c", WatchKind::Data),
        ] {
            assert!(watches.add(WatcherId::new(number), path, &[table], WatchMode::Standard));
        }
        watches
    }

    #[test]
    fn pages_add_up_to_the_whole_table() {
        for work_max in 1..8 {
            let (watches, mut found, mut from) = (table(), Vec::new(), Some(0));
            while let Some(place) = from {
                from = watches.scan_data_watches(place, work_max, |path, watchers| {
                    found.push((path.to_owned(), watchers.map(WatcherId::bits).collect::<Vec<_>>()));
                });
            }
            assert_eq!(found, [("/a".to_owned(), vec![1, 2]), ("/c".to_owned(), vec![1])], "{work_max}");
        }
    }

    #[test]
    fn watcher_lists_its_data_watches() {
        let watches = table();
        let (mut id, mut found) = (None, Vec::new());
        while let Some((next, places)) = watches.next_watcher(id) {
            let paths = places.into_iter().filter_map(|place| watches.data_path(place, next));
            found.push((next.bits(), paths.collect::<Vec<_>>()));
            id = Some(next);
        }
        assert_eq!(found, [(1, vec!["/a", "/c"]), (2, vec!["/a"])]);
    }
}
