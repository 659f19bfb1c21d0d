//! File names: which files are logs and snapshots, and what the two directories hold.
//!
//! ```text
//! <dataDir>/version-2/snapshot.<hex>[.gz|.snappy]     hex: last zxid contained
//! <dataLogDir>/version-2/log.<hex>                    hex: zxid of the first record
//! ```
//! The rules are stricter than Apache's, which takes `log.e.bak` for a log and replays it a second time: a name
//! with one of the two prefixes that is not exactly a name is reported and left alone. What we write on the way
//! to a name (`oxk.<name>.tmp`) and our side files (`oxk.*`) have neither prefix, so that Apache ignores them.

use crate::disk::Disk;
use crate::error::{Error, IoContext};
use ox_proto::Zxid;
use std::path::{Path, PathBuf};

/// The subdirectory that holds the files of format 2.
pub const VERSION_DIR: &str = "version-2";

/// How a snapshot is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// One gzip member.
    Gz,
    /// The stream format of snappy-java.
    Snappy,
}

impl Compression {
    /// What the file name ends with, the dot included.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gz => ".gz",
            Self::Snappy => ".snappy",
        }
    }
}

/// What a file name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A transaction log.
    Log(Zxid),
    /// A snapshot.
    Snapshot(Zxid, Compression),
    /// Has one of the two prefixes but is neither; Apache may see it differently.
    Strange,
    /// A write of ours that never got its final name.
    Unfinished,
    /// Part of a history that a leader's snapshot replaced.
    Old,
    /// Something else.
    Other,
}

/// Name of the log whose first record is `first`.
pub fn log_name(first: Zxid) -> String {
    format!("log.{:x}", first.0)
}

/// Name of the snapshot that contains everything up to `last`.
pub fn snapshot_name(last: Zxid, compression: Compression) -> String {
    format!("snapshot.{:x}{}", last.0, compression.suffix())
}

/// The name under which `name` is written before it is complete.
pub fn unfinished_name(name: &str) -> String {
    format!("oxk.{name}.tmp")
}

/// The name under which `name` is kept after the snapshot `last` has replaced it.
pub fn old_name(last: Zxid, name: &str) -> String {
    format!("old.{:x}.{name}", last.0)
}

/// Judges a file name.
pub fn parse_name(name: &str) -> Name {
    if let Some(rest) = name.strip_prefix("log.") {
        return parse_hex(rest).map_or(Name::Strange, Name::Log);
    }
    if let Some(rest) = name.strip_prefix("snapshot.") {
        let (hex, extension) = rest.split_once('.').map_or((rest, None), |(hex, extension)| (hex, Some(extension)));
        let compression = match extension.map(str::to_ascii_lowercase).as_deref() {
            None => Compression::None,
            Some("gz") => Compression::Gz,
            Some("snappy") => Compression::Snappy,
            Some(_) => return Name::Strange,
        };
        return parse_hex(hex).map_or(Name::Strange, |zxid| Name::Snapshot(zxid, compression));
    }
    let replaced = name.strip_prefix("old.").and_then(|rest| rest.split_once('.'));
    match replaced {
        Some((hex, name)) if parse_hex(hex).is_some() => match parse_name(name) {
            Name::Log(_) | Name::Snapshot(..) => Name::Old,
            Name::Strange | Name::Unfinished | Name::Old | Name::Other => Name::Other,
        },
        None if name.starts_with("oxk.") && name.ends_with(".tmp") => Name::Unfinished,
        _ => Name::Other,
    }
}

fn parse_hex(text: &str) -> Option<Zxid> {
    let plain = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain {
        return None;
    }
    i64::from_str_radix(text, 16).ok().map(Zxid)
}

/// The two directories of a server, `version-2` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// Holds snapshots.
    pub snapshots: PathBuf,
    /// Holds logs; often the same.
    pub logs: PathBuf,
}

impl Dirs {
    /// True when logs and snapshots live in different directories.
    pub fn are_split(&self) -> bool {
        self.snapshots != self.logs
    }

    /// Each directory once.
    pub fn each(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.snapshots.as_path()).chain(self.are_split().then_some(self.logs.as_path()))
    }
}

/// A log on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Zxid in the name.
    pub first: Zxid,
    /// Where it is.
    pub path: PathBuf,
}

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Zxid in the name.
    pub last: Zxid,
    /// Compression in the name.
    pub compression: Compression,
    /// Where it is.
    pub path: PathBuf,
}

/// What the two directories hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Logs, oldest first.
    pub logs: Vec<LogFile>,
    /// Snapshots, newest first.
    pub snapshots: Vec<SnapshotFile>,
    /// Names that look like one of them and are not.
    pub strange: Vec<PathBuf>,
    /// Leftovers of our own unfinished writes.
    pub unfinished: Vec<PathBuf>,
    /// Parts of a history that a leader's snapshot replaced.
    pub old: Vec<PathBuf>,
    /// Logs where only snapshots belong, and the other way round.
    pub misplaced: Vec<PathBuf>,
}

/// Lists both directories.
pub fn list(disk: &dyn Disk, dirs: &Dirs) -> Result<Listing, Error> {
    let mut found = Listing::default();
    for dir in dirs.each() {
        for name in disk.list(dir).context("list", dir)? {
            let path = dir.join(&name);
            match parse_name(&name) {
                Name::Log(first) if dir == dirs.logs => found.logs.push(LogFile { first, path }),
                Name::Snapshot(last, compression) if dir == dirs.snapshots => {
                    found.snapshots.push(SnapshotFile { last, compression, path });
                }
                Name::Log(_) | Name::Snapshot(..) => found.misplaced.push(path),
                Name::Strange => found.strange.push(path),
                Name::Unfinished => found.unfinished.push(path),
                Name::Old => found.old.push(path),
                Name::Other => (),
            }
        }
    }
    found.logs.sort_by(|a, b| (a.first, &a.path).cmp(&(b.first, &b.path)));
    found.snapshots.sort_by(|a, b| (b.last, &a.path).cmp(&(a.last, &b.path)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Name) {
        assert_eq!(parse_name(name), expected, "{name}");
    }

    #[test]
    fn names_are_read_strictly() {
        check("log.e", Name::Log(Zxid(0xe)));
        check("log.7FFFFFFFFFFFFFFF", Name::Log(Zxid(i64::MAX)));
        check("log.8000000000000000", Name::Strange);
        check("log.00000000000000000", Name::Strange);
        check("log.", Name::Strange);
        check("log.+5", Name::Strange);
        check("log.e.bak", Name::Strange);
        check("log.e.chopped19", Name::Strange);
        check("snapshot.0", Name::Snapshot(Zxid(0), Compression::None));
        check("snapshot.d.gz", Name::Snapshot(Zxid(0xd), Compression::Gz));
        check("snapshot.d.Snappy", Name::Snapshot(Zxid(0xd), Compression::Snappy));
        check("snapshot.d.tmp", Name::Strange);
        check("snapshot.d.gz.gz", Name::Strange);
        check("oxk.snapshot.d.gz.tmp", Name::Unfinished);
        check("oxk.lock", Name::Other);
        check("currentEpoch.tmp", Name::Other);
        check("damaged.log.e.1", Name::Other);
        check("old.e.log.1", Name::Old);
        check("old.100000002.snapshot.d.gz", Name::Old);
        check("old.e.log.1.bak", Name::Other);
        check("old.x.log.1", Name::Other);
        check("old.e.old.e.log.1", Name::Other);
        check("old.news", Name::Other);
    }

    #[test]
    fn what_we_name_we_recognise() {
        let last = Zxid(0x1_0000_00ab);
        check(&log_name(last), Name::Log(last));
        check(&old_name(last, &log_name(last)), Name::Old);
        for compression in [Compression::None, Compression::Gz, Compression::Snappy] {
            let name = snapshot_name(last, compression);
            check(&name, Name::Snapshot(last, compression));
            check(&unfinished_name(&name), Name::Unfinished);
        }
    }
}
