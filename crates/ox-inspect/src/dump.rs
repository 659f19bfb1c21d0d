//! Logs and snapshots as text.
//!
//! The text formats are those of Apache's toolkits, so that scripts that parse them keep working; times are always UTC.
//! The JSON formats are ours: one object per line, bytes in base64, ids and zxids as hex strings, because many JSON
//! parsers have no 64-bit integers.

mod date;
mod json;
pub mod log;
pub mod snapshot;

pub use date::utc;
