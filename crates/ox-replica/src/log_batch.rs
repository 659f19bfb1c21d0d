//! Transactions on their way to the disk, framed as the log stores them.

use crate::limits::LOG_BATCH_BYTES;
use ox_proto::Zxid;
use ox_proto::jute::Jute;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{TxnDigest, TxnHeader};
use std::ops::Range;

/// A run of consecutive records. Log thread, applier and peers share it.
#[derive(Debug, Default)]
pub struct LogBatch {
    /// Frames, back to back.
    pub bytes: Vec<u8>,
    /// The first record's zxid.
    pub first: Zxid,
    /// The last record's zxid.
    pub last: Zxid,
    /// Number of records.
    pub records: usize,
}

impl LogBatch {
    /// Makes it empty; an unusually large one gives its memory back.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * LOG_BATCH_BYTES);
        self.records = 0;
    }

    /// Appends one record whose body `put_body` writes. It returns the type and whether a digest follows, or
    /// `None` to take the record back. Returns where the record stands.
    pub(crate) fn record(
        &mut self,
        mut header: TxnHeader,
        put_body: impl FnOnce(&mut Vec<u8>) -> Option<(i32, Option<TxnDigest>)>,
    ) -> Option<Range<usize>> {
        let start = self.bytes.len();
        let mark = begin_log_frame(&mut self.bytes);
        header.put(&mut self.bytes);
        let Some((kind, digest)) = put_body(&mut self.bytes) else {
            self.bytes.truncate(start);
            return None;
        };
        header.kind = kind;
        let kind_at = mark + TYPE_OFFSET;
        self.bytes[kind_at..kind_at + 4].copy_from_slice(&kind.to_be_bytes());
        if let Some(digest) = digest {
            digest.put(&mut self.bytes);
        }
        let end = self.bytes.len();
        end_log_frame(&mut self.bytes, mark);
        if self.records == 0 {
            self.first = header.zxid;
        }
        self.last = header.zxid;
        self.records += 1;
        Some(mark..end)
    }
}

/// Where the type stands in an encoded header: behind session, cxid, zxid and time.
const TYPE_OFFSET: usize = 8 + 4 + 8 + 8;
