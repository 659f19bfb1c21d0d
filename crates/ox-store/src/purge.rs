//! Removing what is no longer needed.
//!
//! Kept are the newest good snapshots and every log that holds a record behind the oldest of them. Before anything
//! goes: each kept snapshot was read in full, and the logs from the oldest of them on have no hole. Snapshots go
//! first, oldest first, and are durably gone before the first log goes; so a crash leaves a superset of what is
//! kept, never a snapshot without its logs. The log being written is the newest one, and is always kept.

use crate::disk::Disk;
use crate::error::{Error, IoContext};
use crate::log_reader::{LogHeader, LogReader};
use crate::names::{self, Dirs, LogFile};
use crate::snapshot::read::read_snapshot;
use crate::snapshot::write::Structure;
use ox_proto::txn::TxnHeader;
use ox_proto::{Reader, Zxid};
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

pub(crate) fn purge(disk: &dyn Disk, dirs: &Dirs, retain: usize) -> Result<Purged, Error> {
    let listing = names::list(disk, dirs)?;
    let good = |file: &&names::SnapshotFile| read_snapshot(disk, file, &mut Structure::default()).is_ok();
    let kept: Vec<_> = listing.snapshots.iter().filter(good).take(retain.max(RETAIN_MIN)).collect();
    let Some(oldest) = kept.last().map(|file| file.last) else { return Ok(Purged::default()) };
    check_chain(disk, &listing.logs, oldest).map_err(|error| Error::PurgeRefused(Box::new(error)))?;

    let mut purged = Purged::default();
    let old_snapshots = listing.snapshots.iter().rev().filter(|file| file.last < oldest).map(|file| &*file.path);
    remove_all(disk, &dirs.snapshots, old_snapshots, &mut purged)?;
    let first_kept = listing.logs.iter().rposition(|log| log.first <= oldest).unwrap_or(0);
    remove_all(disk, &dirs.logs, listing.logs[..first_kept].iter().map(|log| &*log.path), &mut purged)?;
    Ok(purged)
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
fn check_chain(disk: &dyn Disk, logs: &[LogFile], mut last: Zxid) -> Result<(), Error> {
    let start = logs.iter().rposition(|log| log.first.0 <= last.0.saturating_add(1)).unwrap_or(0);
    for log in &logs[start..] {
        let mut reader = LogReader::open(disk, &log.path)?;
        if !matches!(reader.header(), LogHeader::Log { .. }) {
            continue;
        }
        while let Some(frame) = reader.next_frame()? {
            let Ok(header) = Reader::from_disk(frame.record).get::<TxnHeader>() else { break };
            if header.zxid <= last {
                continue;
            }
            if !header.zxid.follows(last) {
                return Err(Error::Gap { after: last, found: header.zxid, path: log.path.clone() });
            }
            last = header.zxid;
        }
    }
    Ok(())
}
