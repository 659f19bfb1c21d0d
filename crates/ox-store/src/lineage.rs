//! Which part of the files is this server's history.
//!
//! An ensemble member may have to give up its history: it is cut, or replaced by the leader's. Whoever works with files
//! beside the log thread asks here what they stand for at the moment.

use crate::error::Error;
use ox_proto::Zxid;

/// What the files stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lineage {
    /// The history of a standalone server, always all of it.
    Standalone,
    /// Nothing, or nothing that can be trusted: left alone until a leader's history has taken its place.
    Unusable,
    /// The history of a member.
    Member(History),
}

/// The history of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// Told from those before it.
    pub(crate) number: u64,
    /// The snapshot that an unbroken chain of records starts from; the logs before it prove nothing, or may be gone.
    pub(crate) floor: Zxid,
    /// Everything up to here is durable.
    pub(crate) synced: Zxid,
    /// The tree has parts of everything up to here: no snapshot before that.
    pub(crate) reach: Zxid,
}

impl Lineage {
    /// The logs of what is before a snapshot go. Between epochs nobody could tell that something is missing.
    pub(crate) fn begins_at(&mut self, snapshot: Zxid) {
        if let Self::Member(history) = self {
            history.floor = history.floor.max(snapshot);
        }
    }

    /// Whether a snapshot of the state at `last` may be written.
    pub(crate) fn check_snapshot(&self, last: Zxid) -> Result<(), Error> {
        match self {
            Self::Standalone => Ok(()),
            Self::Unusable => Err(Error::NotSynced),
            Self::Member(history) if last < history.reach => Err(Error::SnapshotBehind { last, reach: history.reach }),
            // The start of an epoch has no record of its own.
            Self::Member(history) if history.synced < last && last.counter() != 0 => {
                Err(Error::SnapshotAhead { last, synced: history.synced })
            }
            Self::Member(_) => Ok(()),
        }
    }
}
