//! What a server keeps on disk: transaction logs, snapshots, and how both become a state again.
//!
//! The files are Apache ZooKeeper's, byte for byte; they are written more carefully and read more sceptically.
//! Three promises hold everywhere:
//!
//! - what [`TxnLog::sync`] has covered survives a power cut, and a start after one needs nobody's help;
//! - a history with something missing is refused with its name, place and zxids, never served;
//! - after every start Apache can open the directory, and after Apache we can.
//!
//! Read [`disk`] first (the one door to the file system, real and simulated), then [`txn_log`], [`snapshot`],
//! `recovery` and [`store`], which puts them together; for an ensemble member, [`member`].

pub mod config_files;
mod damage;
mod directories;
pub mod disk;
pub mod dump;
mod error;
mod history;
mod limits;
mod lineage;
pub mod log_reader;
pub mod marker;
pub mod member;
pub mod names;
pub mod purge;
mod random;
mod recovery;
mod session_clock;
mod small_file;
pub mod snapshot;
mod space;
pub mod store;
pub mod tools;
pub mod txn_log;
mod window;

pub use config_files::ConfigFiles;
pub use damage::Verdict;
pub use error::{Damage, Error, Rejected};
pub use history::StoredHistory;
pub use member::{Epochs, Loaded, MemberLog, MemberOptions, OnDamage, OpenedMember, Quarantine, Standing, Truncated};
pub use recovery::{Dropped, TornTail};
pub use space::{Space, has_room};
pub use store::{Opened, RecoveryReport, SnapshotTaken, StartSnapshot, Store, StoreOptions};
pub use txn_log::{Appended, LogOptions, Synced, TxnLog};
pub use window::Logged;
