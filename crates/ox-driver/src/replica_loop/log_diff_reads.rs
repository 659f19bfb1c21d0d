//! Searches of the on-disk log for learners, by link. A result is kept until it is sent, or until the link is closed.
//! The host runs the searches, and the peers thread sends the results.

use ox_zab::LinkId;
use std::collections::BTreeMap;

/// Results by link; `None` while the search runs.
pub(super) struct LogDiffReads<History>(BTreeMap<LinkId, Option<History>>);

impl<History> Default for LogDiffReads<History> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<History> LogDiffReads<History> {
    /// Registers a search for a link.
    pub(super) fn begin(&mut self, link: LinkId) {
        self.0.insert(link, None);
    }

    /// Stores the result of a search. It is dropped if the link was closed meanwhile.
    pub(super) fn end(&mut self, link: LinkId, found: Option<History>) {
        match self.0.get_mut(&link) {
            Some(slot) if found.is_some() => *slot = found,
            Some(_) => drop(self.0.remove(&link)),
            None => (),
        }
    }

    /// Takes the result, once.
    pub(super) fn take(&mut self, link: LinkId) -> Option<History> {
        self.0.remove(&link).flatten()
    }

    /// Drops a search, because the link is closed or the learner gets a snapshot.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.0.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Weak};

    const LINK: LinkId = LinkId(7);

    fn found() -> (Option<Arc<()>>, Weak<()>) {
        let history = Arc::new(());
        let is_kept = Arc::downgrade(&history);
        (Some(history), is_kept)
    }

    #[test]
    fn result_is_taken_once() {
        let mut log_diff_reads = LogDiffReads::default();
        log_diff_reads.begin(LINK);
        assert!(log_diff_reads.take(LINK).is_none(), "the search still runs");
        log_diff_reads.begin(LINK);
        let (history, is_kept) = found();
        log_diff_reads.end(LINK, history);
        assert!(log_diff_reads.take(LINK).is_some() && log_diff_reads.take(LINK).is_none());
        assert!(is_kept.upgrade().is_none());
        log_diff_reads.begin(LINK);
        log_diff_reads.end(LINK, None);
        assert!(log_diff_reads.0.is_empty());
    }

    #[test]
    fn closed_link_leaves_no_result() {
        let mut log_diff_reads = LogDiffReads::default();
        for closes_first in [true, false] {
            log_diff_reads.begin(LINK);
            let (history, is_kept) = found();
            if closes_first {
                log_diff_reads.forget(LINK);
            }
            log_diff_reads.end(LINK, history);
            if !closes_first {
                log_diff_reads.forget(LINK);
            }
            assert!(is_kept.upgrade().is_none() && log_diff_reads.0.is_empty(), "closed first: {closes_first}");
        }
    }
}
