//! Access to the file system.
//!
//! The store uses files only through [`Disk`], so that a simulated disk can fail any call, or lose power at any call,
//! and tests can check what recovery does. The trait distinguishes the operations by their durability:
//!
//! | to make durable | call |
//! |---|---|
//! | contents and length of a file | [`DiskFile::sync_data`] or [`DiskFile::sync_all`] |
//! | its name: creation, renaming, removal | [`Disk::sync_dir`] of the directory |
//!
//! Errors are never retried here; the caller decides what they mean.

mod real;
mod sim;

pub use real::RealDisk;
pub use sim::{DiskFault, KeepUnsynced, SimDisk};

use crate::error::{IoContext, StoreError};
use crate::limits::READ_CHUNK_BYTES;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file; fails if it exists.
    CreateNew,
    /// A new or existing file; its contents are kept.
    Create,
}

/// The space of a directory's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// The device number, which identifies the file system.
    pub volume: u64,
    pub total_bytes: u64,
    /// Bytes available to this process.
    pub free_bytes: u64,
}

/// Identifies a file, as opposed to a copy of it. It survives renaming and remounting. The device number is left out
/// because it may change at a remount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub inode: u64,
    /// The time of creation in ns since 1970; 0 if the file system does not record it.
    pub born_ns: i64,
}

impl FileIdentity {
    /// Compares by inode number alone if either time of creation is unknown.
    pub fn is_same(&self, other: &Self) -> bool {
        let known = self.born_ns != 0 && other.born_ns != 0;
        self.inode == other.inode && (!known || self.born_ns == other.born_ns)
    }
}

/// Releases the lock when dropped.
pub trait DiskLock: Send + Sync {}

/// A file system, real or simulated.
pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// The names of files and directories in `dir`, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames a file within its directory, atomically replacing an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory with its parents, if it does not exist.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable (fsync of the directory).
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The absolute path without symbolic links.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
    /// Creates `path` if needed and locks it; fails with `WouldBlock` if another process holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

#[expect(clippy::len_without_is_empty, reason = "no caller needs it")]
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at `offset`; returns 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The first offset from `offset` on that may contain anything but zeros; `None` if only zeros follow.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
    /// Writes all of `bytes` at `offset`, extending the file if needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// Identifies the file, as opposed to copies of it.
    fn identity(&self) -> io::Result<FileIdentity>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Extends the file to `length` with zeros, and allocates the space if the file system supports it. Returns whether
    /// it was allocated.
    fn preallocate(&self, length: u64) -> io::Result<bool>;
    /// Makes contents and length durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes contents and all metadata durable (fsync).
    fn sync_all(&self) -> io::Result<()>;
    /// Tells the kernel that the file will not be read soon, so that its pages can be reused. The file must be synced.
    fn drop_from_cache(&self) {}
}

/// Fills `buffer` from `offset` on; fewer bytes only at the end of the file.
pub fn read_full(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Passes the bytes of a range to `write`, with their offsets.
pub fn copy_bytes(
    file: &dyn DiskFile,
    path: &Path,
    range: Range<u64>,
    mut write: impl FnMut(&[u8], u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let mut chunk = vec![0; READ_CHUNK_BYTES.min(length)];
    let mut at = range.start;
    while at < range.end {
        let count = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
        let count = read_full(file, &mut chunk[..count], at).context("read", path)?;
        if count == 0 {
            break;
        }
        write(&chunk[..count], at)?;
        at += count as u64;
    }
    Ok(())
}
