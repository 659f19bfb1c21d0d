//! Comparing the digests in records and snapshots with the tree's.
//!
//! A fuzzy snapshot contains parts of later transactions, so nothing is compared before replay has reached the last of
//! them. The snapshot's digest is compared after the transaction at which it was computed. A mismatch is counted, but
//! not fatal, because the writer may have been wrong. The exception is the first record of a new epoch: if it does not
//! match, the end of the old epoch is missing.

use ox_proto::Zxid;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_tree::State;

#[derive(Clone, Debug, Default)]
pub(crate) struct Digests {
    enabled: bool,
    /// The first zxid to compare.
    from: Zxid,
    /// The snapshot's digest, until it was compared.
    snapshot: Option<(Zxid, i64)>,
    pub(crate) compared: u64,
    pub(crate) mismatches: u64,
    pub(crate) first_mismatch: Option<Zxid>,
}

impl Digests {
    /// For a state loaded from the snapshot `last`, which contains parts of transactions up to `reach`.
    pub(crate) fn new(state: &State, last: Zxid, reach: Zxid, digest: Option<(Zxid, TxnDigest)>) -> Self {
        let snapshot = digest
            .filter(|(zxid, digest)| Zxid::ZERO < *zxid && last <= *zxid && digest.version == DIGEST_VERSION)
            .map(|(zxid, digest)| (zxid, digest.tree_digest));
        let enabled = state.options().digest_enabled;
        let mut digests = Self { enabled, from: reach, snapshot, ..Self::default() };
        digests.compare_snapshot(last, state);
        digests
    }

    /// Counts a record that was applied; returns whether its digest differs.
    pub(crate) fn after(&mut self, zxid: Zxid, digest: Option<TxnDigest>, differs: bool, state: &State) -> bool {
        self.compare_snapshot(zxid, state);
        let comparable = digest.is_some_and(|digest| digest.version == DIGEST_VERSION);
        if !self.enabled || zxid < self.from || !comparable {
            return false;
        }
        self.count(zxid, differs);
        differs
    }

    /// Whether digests were compared and all of them matched.
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
