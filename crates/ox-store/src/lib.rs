//! The files of a server: transaction logs and snapshots, and recovery of the state from them.
//!
//! The file formats are Apache ZooKeeper's. Three guarantees hold everywhere:
//!
//! - what [`TxnLog::sync`] has covered survives a power cut, and the next start needs no operator;
//! - an incomplete history is refused, with file, offset and zxids, and never served;
//! - after every start Apache can open the directory, and after Apache we can.
//!
//! Read [`disk`] first (the file system, real and simulated), then [`txn_log`], [`snapshot`], `recovery` and [`store`],
//! which combines them; for an ensemble member, [`member`].

mod atomic_file;
pub mod config_files;
mod directories;
pub mod disk;
mod error;
mod free_space;
mod limits;
mod log_diff;
mod log_location;
pub mod log_reader;
pub mod log_tail;
pub mod marker;
pub mod member;
pub mod names;
pub mod purge;
mod random;
mod recent_txns;
mod recovery;
mod session_clock;
pub mod snapshot;
pub mod start_preview;
pub mod store;
pub mod txn_log;
mod valid_range;

pub use config_files::ConfigFiles;
pub use error::{Damage, IoContext, RejectedSnapshot, StoreError};
pub use free_space::{FreeSpace, free_space_needed, has_free_space};
pub use log_diff::LogDiff;
pub use member::{
    Loaded, MemberLog, MemberOptions, OnDamage, OpenOutcome, OpenedMember, Quarantine, StoredEpochs, Truncated,
};
pub use recent_txns::LoggedRecord;
pub use recovery::replay::{Lookback, is_empty_log};
pub use recovery::{DroppedTail, LoadedSnapshot, TornTail, load_snapshot, load_snapshot_stream};
pub use store::{Opened, RecoveryReport, SnapshotTaken, StartSnapshot, Store, StoreOptions};
pub use txn_log::{Appended, LogOptions, Synced, TxnLog};
