//! Node metadata as text and as JSON.

use crate::command_error::CommandError;
use crate::output::{Output, Paint};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ox_client::Stat;
use serde::Serialize;

/// Prints the eleven lines of `-s`.
pub fn print(out: &Output, stat: &Stat) -> Result<(), CommandError> {
    let lines = [
        ("cZxid", format!("{:#x}", stat.czxid.0)),
        ("ctime", date(stat.ctime)),
        ("mZxid", format!("{:#x}", stat.mzxid.0)),
        ("mtime", date(stat.mtime)),
        ("pZxid", format!("{:#x}", stat.pzxid.0)),
        ("cversion", stat.cversion.to_string()),
        ("dataVersion", stat.version.to_string()),
        ("aclVersion", stat.aversion.to_string()),
        ("ephemeralOwner", format!("{:#x}", stat.ephemeral_owner)),
        ("dataLength", stat.data_length.to_string()),
        ("numChildren", stat.num_children.to_string()),
    ];
    for (label, value) in lines {
        out.line(&format!("{} = {value}", out.paint(Paint::Label, label)))?;
    }
    Ok(())
}

/// Formats a time in the local zone like Java: `Sun Nov 15 06:36:06 UTC 2026`.
pub fn date(wall_ms: i64) -> String {
    date_in(wall_ms, TimeZone::system())
}

/// Formats a time in the local zone: `2026-11-15 06:36:06`.
pub fn short_date(wall_ms: i64) -> String {
    match Timestamp::from_millisecond(wall_ms) {
        Ok(moment) => moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("{wall_ms} ms"), // outside of the supported range
    }
}

fn date_in(wall_ms: i64, zone: TimeZone) -> String {
    match Timestamp::from_millisecond(wall_ms) {
        Ok(moment) => moment.to_zoned(zone).strftime("%a %b %d %H:%M:%S %Z %Y").to_string(),
        Err(_) => format!("{wall_ms} ms"), // outside of the supported range
    }
}

/// Metadata as JSON, with zxids and sessions in hexadecimal, because many JSON parsers round large numbers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatJson {
    czxid: String,
    mzxid: String,
    pzxid: String,
    /// Creation time in milliseconds since 1970.
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: String,
    data_length: i32,
    num_children: i32,
}

impl From<&Stat> for StatJson {
    fn from(stat: &Stat) -> Self {
        Self {
            czxid: format!("{:#x}", stat.czxid.0),
            mzxid: format!("{:#x}", stat.mzxid.0),
            pzxid: format!("{:#x}", stat.pzxid.0),
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: format!("{:#x}", stat.ephemeral_owner),
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_java() {
        assert_eq!(date_in(0, TimeZone::UTC), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(date_in(1_794_724_566_123, TimeZone::UTC), "Sun Nov 15 06:36:06 UTC 2026");
        assert_eq!(date_in(i64::MAX, TimeZone::UTC), "9223372036854775807 ms");
    }
}
