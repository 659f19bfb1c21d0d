//! Finding files: what an operator names may be a file, `dataDir`, or the `version-2` in it.

use crate::disk::Disk;
use crate::error::Error;
use crate::names::{Dirs, Name, SnapshotFile, VERSION_DIR, parse_name};
use std::path::{Path, PathBuf};

/// The directory that holds the files: `version-2`, wherever it was named.
pub fn files_dir(disk: &dyn Disk, path: &Path) -> Result<PathBuf, Error> {
    let inner = path.join(VERSION_DIR);
    let dir = if disk.list(&inner).is_ok() { &inner } else { path };
    disk.canonical(dir).map_err(|source| Error::Io { action: "open", path: path.to_owned(), source })
}

/// Whether it is a directory that can be listed.
pub fn is_dir(disk: &dyn Disk, path: &Path) -> bool {
    disk.list(path).is_ok()
}

/// Both directories; the logs are where the snapshots are unless it is said otherwise.
pub fn dirs(disk: &dyn Disk, snapshots: &Path, logs: Option<&Path>) -> Result<Dirs, Error> {
    let snapshots = files_dir(disk, snapshots)?;
    let logs = logs.map_or(Ok(snapshots.clone()), |logs| files_dir(disk, logs))?;
    Ok(Dirs { snapshots, logs })
}

/// A snapshot's zxid and compression are in its name; `None` if it is not named like one.
pub fn snapshot_file(path: &Path) -> Option<SnapshotFile> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match parse_name(name) {
        Name::Snapshot(last, compression) => Some(SnapshotFile { path: path.to_owned(), last, compression }),
        Name::Log(_) | Name::Strange | Name::Unfinished | Name::Old | Name::Other => None,
    }
}
