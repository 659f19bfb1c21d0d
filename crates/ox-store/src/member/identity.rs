//! Whose directory this is.
//!
//! `oxk.identity` in each directory holds the server's id as a decimal text. Another id means that the directory was
//! copied from another member, whose promises and acknowledgements are not ours: it is refused untouched (K58). Apache
//! does not know the file, so a directory without it is taken over.

use crate::disk::Disk;
use crate::error::Error;
use crate::names::Dirs;
use crate::small_file;
use std::path::Path;

const NAME: &str = "oxk.identity";

/// Refuses the directories of another server; writes nothing.
pub(crate) fn check(disk: &dyn Disk, dirs: &Dirs, server: i64) -> Result<(), Error> {
    for dir in dirs.each() {
        match read(disk, dir)? {
            Some(found) if found != server => {
                return Err(Error::OtherServer { path: dir.to_owned(), found, server });
            }
            _ => (),
        }
    }
    Ok(())
}

/// Writes the id where it is missing, or no number.
pub(crate) fn claim(disk: &dyn Disk, dirs: &Dirs, server: i64) -> Result<(), Error> {
    for dir in dirs.each() {
        if read(disk, dir)?.is_none() {
            small_file::replace(disk, None, dir, NAME, server.to_string().as_bytes())?;
        }
    }
    Ok(())
}

fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<i64>, Error> {
    let bytes = small_file::read(disk, &dir.join(NAME))?;
    Ok(bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.parse().ok()))
}
