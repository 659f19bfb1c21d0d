//! Names of logs and snapshots, and the contents of the data directories.
//!
//! ```text
//! <dataDir>/version-2/snapshot.<hex>[.gz|.snappy]   hex: last zxid contained
//! <dataLogDir>/version-2/log.<hex>                  hex: zxid of the first record
//! ```
//! The rules are stricter than Apache's, which takes `log.e.bak` for a log and replays it a second time: a name with
//! one of the prefixes that does not match exactly is reported and ignored. Our temporary files (`oxk.<name>.tmp`) and
//! marker files (`oxk.*`) have neither prefix, so that Apache ignores them.

use crate::disk::{Disk, OpenMode};
use crate::error::{IoContext, StoreError};
use ox_proto::Zxid;
use std::path::{Path, PathBuf};

/// The subdirectory with the files of format 2.
pub const VERSION_DIR: &str = "version-2";

/// The compression of a snapshot file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    /// A single gzip member.
    Gz,
    /// The stream format of snappy-java.
    Snappy,
}

impl Compression {
    /// The suffix of the file name, including the dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gz => ".gz",
            Self::Snappy => ".snappy",
        }
    }
}

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// `log.<zxid of the first record>`, a transaction log.
    Log(Zxid),
    /// `snapshot.<last zxid>`, with an optional suffix for the compression.
    Snapshot(Zxid, Compression),
    /// Has one of the prefixes but is neither a log nor a snapshot; Apache may disagree.
    Unrecognised,
    /// A temporary file of ours that was never renamed to its final name.
    Unfinished,
    /// Part of a history that a leader's snapshot replaced.
    Old,
    Other,
}

/// The name of the log whose first record is `first`.
pub fn log_name(first: Zxid) -> String {
    format!("log.{:x}", first.0)
}

/// The name of the snapshot that contains everything up to `last`.
pub fn snapshot_name(last: Zxid, compression: Compression) -> String {
    format!("snapshot.{:x}{}", last.0, compression.suffix())
}

/// The name under which `name` is written until it is complete.
pub fn unfinished_name(name: &str) -> String {
    format!("oxk.{name}.tmp")
}

/// The new name of `name` after the snapshot `last` has replaced it.
pub fn old_name(last: Zxid, name: &str) -> String {
    format!("old.{:x}.{name}", last.0)
}

/// Classifies a file name.
pub fn parse_name(name: &str) -> FileName {
    if let Some(rest) = name.strip_prefix("log.") {
        return parse_hex(rest).map_or(FileName::Unrecognised, FileName::Log);
    }
    if let Some(rest) = name.strip_prefix("snapshot.") {
        let (hex, extension) = rest.split_once('.').map_or((rest, None), |(hex, extension)| (hex, Some(extension)));
        let compression = match extension.map(str::to_ascii_lowercase).as_deref() {
            None => Compression::None,
            Some("gz") => Compression::Gz,
            Some("snappy") => Compression::Snappy,
            Some(_) => return FileName::Unrecognised,
        };
        return parse_hex(hex).map_or(FileName::Unrecognised, |zxid| FileName::Snapshot(zxid, compression));
    }
    let replaced = name.strip_prefix("old.").and_then(|rest| rest.split_once('.'));
    match replaced {
        Some((hex, name)) if parse_hex(hex).is_some() => match parse_name(name) {
            FileName::Log(_) | FileName::Snapshot(..) => FileName::Old,
            FileName::Unrecognised | FileName::Unfinished | FileName::Old | FileName::Other => FileName::Other,
        },
        None if name.starts_with("oxk.") && name.ends_with(".tmp") => FileName::Unfinished,
        _ => FileName::Other,
    }
}

fn parse_hex(text: &str) -> Option<Zxid> {
    let plain = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain {
        return None;
    }
    i64::from_str_radix(text, 16).ok().map(Zxid)
}

/// The two directories of a server, including `version-2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    pub snapshots: PathBuf,
    /// Often the same directory.
    pub logs: PathBuf,
}

impl Dirs {
    /// Whether logs and snapshots are in different directories.
    pub fn are_split(&self) -> bool {
        self.snapshots != self.logs
    }

    /// Both directories, or one if they are the same.
    pub fn each(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.snapshots.as_path()).chain(self.are_split().then_some(self.logs.as_path()))
    }
}

/// A log on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    pub first: Zxid,
    pub path: PathBuf,
}

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub last: Zxid,
    pub compression: Compression,
    pub path: PathBuf,
}

/// The files in both directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirListing {
    /// Sorted by zxid, oldest first.
    pub logs: Vec<LogFile>,
    /// Sorted by zxid, newest first.
    pub snapshots: Vec<SnapshotFile>,
    /// Files with one of the prefixes that are neither logs nor snapshots.
    pub unrecognised: Vec<PathBuf>,
    /// Our own temporary files of interrupted writes.
    pub unfinished: Vec<PathBuf>,
    /// Parts of a history that a leader's snapshot replaced.
    pub old: Vec<PathBuf>,
    /// Logs in the snapshot directory and snapshots in the log directory, if they differ.
    pub misplaced: Vec<PathBuf>,
}

impl DirListing {
    /// Fails if a file is in the wrong directory.
    pub(crate) fn check_places(&self, disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
        let Some(path) = self.misplaced.first() else { return Ok(()) };
        let right = if path.starts_with(&dirs.logs) { &dirs.snapshots } else { &dirs.logs };
        let other = right.join(path.file_name().unwrap_or_default());
        Err(match disk.open(&other, OpenMode::Read) {
            Ok(_) => StoreError::MisplacedTwice { path: path.clone(), other },
            Err(_) => StoreError::Misplaced(path.clone()),
        })
    }
}

pub fn list(disk: &dyn Disk, dirs: &Dirs) -> Result<DirListing, StoreError> {
    let mut found = DirListing::default();
    for dir in dirs.each() {
        for name in disk.list(dir).context("list", dir)? {
            let path = dir.join(&name);
            match parse_name(&name) {
                FileName::Log(first) if dir == dirs.logs => found.logs.push(LogFile { first, path }),
                FileName::Snapshot(last, compression) if dir == dirs.snapshots => {
                    found.snapshots.push(SnapshotFile { last, compression, path });
                }
                FileName::Log(_) | FileName::Snapshot(..) => found.misplaced.push(path),
                FileName::Unrecognised => found.unrecognised.push(path),
                FileName::Unfinished => found.unfinished.push(path),
                FileName::Old => found.old.push(path),
                FileName::Other => (),
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

    fn check(name: &str, expected: FileName) {
        assert_eq!(parse_name(name), expected, "{name}");
    }

    #[test]
    fn names_are_parsed_strictly() {
        check("log.e", FileName::Log(Zxid(0xe)));
        check("log.7FFFFFFFFFFFFFFF", FileName::Log(Zxid(i64::MAX)));
        check("log.8000000000000000", FileName::Unrecognised);
        check("log.00000000000000000", FileName::Unrecognised);
        check("log.", FileName::Unrecognised);
        check("log.+5", FileName::Unrecognised);
        check("log.e.bak", FileName::Unrecognised);
        check("log.e.chopped19", FileName::Unrecognised);
        check("snapshot.0", FileName::Snapshot(Zxid(0), Compression::None));
        check("snapshot.d.gz", FileName::Snapshot(Zxid(0xd), Compression::Gz));
        check("snapshot.d.Snappy", FileName::Snapshot(Zxid(0xd), Compression::Snappy));
        check("snapshot.d.tmp", FileName::Unrecognised);
        check("snapshot.d.gz.gz", FileName::Unrecognised);
        check("oxk.snapshot.d.gz.tmp", FileName::Unfinished);
        check("oxk.lock", FileName::Other);
        check("currentEpoch.tmp", FileName::Other);
        check("damaged.log.e.1", FileName::Other);
        check("old.e.log.1", FileName::Old);
        check("old.100000002.snapshot.d.gz", FileName::Old);
        check("old.e.log.1.bak", FileName::Other);
        check("old.x.log.1", FileName::Other);
        check("old.e.old.e.log.1", FileName::Other);
        check("old.news", FileName::Other);
    }

    #[test]
    fn own_names_are_recognised() {
        let last = Zxid(0x1_0000_00ab);
        check(&log_name(last), FileName::Log(last));
        check(&old_name(last, &log_name(last)), FileName::Old);
        for compression in [Compression::None, Compression::Gz, Compression::Snappy] {
            let name = snapshot_name(last, compression);
            check(&name, FileName::Snapshot(last, compression));
            check(&unfinished_name(&name), FileName::Unfinished);
        }
    }
}
