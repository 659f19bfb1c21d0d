//! Purging old snapshots and logs (Apache's `PurgeTxnLog`).
//!
//! The newest intact snapshots are kept, and every log that contains a record after the oldest of them. Before anything
//! is removed, each kept snapshot is read completely, and the logs from the oldest of them on are checked for gaps.
//! Snapshots are removed first, oldest first, and their removal is durable before the first log is removed. So a crash
//! leaves a superset of what is kept, and never a snapshot without its logs. The log being written is the newest one
//! and is always kept. The floor of the valid range is raised before any log is removed.

use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::log_reader::{LogHeader, LogReader};
use crate::log_tail::{TailState, TailVerdict, examine};
use crate::names::{self, DirListing, Dirs, LogFile};
use crate::snapshot::read::{SnapshotSink, StoredNode, read_snapshot};
use crate::snapshot::write::Structure;
use crate::valid_range::ValidRange;
use ox_proto::txn::TxnHeader;
use ox_proto::{RawAcls, Reader, SessionId, Zxid};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};

/// The minimum number of kept snapshots.
pub const RETAIN_MIN: usize = 3;

/// The result of a purge.
#[derive(Debug, Default)]
pub struct Purged {
    pub removed: Vec<PathBuf>,
    /// Files that could not be removed. The next purge tries again.
    pub failed: Vec<(PathBuf, io::Error)>,
}

pub(crate) fn purge(
    disk: &dyn Disk,
    dirs: &Dirs,
    retain: usize,
    valid_range: &Mutex<ValidRange>,
    stop: &dyn Fn() -> bool,
) -> Result<Purged, StoreError> {
    let listing = names::list(disk, dirs)?;
    let Some(oldest) = oldest_kept(disk, &listing, retain, stop)? else { return Ok(Purged::default()) };
    check_chain(disk, &listing.logs, oldest, stop)?;

    let mut purged = Purged::default();
    let old_snapshots = listing.snapshots.iter().rev().filter(|file| file.last < oldest).map(|file| &*file.path);
    remove_all(disk, &dirs.snapshots, old_snapshots, &mut purged)?;
    valid_range.lock().raise_floor(oldest);
    let first_kept = listing.logs.iter().rposition(|log| log.first <= oldest).unwrap_or(0);
    remove_all(disk, &dirs.logs, listing.logs[..first_kept].iter().map(|log| &*log.path), &mut purged)?;
    Ok(purged)
}

/// Removes old files of a server that another process may be running: it notices that logs are missing, because each
/// names the zxid before its first record.
pub fn purge_offline(disk: &dyn Disk, dirs: &Dirs, retain: usize) -> Result<Purged, StoreError> {
    // Only the process with the log sends diffs from it; that one notices that a file is gone.
    purge(disk, dirs, retain, &Mutex::new(ValidRange::Standalone), &|| false)
}

/// The zxid of the oldest of the newest `retain` intact snapshots.
fn oldest_kept(
    disk: &dyn Disk,
    listing: &DirListing,
    retain: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Zxid>, StoreError> {
    let (mut oldest, mut kept) = (None, 0);
    for file in &listing.snapshots {
        let is_good = read_snapshot(disk, file, &mut Check { structure: Structure::default(), stop }).is_ok();
        if stop() {
            return Err(StoreError::PurgeStopped);
        }
        if is_good {
            (oldest, kept) = (Some(file.last), kept + 1);
        }
        if kept == retain.max(RETAIN_MIN) {
            break;
        }
    }
    Ok(oldest)
}

/// Validates a snapshot, and aborts when the purge should stop.
struct Check<'a> {
    structure: Structure,
    stop: &'a dyn Fn() -> bool,
}

impl SnapshotSink for Check<'_> {
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String> {
        self.structure.session(id, timeout_ms)
    }

    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String> {
        self.structure.acl(id, acls)
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        if (self.stop)() { Err("stopped".to_owned()) } else { self.structure.node(node) }
    }
}

fn remove_all<'a>(
    disk: &dyn Disk,
    dir: &Path,
    paths: impl Iterator<Item = &'a Path>,
    purged: &mut Purged,
) -> Result<(), StoreError> {
    let before = purged.removed.len();
    for path in paths {
        match disk.remove(path) {
            Ok(()) => purged.removed.push(path.to_owned()),
            Err(error) => purged.failed.push((path.to_owned(), error)),
        }
    }
    if before < purged.removed.len() {
        disk.sync_dir(dir).context("fsync directory", dir)?;
    }
    Ok(())
}

/// Checks that the logs continue the snapshot `last` without a gap, up to the end of the newest.
fn check_chain(disk: &dyn Disk, logs: &[LogFile], mut last: Zxid, stop: &dyn Fn() -> bool) -> Result<(), StoreError> {
    let refused = |error| StoreError::PurgeRefused(Box::new(error));
    let start = logs.iter().rposition(|log| log.first.0 <= last.0.saturating_add(1)).unwrap_or(0);
    for (index, log) in logs.iter().enumerate().skip(start) {
        let mut reader = LogReader::open(disk, &log.path).map_err(refused)?;
        if !matches!(reader.header(), LogHeader::Log { .. }) {
            continue;
        }
        let predecessor = reader.predecessor();
        while let Some(frame) = reader.next_frame().map_err(refused)? {
            if stop() {
                return Err(StoreError::PurgeStopped);
            }
            let Ok(header) = Reader::from_disk(frame.record).get::<TxnHeader>() else { break };
            if header.zxid <= last {
                continue;
            }
            let lacks = header.zxid.0 != last.0 + 1 && predecessor.is_some_and(|before| last < before);
            if lacks || !header.zxid.follows(last) {
                return Err(refused(StoreError::Gap { after: last, found: header.zxid, path: log.path.clone() }));
            }
            last = header.zxid;
        }
        if index + 1 < logs.len() {
            check_end(&reader, last).map_err(refused)?;
        }
    }
    Ok(())
}

/// An unreadable end of a log must not hide acknowledged records, because the first record of the next epoch appears to
/// follow any record.
fn check_end(reader: &LogReader, last: Zxid) -> Result<(), StoreError> {
    let TailState::Damaged(damaged) = examine(reader.file(), reader.path(), reader.offset(), last, 0)? else {
        return Ok(());
    };
    if damaged.verdict(None, 0) == TailVerdict::Torn {
        return Ok(());
    }
    let (path, offset, damage) = (reader.path().to_owned(), damaged.offset, damaged.damage(None));
    Err(StoreError::Corrupt { path, offset, after: last, damage })
}
