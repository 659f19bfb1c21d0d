//! What operators do with files: check, sum up, compare, recover. Reads only, except for one new file.
//!
//! Nothing here has an opinion of its own on what is damaged: `damage.rs` judges logs, `recovery` directories and
//! snapshots, exactly as when a server starts. [`source`] finds the files, [`log`] and [`snapshot`] look at one of them,
//! [`history`] at a directory, [`summary`] and [`compare`] at the trees they hold; [`recover`] makes a good log out of
//! a bad one.

pub mod compare;
pub mod history;
pub mod log;
pub mod recover;
pub mod snapshot;
pub mod source;
pub mod summary;

/// A server's `maxBatchSize` unless its configuration says otherwise: how much may follow a torn record.
const BATCH_MAX: usize = 1000;
