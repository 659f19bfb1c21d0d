//! Changes that a start makes to the files after recovery, before anything is served.
//!
//! Each step is durable before the next, and after a crash in between the next start recovers the same state:
//!
//! 0. a member moves snapshots aside that no longer lead to its state;
//! 1. the bytes to be truncated from a torn log are saved as `damaged.*`, then the log is truncated after its last
//!    intact record;
//! 2. logs without records are removed, because Apache would fail on them;
//! 3. snapshots that are not part of the history are moved aside;
//! 4. all files of the history are synced. After a crash of the process its last records may be in the page cache only,
//!    and if their fsync had failed, another fsync would report success. So everything that is not known to be synced
//!    is rewritten first. The marker is written last. From then on it describes this directory, even if that is a copy,
//!    and no longer a clean stop.

use super::replay::{LastLog, TornLog};
use super::{Files, Recovered};
use crate::disk::{Disk, OpenMode, copy_bytes};
use crate::error::{IoContext, StoreError};
use crate::log_reader::LOG_HEADER_BYTES;
use crate::log_tail::TailVerdict;
use crate::marker::{Marker, write_durably};
use crate::names::{SnapshotFile, old_name, unfinished_name};
use ox_proto::Zxid;
use std::path::{Path, PathBuf};

/// A tail that was truncated because it is incomplete, or damaged while gaps are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedTail {
    /// The directory is a copy: the original may have acknowledged what the tail contained.
    pub is_copied: bool,
    /// Whether it may have been acknowledged.
    pub verdict: TailVerdict,
    pub path: PathBuf,
    /// The new end of the log.
    pub offset: u64,
    /// The last remaining record, possibly of the previous log.
    pub after: Zxid,
    /// The last intact record of the truncated tail, if any.
    pub last: Option<Zxid>,
    /// The file with the truncated bytes; `None` if there was no space for it.
    pub saved_as: Option<PathBuf>,
}

/// Prepares logs and snapshots for the next start, ours or Apache's.
pub(crate) fn repair(files: &Files<'_>, recovered: &Recovered, now_ms: i64) -> Result<Option<DroppedTail>, StoreError> {
    let (disk, logs) = (files.disk, &files.dirs.logs);
    let last = recovered.replay.last;
    if let Some(marker) = files.marker.filter(|marker| is_too_high(marker, recovered)) {
        write_durably(disk, logs, &lowered(marker, last))?;
    }
    let dropped = recovered.replay.torn.as_ref().map(|torn| cut(files, torn, now_ms)).transpose()?;
    for log in &recovered.empty_logs {
        disk.remove(&log.path).context("remove", &log.path)?;
    }
    if !recovered.empty_logs.is_empty() {
        disk.sync_dir(logs).context("fsync directory", logs)?;
    }
    for snapshot in &recovered.ahead {
        move_aside(disk, &snapshot.path, now_ms)?;
    }
    Ok(dropped)
}

/// Makes all files of the history durable.
pub(crate) fn sync_history(files: &Files<'_>, recovered: &Recovered) -> Result<(), StoreError> {
    let (disk, replay) = (files.disk, &recovered.replay);
    let last_log = replay.last_log.as_ref().filter(|last| replay.used.contains(&last.log.path));
    for path in &replay.used {
        match last_log {
            Some(last) if last.log.path == *path => rewrite_tail(files, last)?,
            _ => sync_file(disk, path)?,
        }
    }
    if let Some((snapshot, _)) = &recovered.snapshot {
        sync_file(disk, &snapshot.path)?;
    }
    // Names too, including that of a rewritten log.
    for dir in files.dirs.each() {
        disk.sync_dir(dir).context("fsync directory", dir)?;
    }
    // From now on, no record that the marker covers can be lost.
    let marker = match (last_log, files.marker) {
        (Some(LastLog { log, end, identity, .. }), _) => {
            Marker { log: log.first, position: *end, identity: *identity, last: replay.last, ..Marker::default() }
        }
        (None, Some(marker)) if is_too_high(&marker, recovered) => lowered(marker, replay.last),
        (None, marker) => Marker { closed: None, ..marker.unwrap_or_default() },
    };
    write_durably(disk, &files.dirs.logs, &marker)
}

/// Whether the marker covers records that the history does not have.
fn is_too_high(marker: &Marker, recovered: &Recovered) -> bool {
    recovered.replay.last < marker.last || recovered.replay.marker_is_foreign
}

fn lowered(marker: Marker, last: Zxid) -> Marker {
    Marker { position: 0, identity: 0, last: last.min(marker.last), closed: None, ..marker }
}

/// Moves snapshots aside from which the logs do not lead to the loaded one. At the start of an epoch, recovery from
/// such a snapshot would not notice the gap. They are removed when another snapshot is durable.
pub(crate) fn retire(files: &Files<'_>, recovered: &mut Recovered) -> Result<(), StoreError> {
    let Some((base, _)) = recovered.snapshot.as_ref().filter(|_| !recovered.leads_to_base()) else { return Ok(()) };
    let (disk, dir) = (files.disk, &files.dirs.snapshots);
    for SnapshotFile { path, .. } in files.listing.snapshots.iter().filter(|file| file.last < base.last) {
        let (_, name) = split(path);
        disk.rename(path, &dir.join(old_name(base.last, name))).context("rename", path)?;
        let warning = format!("the logs do not lead from {} to {}; it was moved aside", path.display(), base.last);
        recovered.replay.warnings.push(warning);
    }
    disk.sync_dir(dir).context("fsync directory", dir)
}

/// Renames a file so that neither we nor Apache read it again.
pub(crate) fn move_aside(disk: &dyn Disk, path: &Path, now_ms: i64) -> Result<PathBuf, StoreError> {
    let (dir, name) = split(path);
    let aside = dir.join(format!("damaged.{name}.{now_ms}"));
    disk.rename(path, &aside).context("rename", path)?;
    disk.sync_dir(dir).context("fsync directory", dir)?;
    Ok(aside)
}

fn cut(files: &Files<'_>, torn: &TornLog, now_ms: i64) -> Result<DroppedTail, StoreError> {
    let (disk, path) = (files.disk, &torn.log.path);
    let (dir, name) = split(path);
    let save = dir.join(format!("damaged.{name}.{:x}.{now_ms}", torn.offset));
    let saved = copy(disk, path, torn.offset..torn.used_end, &save);
    let saved_as = match saved {
        Ok(()) => Some(save),
        // The bytes serve only for analysis, so lack of space for them must not prevent the start.
        Err(error) if error.is_full() => {
            _ = disk.remove(&save);
            None
        }
        Err(error) => return Err(error),
    };
    disk.sync_dir(dir).context("fsync directory", dir)?;
    if torn.offset <= LOG_HEADER_BYTES {
        disk.remove(path).context("remove", path)?;
    } else {
        let file = disk.open(path, OpenMode::Write).context("open", path)?;
        file.set_len(torn.offset).context("truncate", path)?;
        file.sync_all().context("fsync", path)?;
    }
    disk.sync_dir(dir).context("fsync directory", dir)?;
    let TornLog { offset, after, last_dropped: last, verdict, .. } = *torn;
    let is_copied = files.copied_from.is_some();
    Ok(DroppedTail { is_copied, verdict, path: path.clone(), offset, after, last, saved_as })
}

/// Rewrites and syncs the part of the last log that is not known to be synced. Without a marker for the log, not even
/// its name is known to be durable; then a copy replaces it.
fn rewrite_tail(files: &Files<'_>, last: &LastLog) -> Result<(), StoreError> {
    let (disk, path) = (files.disk, &last.log.path);
    match last.synced {
        Some(synced) => {
            let file = disk.open(path, OpenMode::Write).context("open", path)?;
            copy_bytes(&*file, path, synced.max(LOG_HEADER_BYTES)..last.end, |bytes, at| {
                file.write_all_at(bytes, at).context("write", path)
            })?;
            // The file is complete: release its preallocated space.
            file.set_len(last.end).context("truncate", path)?;
            file.sync_all().context("fsync", path)
        }
        None => {
            let (dir, name) = split(path);
            let fresh = dir.join(unfinished_name(name));
            copy(disk, path, 0..last.end, &fresh)?;
            disk.rename(&fresh, path).context("rename", &fresh)
        }
    }
}

fn copy(disk: &dyn Disk, from: &Path, range: std::ops::Range<u64>, to: &Path) -> Result<(), StoreError> {
    let source = disk.open(from, OpenMode::Read).context("open", from)?;
    let target = disk.open(to, OpenMode::Create).context("create", to)?;
    target.set_len(0).context("truncate", to)?;
    let start = range.start;
    copy_bytes(&*source, from, range, |bytes, at| target.write_all_at(bytes, at - start).context("write", to))?;
    target.sync_all().context("fsync", to)
}

pub(crate) fn sync_file(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    disk.open(path, OpenMode::Write).context("open", path)?.sync_all().context("fsync", path)
}

fn split(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (path.parent().unwrap_or(Path::new(".")), name)
}
