//! Transactions to be logged, in the format of the log file.

use crate::limits::LOG_BATCH_BYTES;
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::jute::Jute;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{TxnDigest, TxnHeader};
use std::ops::Range;

/// Consecutive records, shared by log thread, replica and peers.
#[derive(Debug)]
pub struct LogBatch {
    /// Log frames, back to back.
    pub bytes: Bytes,
    pub first: Zxid,
    pub last: Zxid,
    pub records: usize,
}

/// A batch that is being built.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    pub(crate) bytes: Vec<u8>,
    first: Zxid,
    last: Zxid,
    records: usize,
}

impl OpenBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// None if the batch is empty.
    pub(crate) fn finish(self) -> Option<LogBatch> {
        let Self { bytes, first, last, records } = self;
        (0 < records).then(|| LogBatch { bytes: bytes.into(), first, last, records })
    }

    /// Reuses the memory of a batch that is no longer needed. The capacity of an unusually large one is released.
    pub(crate) fn reuse(batch: LogBatch) -> Option<Self> {
        let mut bytes = batch.bytes.try_into_mut().ok()?;
        bytes.clear();
        let mut bytes = Vec::from(bytes);
        bytes.shrink_to(2 * LOG_BATCH_BYTES);
        Some(Self { bytes, ..Self::default() })
    }

    /// Appends a record of the leader. Returns its range.
    pub(crate) fn foreign(&mut self, zxid: Zxid, record: &[u8]) -> Range<usize> {
        let mark = begin_log_frame(&mut self.bytes);
        self.bytes.extend_from_slice(record);
        self.end(mark, zxid)
    }

    /// Appends a record whose body `put_body` writes. `put_body` returns the type and the digest, or `None` to drop the
    /// record. Returns the range of the record.
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
        Some(self.end(mark, header.zxid))
    }

    fn end(&mut self, mark: usize, zxid: Zxid) -> Range<usize> {
        let end = self.bytes.len();
        end_log_frame(&mut self.bytes, mark);
        if self.records == 0 {
            self.first = zxid;
        }
        self.last = zxid;
        self.records += 1;
        mark..end
    }
}

/// Position of the type in an encoded header, after session, cxid, zxid and time.
const TYPE_OFFSET: usize = 8 + 4 + 8 + 8;
