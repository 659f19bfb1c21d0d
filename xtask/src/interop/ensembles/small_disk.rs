//! A small tmpfs as the disk of a member, so that a test can fill it. Needs the permission to mount.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The file that takes up the free space.
const FILLER: &str = "filler";
/// Sufficient for the writes of a test, and soon full.
const SIZE: &str = "size=64m";

/// A mounted file system, which is unmounted on drop.
#[derive(Debug)]
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the file system. `None` if mounting is not permitted.
    pub(super) fn mount(index: &Path) -> Result<Option<Self>> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(index).output()?;
        Ok(mounted.status.success().then(|| Self(index.to_path_buf())))
    }

    /// Writes a file until no space is left.
    pub(super) fn fill_up(&self) -> Result<()> {
        let mut file = File::options().create(true).append(true).open(self.0.join(FILLER)).context("fill the disk")?;
        while file.write_all(&[1; 4096]).is_ok() {}
        Ok(())
    }

    pub(super) fn empty(&self) -> Result<()> {
        fs::remove_file(self.0.join(FILLER)).context("empty the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // If this fails, the file system stays mounted; a drop cannot report it.
        Command::new("umount").arg(&self.0).status().ok();
    }
}
