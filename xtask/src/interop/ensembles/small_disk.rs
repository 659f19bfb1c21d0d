//! A disk of a member that can be filled: a small file system in memory, where it may be mounted.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// What keeps the space from others.
const FILLER: &str = "filler";
/// Room for what the plays write, and soon full.
const SIZE: &str = "size=64m";

/// A file system of its own, taken down when it goes out of scope.
#[derive(Debug)]
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where mounting is not permitted.
    pub(super) fn mount(index: &Path) -> Result<Option<Self>> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(index).output()?;
        Ok(mounted.status.success().then(|| Self(index.to_path_buf())))
    }

    /// Takes everything that is left.
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
        // Nothing is left to tell if this fails: the folder stays mounted until somebody else takes it down.
        Command::new("umount").arg(&self.0).status().ok();
    }
}
