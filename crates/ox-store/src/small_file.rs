//! Files of a few bytes that are replaced as a whole: epochs, identity, notes.
//!
//! ```text
//! <name>.tmp  written, synced ──rename──> <name>  directory synced ──> counts
//! ```
//! A power cut leaves the old content or the new, never a mix; and the new one for certain once [`replace`] returned.

use crate::disk::{Disk, Open, read_full};
use crate::error::{Error, IoContext};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::space::Reserve;
use std::io;
use std::path::Path;

/// The name under which `name` is written before it counts.
pub(crate) fn tmp_name(name: &str) -> String {
    format!("{name}.tmp")
}

/// The file's content, cut at the bound; none if there is no such file.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("open", path),
    };
    let mut bytes = vec![0; SMALL_FILE_BYTES_MAX];
    let count = read_full(&*file, &mut bytes, 0).context("read", path)?;
    bytes.truncate(count);
    Ok(Some(bytes))
}

/// Gives the file another content, durably. On a full disk the reserve makes room for it.
pub(crate) fn replace(
    disk: &dyn Disk,
    reserve: Option<&Reserve>,
    dir: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), Error> {
    let (path, tmp) = (dir.join(name), dir.join(tmp_name(name)));
    let write = || {
        let file = disk.open(&tmp, Open::Create)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        Ok(file)
    };
    let file = reserve.map_or_else(write, |reserve| reserve.help(write)).context("write", &tmp)?;
    file.sync_all().context("sync", &tmp)?;
    disk.rename(&tmp, &path).context("rename", &tmp)?;
    disk.sync_dir(dir).context("sync directory", dir)
}

/// Removes the file, durably; fine if there is none.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(), Error> {
    if remove_quietly(disk, &dir.join(name))? { disk.sync_dir(dir).context("sync directory", dir) } else { Ok(()) }
}

/// Removes the file, not durably; tells whether there was one.
pub(crate) fn remove_quietly(disk: &dyn Disk, path: &Path) -> Result<bool, Error> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("remove", path),
    }
}
