//! Stored logs that are looked into for learners, and what was found: kept until it is sent, and for nobody who is gone.

use ox_zab::LinkId;
use std::collections::BTreeMap;

/// What is found, by link; none while it is looked for.
pub(super) struct LogDiffReads<History>(BTreeMap<LinkId, Option<History>>);

impl<History> Default for LogDiffReads<History> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<History> LogDiffReads<History> {
    /// A log is looked into.
    pub(super) fn begin(&mut self, link: LinkId) {
        self.0.insert(link, None);
    }

    /// That has come to an end. Nobody takes out what is found for a link that is gone meanwhile.
    pub(super) fn end(&mut self, link: LinkId, found: Option<History>) {
        match self.0.get_mut(&link) {
            Some(place) if found.is_some() => *place = found,
            Some(_) => drop(self.0.remove(&link)),
            None => (),
        }
    }

    /// Takes out what was found.
    pub(super) fn take(&mut self, link: LinkId) -> Option<History> {
        self.0.remove(&link).flatten()
    }

    /// The link is gone, or gets something else.
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
    fn what_is_found_is_taken_once() {
        let mut log_diff_reads = LogDiffReads::default();
        log_diff_reads.begin(LINK);
        assert!(log_diff_reads.take(LINK).is_none(), "it is still looked for");
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
    fn who_goes_away_leaves_nothing() {
        let mut log_diff_reads = LogDiffReads::default();
        for goes_first in [true, false] {
            log_diff_reads.begin(LINK);
            let (history, is_kept) = found();
            if goes_first {
                log_diff_reads.forget(LINK);
            }
            log_diff_reads.end(LINK, history);
            if !goes_first {
                log_diff_reads.forget(LINK);
            }
            assert!(is_kept.upgrade().is_none() && log_diff_reads.0.is_empty(), "gone first: {goes_first}");
        }
    }
}
