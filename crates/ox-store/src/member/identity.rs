//! The owner of a data directory.
//!
//! `oxk.identity` in each directory contains the server id as a decimal number. A different id means that the directory
//! was copied from another member, whose accepted epochs and acknowledgements are not ours: it is refused unchanged
//! (K58). Apache does not write the file, so a directory without it is accepted.

use crate::atomic_file;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::names::Dirs;
use std::path::Path;

const NAME: &str = "oxk.identity";

/// Refuses directories of another server, without writing anything.
pub(crate) fn check(disk: &dyn Disk, dirs: &Dirs, server: i64) -> Result<(), StoreError> {
    for dir in dirs.each() {
        match read(disk, dir)? {
            Some(found) if found != server => {
                return Err(StoreError::OtherServer { path: dir.to_owned(), found, server });
            }
            _ => (),
        }
    }
    Ok(())
}

/// Whether a member has used a directory.
pub(crate) fn is_claimed(disk: &dyn Disk, dirs: &Dirs) -> Result<bool, StoreError> {
    for dir in dirs.each() {
        if read(disk, dir)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the server id where it is missing or malformed.
pub(crate) fn claim(disk: &dyn Disk, dirs: &Dirs, server: i64) -> Result<(), StoreError> {
    for dir in dirs.each() {
        if read(disk, dir)?.is_none() {
            atomic_file::replace(disk, None, dir, NAME, server.to_string().as_bytes())?;
        }
    }
    Ok(())
}

fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<i64>, StoreError> {
    let bytes = atomic_file::read(disk, &dir.join(NAME))?;
    Ok(bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.parse().ok()))
}
