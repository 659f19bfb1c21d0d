//! Offline tools for the files of a server: print, check, summarise, compare, recover. They only read, except that a
//! recovery or a copy writes one new file.
//!
//! The tools classify damage by the code that a server runs at start: `ox_store::log_tail` for logs,
//! `ox_store::load_snapshot` for snapshots, `ox_store::start_preview` for directories. [`locate`] finds the files;
//! [`dump`] prints them; [`log_check`] and [`snapshot_check`] examine one of them, [`summary`] and [`compare`] the trees
//! in them; [`recover`] writes an intact log from a damaged one, [`log_copy`] makes the copies of Apache's toolkit.

pub mod compare;
pub mod dump;
pub mod locate;
pub mod log_check;
pub mod log_copy;
pub mod recover;
pub mod snapshot_check;
pub mod summary;
