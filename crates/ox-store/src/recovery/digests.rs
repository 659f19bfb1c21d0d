//! Comparing the digests that records and snapshots carry with the tree's own.
//!
//! A fuzzy snapshot holds part of the future, so nothing is compared before the tree has caught up with it; the
//! snapshot's digest is compared when the transaction it was taken at has been applied. A mismatch is counted, not
//! fatal (the writer may have been wrong), except that a first record of a new epoch that does not fit shows that
//! the end of the old epoch is missing.

use ox_proto::Zxid;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_tree::State;

/// The comparison so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests {
    enabled: bool,
    /// Nothing is compared before this.
    from: Zxid,
    /// The snapshot's own digest, until it was compared.
    snapshot: Option<(Zxid, i64)>,
    pub(crate) compared: u64,
    pub(crate) mismatches: u64,
    pub(crate) first_mismatch: Option<Zxid>,
}

impl Digests {
    /// For a state loaded from a snapshot named `last` that contains parts of everything up to `reach`.
    pub(crate) fn new(state: &State, last: Zxid, reach: Zxid, digest: Option<(Zxid, TxnDigest)>) -> Self {
        let snapshot = digest
            .filter(|(zxid, digest)| Zxid::ZERO < *zxid && last <= *zxid && digest.version == DIGEST_VERSION)
            .map(|(zxid, digest)| (zxid, digest.tree_digest));
        let enabled = state.options().digest_enabled;
        let mut digests = Self { enabled, from: reach, snapshot, ..Self::default() };
        digests.compare_snapshot(last, state);
        digests
    }

    /// After a record was applied; true if its digest does not fit.
    pub(crate) fn after(&mut self, zxid: Zxid, digest: Option<TxnDigest>, differs: bool, state: &State) -> bool {
        self.compare_snapshot(zxid, state);
        let comparable = digest.is_some_and(|digest| digest.version == DIGEST_VERSION);
        if !self.enabled || zxid < self.from || !comparable {
            return false;
        }
        self.count(zxid, differs);
        differs
    }

    /// True if digests were compared and all of them fitted.
    pub(crate) fn are_trusted(&self) -> bool {
        0 < self.compared && self.mismatches == 0
    }

    fn compare_snapshot(&mut self, at: Zxid, state: &State) {
        if let Some((_, expected)) = self.snapshot.take_if(|(zxid, _)| *zxid == at)
            && self.enabled
        {
            self.count(at, expected != state.digest());
        }
    }

    fn count(&mut self, zxid: Zxid, differs: bool) {
        self.compared += 1;
        if differs {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert(zxid);
        }
    }
}
