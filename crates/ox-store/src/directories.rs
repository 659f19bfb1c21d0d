//! The directories a server works in: found, created, locked.

use crate::disk::{Disk, DiskLock};
use crate::error::Error;
use crate::names::{Dirs, VERSION_DIR};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Keeps other processes out of a directory. Advisory: Apache does not look at it.
pub(crate) const LOCK_NAME: &str = "oxk.lock";

/// The locks of both directories, held for as long as anything may write to them.
pub(crate) struct Lock {
    _held: Vec<Box<dyn DiskLock>>,
}

/// Finds both `version-2` directories, creating them where allowed, and makes their names durable.
pub(crate) fn open_dirs(disk: &dyn Disk, data: &Path, log: &Path, create: bool) -> Result<Dirs, Error> {
    Ok(Dirs { snapshots: open_dir(disk, data, create)?, logs: open_dir(disk, log, create)? })
}

fn open_dir(disk: &dyn Disk, dir: &Path, create: bool) -> Result<PathBuf, Error> {
    let path = dir.join(VERSION_DIR);
    let unusable = |source| Error::UnusableDirectory { path: path.clone(), source };
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
        return Err(Error::MissingDirectory(path));
    }
    disk.create_dir_all(&path).map_err(unusable)?;
    let canonical = disk.canonical(&path).map_err(unusable)?;
    // A run before this one may have created some of them and died before it synced their names. Directories that
    // were there all along may be none of our business: their errors do not count.
    for (level, ancestor) in canonical.ancestors().skip(1).enumerate() {
        let synced = disk.sync_dir(ancestor);
        if level < missing {
            synced.map_err(unusable)?;
        }
    }
    Ok(canonical)
}

/// Locks both directories. Fails like a directory that cannot be written to if the lock cannot be created.
pub(crate) fn lock_dirs(disk: &dyn Disk, dirs: &Dirs) -> Result<Lock, Error> {
    let mut held = Vec::new();
    for dir in dirs.each() {
        match disk.lock(&dir.join(LOCK_NAME)) {
            Ok(lock) => held.push(lock),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Error::Locked(dir.to_owned())),
            Err(source) => return Err(Error::UnusableDirectory { path: dir.to_owned(), source }),
        }
    }
    Ok(Lock { _held: held })
}
