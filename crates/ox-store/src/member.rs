//! The files of an ensemble member.
//!
//! ```text
//! Store::open_member ──> Standing   what this server may claim: a history, nothing, or less than nothing
//!                   ├──> MemberLog  log and epochs, for the one thread that works through its jobs in order
//!                   └──> Store      snapshots, purging, the stored history for learners; from any thread
//! ```
//! The jobs of that thread, each durable when it returns: append and sync; promise an epoch; take over a leader's epoch;
//! cut the history; replace it by a leader's snapshot. The order in which it is given them is the order in which they
//! reach the disk, so "history, then epoch, then acknowledgement" (R1) needs no further care. Any error is final.
//!
//! What is different from a standalone server: nothing is written at start that is not proven to be committed (no snapshot
//! but that of the empty tree, no removal of dead sessions' nodes); and damage does not stop the start but leads to quarantine, because
//! the others have what is missing here.

pub(crate) mod epochs;
mod identity;
pub(crate) mod install;
pub(crate) mod open;
mod quarantine;
mod truncate;

pub use epochs::{EpochError, Epochs};
pub use quarantine::Quarantine;
pub use truncate::Truncated;

use crate::error::Error;
use crate::lineage::{History, Lineage};
use crate::store::{RecoveryReport, Store, StoreOptions};
use crate::txn_log::{Appended, Synced, TxnLog};
use crate::window::Logged;
use epochs::EpochFiles;
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};

/// What to do about a history that is damaged or in doubt (`oxkeeper.recovery.onDamage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Start without it and get it from the others.
    #[default]
    Quarantine,
    /// Do not start.
    Exit,
    /// Use it where it is only in doubt; quarantine otherwise.
    Accept,
}

/// What the configuration says about a member's files, beside [`StoreOptions`].
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// `myid`.
    pub server: i64,
    /// `oxkeeper.recovery.onDamage`.
    pub on_damage: OnDamage,
    /// `commitLogCount`: how many of the newest records are kept for learners.
    pub window: usize,
    /// Text and version of `/zookeeper/config` in a snapshot without transactions, as in Apache's: a server that loads
    /// it shows this configuration.
    pub config: Option<(String, i64)>,
}

impl MemberOptions {
    /// Apache's defaults for a server.
    pub fn new(server: i64) -> Self {
        Self { server, on_damage: OnDamage::Quarantine, window: 500, config: None }
    }
}

/// What a member may claim.
pub enum Standing {
    /// A history. Everything that the claim rests on is durable.
    Loaded(Box<Loaded>),
    /// Nothing is stored, and nobody has said that this is right: it abstains until the others are known to be empty
    /// too ([`MemberLog::found`]) or a leader has sent its history ([`MemberLog::install`]).
    Empty,
    /// Something is stored that must not be used: only a leader's history can help.
    Quarantined(Quarantine),
}

/// A history that was read from the files.
pub struct Loaded {
    /// What it leads to. Its last zxid is the one to claim.
    pub state: State,
    /// The state contains parts of transactions up to here. While that is beyond its last zxid, this server must neither
    /// lead nor serve; and a leader that goes on behind it without sending the transaction of this very zxid has another
    /// history, so that only its snapshot helps.
    pub reach: Zxid,
    /// The newest records, without holes, the last of them the last of the history.
    pub window: Vec<Logged>,
    /// For the operator's log.
    pub report: RecoveryReport,
}

/// An opened member.
pub struct OpenedMember {
    /// Snapshots, purging, free space.
    pub store: Store,
    /// For the log thread.
    pub log: MemberLog,
    /// What may be claimed.
    pub standing: Standing,
    /// The time that new session ids begin with, as in [`crate::Opened`].
    pub session_clock_ms: i64,
}

/// A member's log and epochs.
pub struct MemberLog {
    log: TxnLog,
    epochs: EpochFiles,
    store: Store,
    options: StoreOptions,
    member: MemberOptions,
    tree_options: TreeOptions,
    /// How many histories the files have held.
    histories: u64,
    /// They hold one that counts.
    has_history: bool,
}

impl MemberLog {
    /// Last zxid appended, recovered or installed.
    pub fn last(&self) -> Zxid {
        self.log.last()
    }

    /// First zxid of the file being written.
    pub fn current_file(&self) -> Option<Zxid> {
        self.log.current_file()
    }

    /// The epochs that are on disk. In quarantine those that are known; 0 otherwise.
    pub fn epochs(&self) -> Epochs {
        self.epochs.epochs()
    }

    /// As [`TxnLog::append`].
    ///
    /// # Panics
    /// When `first` does not follow what was appended before, or there is no history to continue.
    pub fn append(&mut self, frames: &[u8], first: Zxid, last: Zxid, records: usize) -> Result<Appended, Error> {
        assert!(self.has_history, "nothing is appended to files that are not used");
        self.log.append(frames, first, last, records)
    }

    /// As [`TxnLog::sync`].
    pub fn sync(&mut self) -> Result<Synced, Error> {
        let synced = self.log.sync()?;
        if let Lineage::Member(history) = &mut *self.store.0.lineage.lock() {
            history.synced = synced.last;
        }
        Ok(synced)
    }

    /// Begins a new file with the next batch.
    pub fn roll(&mut self) {
        self.log.roll();
    }

    /// Promises to follow the leader of `epoch`, and none of a lower one. Comes before ACKEPOCH, or LEADERINFO.
    ///
    /// # Panics
    /// When a higher epoch was promised.
    pub fn set_accepted(&mut self, epoch: u32) -> Result<(), Error> {
        self.job(|log| log.epochs.set_accepted(epoch))
    }

    /// Takes the history that is held for that of `epoch`'s leader. Comes behind the history, before the
    /// acknowledgement of NEWLEADER.
    ///
    /// # Panics
    /// When that epoch was not accepted, or is an old one.
    pub fn set_current(&mut self, epoch: u32) -> Result<(), Error> {
        self.job(|log| log.epochs.set_current(epoch))
    }

    /// Removes the note: the leader's history and both epochs are in place. Comes before the acknowledgement of
    /// NEWLEADER; fine if there is no note.
    pub fn end_quarantine(&mut self) -> Result<(), Error> {
        self.job(|log| Quarantine::remove(&*log.store.0.disk, &log.store.0.dirs.snapshots))
    }

    /// Ends cleanly, as [`TxnLog::close`]. Files that were not used stay as they are.
    pub fn close(self) -> Result<(), Error> {
        if self.has_history { self.log.close() } else { Ok(()) }
    }

    /// Runs `work` unless something failed before; an error makes all later calls fail.
    fn job<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.log.has_failed() {
            return Err(Error::LogFailed);
        }
        let outcome = work(self);
        if outcome.is_err() {
            self.log.fail();
        }
        outcome
    }

    /// The files hold another history now.
    fn begin_history(&mut self, floor: Zxid, last: Zxid, reach: Zxid) {
        (self.histories, self.has_history) = (self.histories + 1, true);
        let history = History { number: self.histories, floor, synced: last, reach };
        *self.store.0.lineage.lock() = Lineage::Member(history);
    }
}
