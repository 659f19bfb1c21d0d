//! The files of an ensemble member.
//!
//! ```text
//! Store::open_member ──> OpenOutcome   what the files contain: a history, nothing, or a quarantined history
//!                   ├──> MemberLog     log and epochs, for the log thread, which executes its jobs in order
//!                   └──> Store         snapshots, purging, log diffs for learners; from any thread
//! ```
//! The jobs of the log thread, each durable when it returns: append and sync; store an accepted epoch; store a current
//! epoch; truncate the log; install a leader's snapshot. They reach the disk in the order in which they were queued,
//! which ensures "history, then epoch, then acknowledgement" (R1). Any error is final.
//!
//! A member differs from a standalone server in two ways. At start it does not know which transactions are committed, so
//! it writes no snapshot except that of the empty tree, and does not delete nodes of dead sessions. And it starts with
//! damaged files, but quarantines them, because the other members have the missing transactions.

pub(crate) mod epochs;
pub(crate) mod identity;
pub(crate) mod install;
pub(crate) mod open;
mod quarantine;
mod truncate;

pub use epochs::{EpochError, StoredEpochs};
pub use quarantine::Quarantine;
pub use truncate::Truncated;

use crate::error::StoreError;
use crate::recent_txns::LoggedRecord;
use crate::store::{RecoveryReport, Store, StoreOptions};
use crate::txn_log::{Appended, Synced, TxnLog};
use crate::valid_range::{MemberRange, ValidRange};
use epochs::EpochFiles;
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};

/// What to do about a history that is damaged or in doubt (`oxkeeper.recovery.onDamage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Start without it, and wait for a leader's snapshot.
    #[default]
    Quarantine,
    Exit,
    /// Use a history that is in doubt; quarantine a damaged one.
    Accept,
}

/// Settings of a member's files, in addition to [`StoreOptions`].
#[derive(Clone, Debug)]
pub struct MemberOptions {
    pub server: i64,
    pub on_damage: OnDamage,
    /// `commitLogCount`: how many of the newest records are kept for learners.
    pub recent_max: usize,
    /// Text and version of `/zookeeper/config` in the snapshot without transactions. As in Apache, a server that loads
    /// the snapshot shows this configuration.
    pub config: Option<(String, i64)>,
}

impl MemberOptions {
    /// Apache's defaults for a server.
    pub fn new(server: i64) -> Self {
        Self { server, on_damage: OnDamage::Quarantine, recent_max: 500, config: None }
    }
}

/// What the files of a member contain.
pub enum OpenOutcome {
    /// A history, all of it durable. The member may vote with it.
    Loaded(Box<Loaded>),
    /// No history, and no file `initialize` or setting that permits to start without one. The member abstains until it
    /// knows that the other members are empty too ([`MemberLog::initialize`]), or until a leader has sent its snapshot
    /// ([`MemberLog::install`]).
    Empty,
    /// A history that must not be used, until a leader's snapshot replaces it.
    Quarantined(Quarantine),
}

/// A history that was read from the files.
pub struct Loaded {
    /// The recovered state. Its last zxid is the member's.
    pub state: State,
    /// The state contains parts of transactions up to here. While this is above its last zxid, the server must neither
    /// lead nor serve. If a leader continues after it without sending the transaction of this very zxid, the leader has
    /// a different history, and only its snapshot helps.
    pub reach: Zxid,
    /// The newest records without gaps, up to the end of the history.
    pub recent_txns: Vec<LoggedRecord>,
    /// For the operator's log.
    pub report: RecoveryReport,
}

/// The handles of an opened member.
pub struct OpenedMember {
    /// For snapshots, purging and free space.
    pub store: Store,
    /// For the log thread.
    pub log: MemberLog,
    pub outcome: OpenOutcome,
    /// The initial time of new session ids, as in [`crate::Opened`].
    pub session_clock_ms: i64,
}

/// The log and epochs of a member.
pub struct MemberLog {
    log: TxnLog,
    epochs: EpochFiles,
    store: Store,
    options: StoreOptions,
    member: MemberOptions,
    tree_options: TreeOptions,
    /// The number of histories that the files have contained since the start.
    histories: u64,
    /// The files contain a history that may be continued.
    has_history: bool,
}

impl MemberLog {
    /// The last zxid that was appended, recovered or installed.
    pub fn last(&self) -> Zxid {
        self.log.last()
    }

    /// The first zxid of the file being written.
    pub fn current_file(&self) -> Option<Zxid> {
        self.log.current_file()
    }

    /// The epochs on disk. A quarantined member may know only some of them; the others are 0.
    pub fn epochs(&self) -> StoredEpochs {
        self.epochs.epochs()
    }

    /// As [`TxnLog::append`].
    ///
    /// # Panics
    /// If `first` does not follow the last record, or there is no history to continue.
    pub fn append(&mut self, frames: &[u8], first: Zxid, last: Zxid, records: usize) -> Result<Appended, StoreError> {
        assert!(self.has_history, "append without a usable history");
        self.log.append(frames, first, last, records)
    }

    /// Makes appended records durable, as [`TxnLog::sync`].
    pub fn sync(&mut self) -> Result<Synced, StoreError> {
        let synced = self.log.sync()?;
        if let ValidRange::Member(history) = &mut *self.store.0.valid_range.lock() {
            history.synced = synced.last;
        }
        Ok(synced)
    }

    /// Starts a new file with the next batch.
    pub fn roll(&mut self) {
        self.log.roll();
    }

    /// Stores `epoch` in `acceptedEpoch`, before ACKEPOCH or LEADERINFO is sent.
    ///
    /// # Panics
    /// If a higher epoch was accepted.
    pub fn set_accepted(&mut self, epoch: u32) -> Result<(), StoreError> {
        self.job(|log| log.epochs.set_accepted(epoch))
    }

    /// Stores `epoch` in `currentEpoch`, after its leader's history is durable and before NEWLEADER is acknowledged.
    ///
    /// # Panics
    /// If the epoch was not accepted, or is below the current one.
    pub fn set_current(&mut self, epoch: u32) -> Result<(), StoreError> {
        self.job(|log| log.epochs.set_current(epoch))
    }

    /// Removes `oxk.quarantine`, if it exists: the leader's history and both epochs are durable. Must precede the
    /// acknowledgement of NEWLEADER.
    pub fn end_quarantine(&mut self) -> Result<(), StoreError> {
        self.job(|log| Quarantine::remove(&*log.store.0.disk, &log.store.0.dirs.snapshots))
    }

    /// Stops cleanly, as [`TxnLog::close`]. The files of an empty or quarantined member stay unchanged.
    pub fn close(self) -> Result<(), StoreError> {
        if self.has_history { self.log.close() } else { Ok(()) }
    }

    /// Runs `work` unless an earlier call failed. An error makes all later calls fail.
    fn job<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.log.has_failed() {
            return Err(StoreError::LogFailed);
        }
        let outcome = work(self);
        if outcome.is_err() {
            self.log.fail();
        }
        outcome
    }

    /// Notes that the files contain a new history.
    fn begin_history(&mut self, floor: Zxid, last: Zxid, reach: Zxid) {
        (self.histories, self.has_history) = (self.histories + 1, true);
        let history = MemberRange { number: self.histories, floor, synced: last, reach };
        *self.store.0.valid_range.lock() = ValidRange::Member(history);
    }
}
