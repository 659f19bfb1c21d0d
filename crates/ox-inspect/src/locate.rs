//! Finding files: an operator may name a file, `dataDir`, or its subdirectory `version-2`.

use ox_store::StoreError;
use ox_store::disk::Disk;
use ox_store::names::{Dirs, FileName, SnapshotFile, VERSION_DIR, parse_name};
use std::path::{Path, PathBuf};

/// The directory with the files: `path`, or its subdirectory `version-2`.
pub fn files_dir(disk: &dyn Disk, path: &Path) -> Result<PathBuf, StoreError> {
    let inner = path.join(VERSION_DIR);
    let dir = if disk.list(&inner).is_ok() { &inner } else { path };
    disk.canonical(dir).map_err(|source| StoreError::Io { action: "open", path: path.to_owned(), source })
}

/// Whether the path is a directory that can be listed.
pub fn is_dir(disk: &dyn Disk, path: &Path) -> bool {
    disk.list(path).is_ok()
}

/// Both directories. The default for the logs is the snapshot directory.
pub fn dirs(disk: &dyn Disk, snapshots: &Path, logs: Option<&Path>) -> Result<Dirs, StoreError> {
    let snapshots = files_dir(disk, snapshots)?;
    let logs = logs.map_or(Ok(snapshots.clone()), |logs| files_dir(disk, logs))?;
    Ok(Dirs { snapshots, logs })
}

/// A snapshot with the zxid and compression in its name; `None` if the name is not a snapshot's.
pub fn snapshot_file(path: &Path) -> Option<SnapshotFile> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match parse_name(name) {
        FileName::Snapshot(last, compression) => Some(SnapshotFile { path: path.to_owned(), last, compression }),
        FileName::Log(_) | FileName::Unrecognised | FileName::Unfinished | FileName::Old | FileName::Other => None,
    }
}
