//! A small file system in memory, so that a test can fill it. Needs the permission to mount.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A mounted file system, unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    /// The mount point, unless the caller provides it. Removed after the file system is unmounted.
    _directory: Option<TempDir>,
}

impl SmallDisk {
    /// Mounts at a new directory. `None` where mounting is not permitted.
    pub fn mount(megabytes: usize) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = Self::mount_at(directory.path(), megabytes)?;
        disk._directory = Some(directory);
        Some(disk)
    }

    /// Mounts at an existing directory. `None` where mounting is not permitted.
    pub fn mount_at(path: &Path, megabytes: usize) -> Option<Self> {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { path: path.to_owned(), _directory: None });
        }
        eprintln!("SKIPPED: mounting a file system is not permitted here");
        None
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Uses this many megabytes.
    pub fn fill(&self, megabytes: usize) -> PathBuf {
        std::fs::write(self.filler(), vec![1; megabytes << 20]).unwrap();
        self.filler()
    }

    /// Uses all free space.
    pub fn fill_up(&self) -> PathBuf {
        self.fill_up_but(0)
    }

    /// Leaves this many megabytes free.
    pub fn fill_up_but(&self, megabytes: u64) -> PathBuf {
        let mut file = std::fs::File::options().create(true).append(true).open(self.filler()).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
        let taken = file.metadata().unwrap().len();
        file.set_len(taken.saturating_sub(megabytes << 20)).unwrap();
        self.filler()
    }

    /// Removes the file that took the space.
    pub fn empty(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}
