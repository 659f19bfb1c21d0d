//! Watches below each top-level node, for metrics.
//!
//! Watches of one client usually have the same top-level node, so the last one is tried first.

use crate::limits::{TOP_LEVEL_NAME_BYTES_MAX, TOP_LEVEL_NODES_MAX};
use std::collections::BTreeMap;

/// Counts watches. Clients choose the paths, so the number of names is bounded; names are kept, because a watch must be
/// subtracted from where it was added.
#[derive(Debug, Default)]
pub(super) struct ByTopLevel {
    is_on: bool,
    counts: Vec<(Box<str>, i64)>,
    index: BTreeMap<Box<str>, usize>,
    last: usize,
}

impl ByTopLevel {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    pub(super) fn add(&mut self, path: &str, change: i64) {
        if !self.is_on || change == 0 {
            return;
        }
        let Some(name) = path.strip_prefix('/').and_then(|names| names.split('/').next()) else { return };
        if self.counts.get(self.last).is_none_or(|(last, _)| **last != *name) {
            let Some(found) = self.find(name) else { return };
            self.last = found;
        }
        self.counts[self.last].1 += change;
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        if let Some(found) = self.index.get(name) {
            return Some(*found);
        }
        let is_kept = (1..=TOP_LEVEL_NAME_BYTES_MAX).contains(&name.len());
        if !is_kept || TOP_LEVEL_NODES_MAX <= self.counts.len() {
            return None;
        }
        self.counts.push((name.into(), 0));
        self.index.insert(name.into(), self.counts.len() - 1);
        Some(self.counts.len() - 1)
    }

    /// Names with their watches, without those that have none.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, i64)> {
        self.counts.iter().filter(|(_, count)| *count != 0).map(|(name, count)| (&**name, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &ByTopLevel) -> Vec<(&str, i64)> {
        counts.counts().collect()
    }

    #[test]
    fn watches_are_counted_by_first_name() {
        let mut counts = ByTopLevel::new(true);
        for (path, change) in [("/a/b", 2), ("/a", 1), ("/b", 1), ("/a/c", -1), ("/b/x", -1), ("/", 5), ("x", 5)] {
            counts.add(path, change);
        }
        assert_eq!(counted(&counts), [("a", 2)]);
        let mut off = ByTopLevel::new(false);
        off.add("/a", 1);
        assert_eq!(counted(&off), []);
    }

    #[test]
    fn names_are_bounded_and_never_negative() {
        let mut counts = ByTopLevel::new(true);
        for number in 0..TOP_LEVEL_NODES_MAX + 5 {
            counts.add(&format!("/n{number}"), 1);
        }
        counts.add(&format!("/{}", "x".repeat(TOP_LEVEL_NAME_BYTES_MAX + 1)), 1);
        assert_eq!(counts.counts().count(), TOP_LEVEL_NODES_MAX);
        for number in 0..TOP_LEVEL_NODES_MAX + 5 {
            counts.add(&format!("/n{number}"), -1);
        }
        assert_eq!(counted(&counts), []);
    }
}
