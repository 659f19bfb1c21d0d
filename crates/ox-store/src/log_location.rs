//! Where the logs of a data directory are, if `dataLogDir` differs from `dataDir`.
//!
//! Snapshots alone are a valid, older state. A start whose configuration lost its `dataLogDir`, or that names another
//! directory, would serve that state without a word. So `oxk.logs` in the snapshot directory names the directory of the
//! logs, and a start is refused if that still has logs while the configured directory has none. Apache does not write
//! the file, nor does a server with one directory.

use crate::atomic_file;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::names::{Dirs, FileName, parse_name};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "oxk.logs";

/// Refuses a directory of logs without logs, if those of the last run are in another one.
pub(crate) fn check(disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
    let Some(recorded) = read(disk, &dirs.snapshots)? else { return Ok(()) };
    if recorded == dirs.logs || has_logs(disk, &dirs.logs) || !has_logs(disk, &recorded) {
        return Ok(());
    }
    Err(StoreError::LogsElsewhere { logs: recorded, configured: dirs.logs.clone() })
}

/// Names the directory of the logs, or removes the name if it is that of the snapshots.
pub(crate) fn record(disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
    if !dirs.are_split() {
        return atomic_file::remove(disk, &dirs.snapshots, NAME);
    }
    if read(disk, &dirs.snapshots)?.as_ref() == Some(&dirs.logs) {
        return Ok(());
    }
    match atomic_file::replace(disk, None, &dirs.snapshots, NAME, dirs.logs.as_os_str().as_bytes()) {
        Err(error) if error.is_full() => Ok(()), // a later start records it
        recorded => recorded,
    }
}

fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = atomic_file::read(disk, &dir.join(NAME))?;
    Ok(path.map(|bytes| OsStr::from_bytes(&bytes).into()))
}

/// A directory that cannot be read has none.
fn has_logs(disk: &dyn Disk, dir: &Path) -> bool {
    let names = disk.list(dir).unwrap_or_default();
    names.iter().any(|name| matches!(parse_name(name), FileName::Log(_)))
}
