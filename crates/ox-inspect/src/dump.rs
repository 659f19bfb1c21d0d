//! Logs and snapshots as text.
//!
//! The text formats are those of Apache's toolkits, so that scripts that parse them keep working; times are always UTC.
//! The JSON formats are ours: one object per line, bytes in base64, ids and zxids as hex strings, because many JSON
//! parsers have no 64-bit integers.

mod date;
mod json;
pub mod log;
pub mod snapshot;

/// A time in ms since 1970 as Java prints it, in UTC: `Sun Nov 15 06:44:10 UTC 2026`.
pub fn utc(time_ms: i64) -> String {
    date::long_date(time_ms)
}
