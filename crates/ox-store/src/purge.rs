//! Removing what is no longer needed.
//!
//! Kept are the newest good snapshots and every log that holds a record behind the oldest of them. Before anything
//! goes: each kept snapshot was read in full, and the logs from the oldest of them on have no hole. Snapshots go
//! first, oldest first, and are durably gone before the first log goes; so a crash leaves a superset of what is
//! kept, never a snapshot without its logs. The log being written is the newest one, and is always kept. Whoever
//! reads old logs is told first that the history begins later now.

use crate::damage::{Stop, Verdict, inspect};
use crate::disk::Disk;
use crate::error::{Error, IoContext};
use crate::lineage::Lineage;
use crate::log_reader::{LogHeader, LogReader};
use crate::names::{self, Dirs, Listing, LogFile};
use crate::snapshot::read::{Sink, StoredNode, read_snapshot};
use crate::snapshot::write::Structure;
use ox_proto::txn::TxnHeader;
use ox_proto::{RawAcls, Reader, SessionId, Zxid};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};

/// Fewer snapshots than this are never kept.
pub const RETAIN_MIN: usize = 3;

/// What was purged.
#[derive(Debug, Default)]
pub struct Purged {
    /// Files that are gone.
    pub removed: Vec<PathBuf>,
    /// Files that could not be removed; the next run tries again.
    pub failed: Vec<(PathBuf, io::Error)>,
}

pub(crate) fn purge(
    disk: &dyn Disk,
    dirs: &Dirs,
    retain: usize,
    lineage: &Mutex<Lineage>,
    stop: &dyn Fn() -> bool,
) -> Result<Purged, Error> {
    let listing = names::list(disk, dirs)?;
    let Some(oldest) = oldest_kept(disk, &listing, retain, stop)? else { return Ok(Purged::default()) };
    check_chain(disk, &listing.logs, oldest, stop)?;

    let mut purged = Purged::default();
    let old_snapshots = listing.snapshots.iter().rev().filter(|file| file.last < oldest).map(|file| &*file.path);
    remove_all(disk, &dirs.snapshots, old_snapshots, &mut purged)?;
    lineage.lock().begins_at(oldest);
    let first_kept = listing.logs.iter().rposition(|log| log.first <= oldest).unwrap_or(0);
    remove_all(disk, &dirs.logs, listing.logs[..first_kept].iter().map(|log| &*log.path), &mut purged)?;
    Ok(purged)
}

/// The oldest of the newest `retain` good snapshots.
fn oldest_kept(
    disk: &dyn Disk,
    listing: &Listing,
    retain: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Zxid>, Error> {
    let (mut oldest, mut kept) = (None, 0);
    for file in &listing.snapshots {
        let is_good = read_snapshot(disk, file, &mut Check { structure: Structure::default(), stop }).is_ok();
        if stop() {
            return Err(Error::PurgeStopped);
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

/// Checks a snapshot until it should stop.
struct Check<'a> {
    structure: Structure,
    stop: &'a dyn Fn() -> bool,
}

impl Sink for Check<'_> {
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
) -> Result<(), Error> {
    let before = purged.removed.len();
    for path in paths {
        match disk.remove(path) {
            Ok(()) => purged.removed.push(path.to_owned()),
            Err(error) => purged.failed.push((path.to_owned(), error)),
        }
    }
    if before < purged.removed.len() {
        disk.sync_dir(dir).context("sync directory", dir)?;
    }
    Ok(())
}

/// The logs continue the snapshot `last` without a hole, up to where the newest is being written.
fn check_chain(disk: &dyn Disk, logs: &[LogFile], mut last: Zxid, stop: &dyn Fn() -> bool) -> Result<(), Error> {
    let refused = |error| Error::PurgeRefused(Box::new(error));
    let start = logs.iter().rposition(|log| log.first.0 <= last.0.saturating_add(1)).unwrap_or(0);
    for (index, log) in logs.iter().enumerate().skip(start) {
        let mut reader = LogReader::open(disk, &log.path).map_err(refused)?;
        if !matches!(reader.header(), LogHeader::Log { .. }) {
            continue;
        }
        let predecessor = reader.predecessor();
        while let Some(frame) = reader.next_frame().map_err(refused)? {
            if stop() {
                return Err(Error::PurgeStopped);
            }
            let Ok(header) = Reader::from_disk(frame.record).get::<TxnHeader>() else { break };
            if header.zxid <= last {
                continue;
            }
            let lacks = header.zxid.0 != last.0 + 1 && predecessor.is_some_and(|before| last < before);
            if lacks || !header.zxid.follows(last) {
                return Err(refused(Error::Gap { after: last, found: header.zxid, path: log.path.clone() }));
            }
            last = header.zxid;
        }
        if index + 1 < logs.len() {
            check_end(&reader, last).map_err(refused)?;
        }
    }
    Ok(())
}

/// What cannot be read at the end of a log was never acknowledged. The first record of an epoch seems to follow anything.
fn check_end(reader: &LogReader, last: Zxid) -> Result<(), Error> {
    let Stop::Damaged(damaged) = inspect(reader.file(), reader.path(), reader.offset(), last, 0)? else {
        return Ok(());
    };
    if damaged.verdict(None, 0) == Verdict::Torn {
        return Ok(());
    }
    let (path, offset, damage) = (reader.path().to_owned(), damaged.offset, damaged.damage(None));
    Err(Error::Corrupt { path, offset, after: last, damage })
}
