//! Writes that took long, for the log of the server.

use ox_proto::txn::{Record, Txn};
use ox_proto::{OpCode, SessionId, Zxid};

/// Slow writes kept until they are taken; further ones are counted.
const KEPT_MAX: usize = 8;

/// When a write passed the first stages, in milliseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteTimes {
    /// When the I/O thread handed it over.
    pub(crate) submitted_ms: i64,
    /// When it was prepared here, or sent to the leader.
    pub(crate) prepared_ms: i64,
}

impl WriteTimes {
    /// Of a write that no request of a client asks for: it is never slow.
    pub(crate) const UNTIMED: Self = Self { submitted_ms: i64::MAX, prepared_ms: i64::MAX };
}

/// A write of a client of this server that took at least as long as the limit, until it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowWrite {
    pub session: SessionId,
    pub cxid: i32,
    pub zxid: Zxid,
    /// Of the transaction: `error` if the write failed.
    pub op: Option<OpCode>,
    /// `None` if the transaction has none.
    pub path: Option<String>,
    pub submitted_ms: i64,
    pub prepared_ms: i64,
    pub applied_ms: i64,
}

#[derive(Debug, Default)]
pub struct SlowWrites {
    /// Writes that take at least so long are slow; 0 means none.
    limit_ms: i64,
    kept: Vec<SlowWrite>,
    more: u64,
}

impl SlowWrites {
    pub(crate) fn set_limit(&mut self, limit_ms: i64) {
        self.limit_ms = limit_ms;
    }

    /// A write is applied.
    pub(crate) fn note(&mut self, times: WriteTimes, record: &Record<'_>, applied_ms: i64) {
        if self.limit_ms == 0 || applied_ms - times.submitted_ms < self.limit_ms {
            return;
        }
        if self.kept.len() == KEPT_MAX {
            self.more += 1;
            return;
        }
        let header = &record.header;
        self.kept.push(SlowWrite {
            session: header.session,
            cxid: header.cxid,
            zxid: header.zxid,
            op: OpCode::try_from(header.kind).ok(),
            path: path(&record.txn).map(str::to_owned),
            submitted_ms: times.submitted_ms,
            prepared_ms: times.prepared_ms,
            applied_ms,
        });
    }

    /// The slow writes since the last call, and how many more there were.
    pub fn take(&mut self) -> (Vec<SlowWrite>, u64) {
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.more))
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// The path of a transaction; of a multi the first one.
fn path<'a>(txn: &'a Txn<'_>) -> Option<&'a str> {
    match txn {
        Txn::Create(create) => Some(&create.path),
        Txn::SetData { path, .. }
        | Txn::Reconfig { path, .. }
        | Txn::SetAcl { path, .. }
        | Txn::Check { path, .. }
        | Txn::Delete { path }
        | Txn::DeleteContainer { path } => Some(path),
        Txn::Multi(elements) => elements.iter().find_map(path),
        Txn::CreateSession { .. } | Txn::CloseSession { .. } | Txn::Error { .. } => None,
    }
}
