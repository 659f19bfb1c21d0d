//! The part of the files that belongs to this server's present history.
//!
//! A truncation or the installation of a leader's snapshot changes a member's history. Threads other than the log
//! thread check here what the files are valid for.

use crate::error::StoreError;
use ox_proto::Zxid;

/// What the files are valid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidRange {
    /// All files of a standalone server are always valid.
    Standalone,
    /// Nothing: the member is empty or quarantined. The files must not change until a leader has synchronised it.
    Unusable,
    /// The present history of a member.
    Member(MemberRange),
}

/// The present history of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberRange {
    /// Distinguishes the history from earlier ones of the same process.
    pub(crate) number: u64,
    /// The snapshot from which an unbroken chain of records starts. Older logs may be gone or belong to another
    /// history.
    pub(crate) floor: Zxid,
    /// The last durable zxid.
    pub(crate) synced: Zxid,
    /// The tree contains parts of transactions up to here, so that no earlier snapshot is possible.
    pub(crate) reach: Zxid,
}

impl ValidRange {
    /// Raises the floor before the logs below a snapshot are purged, because a gap between two epochs would not be
    /// noticed.
    pub(crate) fn raise_floor(&mut self, snapshot: Zxid) {
        if let Self::Member(history) = self {
            history.floor = history.floor.max(snapshot);
        }
    }

    /// Whether a snapshot of the state at `last` may be written.
    pub(crate) fn check_snapshot(&self, last: Zxid) -> Result<(), StoreError> {
        match self {
            Self::Standalone => Ok(()),
            Self::Unusable => Err(StoreError::NotSynced),
            Self::Member(history) if last < history.reach => {
                Err(StoreError::SnapshotBehind { last, reach: history.reach })
            }
            // The start of an epoch has no record of its own.
            Self::Member(history) if history.synced < last && last.counter() != 0 => {
                Err(StoreError::SnapshotAhead { last, synced: history.synced })
            }
            Self::Member(_) => Ok(()),
        }
    }
}
