//! Logs and snapshots as text, for people and for scripts.
//!
//! The text layouts are those of Apache's toolkits, so that scripts which read them keep working; times are always
//! UTC. The JSON layouts are ours: one object per line, bytes in base64, ids and zxids as hex texts, because many
//! JSON readers have no 64-bit integers.

mod date;
mod json;
pub mod log;
pub mod snapshot;

/// A time in milliseconds, in UTC, as Java prints it: `Sun Nov 15 06:44:10 UTC 2026`.
pub fn utc(time_ms: i64) -> String {
    date::long_date(time_ms)
}
