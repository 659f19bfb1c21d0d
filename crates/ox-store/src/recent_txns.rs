//! The newest transactions that recovery reads from the log. At the start of a member they become the contents of
//! `ox-zab/src/recent_log.rs`, from which a leader synchronises learners that are slightly behind.

use crate::limits::RECENT_TXNS_BYTES_MAX;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// A transaction as it is logged and proposed: header, body, digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRecord {
    pub zxid: Zxid,
    /// The encoded record, without the frame of the log.
    pub record: Vec<u8>,
}

/// The last records without gaps, limited in number and bytes.
#[derive(Debug, Default)]
pub(crate) struct RecentTxns {
    records_max: usize,
    records: VecDeque<LoggedRecord>,
    bytes: usize,
}

impl RecentTxns {
    pub(crate) fn new(records_max: usize) -> Self {
        Self { records_max, ..Self::default() }
    }

    pub(crate) fn push(&mut self, zxid: Zxid, record: &[u8]) {
        if self.records_max == 0 {
            return;
        }
        if self.records.back().is_some_and(|last| !zxid.follows(last.zxid)) {
            (self.records, self.bytes) = (VecDeque::new(), 0);
        }
        let mut spare = Vec::new();
        let is_full = |recent_txns: &Self| {
            recent_txns.records_max <= recent_txns.records.len() || RECENT_TXNS_BYTES_MAX < recent_txns.bytes
        };
        self.bytes += record.len();
        while !self.records.is_empty() && is_full(self) {
            spare = self.records.pop_front().map(|oldest| oldest.record).unwrap_or_default();
            self.bytes -= spare.len();
        }
        spare.clear();
        spare.extend_from_slice(record);
        self.records.push_back(LoggedRecord { zxid, record: spare });
    }

    pub(crate) fn into_records(self) -> Vec<LoggedRecord> {
        self.records.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zxids(recent_txns: RecentTxns) -> Vec<i64> {
        recent_txns.into_records().into_iter().map(|logged| logged.zxid.0).collect()
    }

    fn filled(records_max: usize, records: &[(i64, usize)]) -> Vec<i64> {
        let mut recent_txns = RecentTxns::new(records_max);
        records.iter().for_each(|(zxid, length)| recent_txns.push(Zxid(*zxid), &vec![1; *length]));
        zxids(recent_txns)
    }

    #[test]
    fn newest_records_are_kept_without_gaps() {
        assert_eq!(filled(0, &[(1, 1), (2, 1)]), [0; 0]);
        assert_eq!(filled(2, &[(1, 1), (2, 1), (3, 1)]), [2, 3]);
        assert_eq!(filled(9, &[(1, 1), (2, 1), (4, 1), (5, 1)]), [4, 5], "nothing before a gap");
        let large = RECENT_TXNS_BYTES_MAX / 2;
        assert_eq!(filled(9, &[(1, large), (2, large), (3, 1)]), [2, 3], "bounded in bytes");
        assert_eq!(filled(9, &[(1, 1), (2, 3 * large)]), [2], "always at least one");
    }
}
