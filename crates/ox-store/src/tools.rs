//! Offline tools for files: check, summarise, compare, recover. They only read, except that a recovery writes one new
//! file.
//!
//! The tools classify damage by the code that a server runs at start: `log_tail.rs` for logs, `recovery` for
//! directories and snapshots. [`locate`] finds the files; [`log`] and [`snapshot`] examine one of them,
//! [`start_preview`] a directory, [`summary`] and [`compare`] the trees in them; [`recover`] writes an intact log from
//! a damaged one.

pub mod compare;
pub mod locate;
pub mod log;
pub mod recover;
pub mod snapshot;
pub mod start_preview;
pub mod summary;

/// The default of `maxBatchSize`: how many records may follow a torn one.
const BATCH_MAX: usize = 1000;
