//! The data directories: creating and locking them.

use crate::disk::{Disk, DiskLock};
use crate::error::StoreError;
use crate::names::{Dirs, VERSION_DIR};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Excludes other processes of ours from a directory. Apache ignores the lock.
pub(crate) const LOCK_NAME: &str = "oxk.lock";

/// The locks of both directories, held as long as the server may write to them.
pub(crate) struct Lock {
    _held: Vec<Box<dyn DiskLock>>,
}

/// Opens both `version-2` directories, creating them if allowed, and makes their names durable.
pub(crate) fn open_dirs(disk: &dyn Disk, data: &Path, log: &Path, create: bool) -> Result<Dirs, StoreError> {
    Ok(Dirs { snapshots: open_dir(disk, data, create)?, logs: open_dir(disk, log, create)? })
}

fn open_dir(disk: &dyn Disk, dir: &Path, create: bool) -> Result<PathBuf, StoreError> {
    let path = dir.join(VERSION_DIR);
    let unusable = |source| StoreError::UnusableDirectory { path: path.clone(), source };
    let mut missing = 0;
    for ancestor in path.ancestors() {
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        match disk.list(ancestor) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::NotFound => missing += 1,
            Err(source) => return Err(unusable(source)),
        }
    }
    if 0 < missing && !create {
        return Err(StoreError::MissingDirectory(path));
    }
    disk.create_dir_all(&path).map_err(unusable)?;
    let canonical = disk.canonical(&path).map_err(unusable)?;
    // An earlier run may have created some of these directories and crashed before it synced their names. Errors for
    // directories that existed before are ignored.
    for (level, ancestor) in canonical.ancestors().skip(1).enumerate() {
        let synced = disk.sync_dir(ancestor);
        if level < missing {
            synced.map_err(unusable)?;
        }
    }
    Ok(canonical)
}

/// Locks both directories. If the lock file cannot be created, the directory counts as not writable.
pub(crate) fn lock_dirs(disk: &dyn Disk, dirs: &Dirs) -> Result<Lock, StoreError> {
    let mut held = Vec::new();
    for dir in dirs.each() {
        let path = dir.join(LOCK_NAME);
        match disk.lock(&path) {
            Ok(lock) => held.push(lock),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(StoreError::Locked(dir.to_owned())),
            Err(source) => return Err(StoreError::UnusableDirectory { path, source }),
        }
    }
    Ok(Lock { _held: held })
}
