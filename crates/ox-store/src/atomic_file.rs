//! Small files that are replaced atomically: epochs, identity, `oxk.*` markers.
//!
//! ```text
//! <name>.tmp  write, fsync ──rename──> <name>  fsync the directory ──> durable
//! ```
//! A power cut leaves the old contents or the new, and certainly the new once [`replace`] has returned.

use crate::disk::{Disk, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use crate::free_space::Reserve;
use crate::limits::SMALL_FILE_BYTES_MAX;
use std::io;
use std::path::Path;

/// The name under which `name` is written before the rename.
pub(crate) fn tmp_name(name: &str) -> String {
    format!("{name}.tmp")
}

/// The contents of the file, up to the size limit; `None` if it does not exist.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("open", path),
    };
    let mut bytes = vec![0; SMALL_FILE_BYTES_MAX];
    let count = read_full(&*file, &mut bytes, 0).context("read", path)?;
    bytes.truncate(count);
    Ok(Some(bytes))
}

/// Replaces the contents durably. On a full disk, space is taken from the reserve.
pub(crate) fn replace(
    disk: &dyn Disk,
    reserve: Option<&Reserve>,
    dir: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let (path, tmp) = (dir.join(name), dir.join(tmp_name(name)));
    let write = || {
        let file = disk.open(&tmp, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        Ok(file)
    };
    let file = reserve.map_or_else(write, |reserve| reserve.retry_when_full(write)).context("write", &tmp)?;
    file.sync_all().context("fsync", &tmp)?;
    disk.rename(&tmp, &path).context("rename", &tmp)?;
    disk.sync_dir(dir).context("fsync directory", dir)
}

/// Removes the file durably, if it exists.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(), StoreError> {
    if remove_quietly(disk, &dir.join(name))? { disk.sync_dir(dir).context("fsync directory", dir) } else { Ok(()) }
}

/// Removes the file without an fsync of the directory; returns whether it existed.
pub(crate) fn remove_quietly(disk: &dyn Disk, path: &Path) -> Result<bool, StoreError> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("remove", path),
    }
}
