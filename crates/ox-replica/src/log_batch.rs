//! Transactions on their way to the disk, framed as the log stores them.

use crate::limits::LOG_BATCH_BYTES;
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::jute::Jute;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{TxnDigest, TxnHeader};
use std::ops::Range;

/// A run of consecutive records. Log thread, applier and peers share it.
#[derive(Debug)]
pub struct LogBatch {
    /// Frames, back to back.
    pub bytes: Bytes,
    /// The first record's zxid.
    pub first: Zxid,
    /// The last record's zxid.
    pub last: Zxid,
    /// Number of records.
    pub records: usize,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(crate) struct Making {
    pub(crate) bytes: Vec<u8>,
    first: Zxid,
    last: Zxid,
    records: usize,
}

impl Making {
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The batch, if there is a record in it.
    pub(crate) fn finish(self) -> Option<LogBatch> {
        let Self { bytes, first, last, records } = self;
        (0 < records).then(|| LogBatch { bytes: bytes.into(), first, last, records })
    }

    /// An empty one in the memory of a batch that nobody needs any more; an unusually large one gives it back.
    pub(crate) fn reuse(batch: LogBatch) -> Option<Self> {
        let mut bytes = batch.bytes.try_into_mut().ok()?;
        bytes.clear();
        let mut bytes = Vec::from(bytes);
        bytes.shrink_to(2 * LOG_BATCH_BYTES);
        Some(Self { bytes, ..Self::default() })
    }

    /// Appends a record that a leader made. Returns where it stands.
    pub(crate) fn foreign(&mut self, zxid: Zxid, record: &[u8]) -> Range<usize> {
        let mark = begin_log_frame(&mut self.bytes);
        self.bytes.extend_from_slice(record);
        self.end(mark, zxid)
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

/// Where the type stands in an encoded header: behind session, cxid, zxid and time.
const TYPE_OFFSET: usize = 8 + 4 + 8 + 8;
