//! The one door to the file system.
//!
//! Everything the store does to files goes through [`Disk`], so that a simulated disk can fail any call, lose
//! power at any call, and show what recovery makes of the rest. The trait has the operations whose durability
//! differs, and nothing else:
//!
//! | to make durable | call |
//! |---|---|
//! | bytes and length of a file | [`DiskFile::sync_data`] or [`DiskFile::sync_all`] |
//! | its name: creation, renaming, removal | [`Disk::sync_dir`] of the directory |
//!
//! An error is never retried here; what it means is decided by the caller.

mod real;
mod sim;

pub use real::RealDisk;
pub use sim::{Fault, Keep, SimDisk};

use std::io;
use std::path::{Path, PathBuf};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet.
    CreateNew,
    /// A file that may exist; its content is kept.
    Create,
}

/// Space of the file system that a directory is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Tells file systems apart.
    pub volume: u64,
    /// All there is.
    pub total_bytes: u64,
    /// What can still be written.
    pub free_bytes: u64,
}

/// What tells a file from its copies. It stays with the file when that is renamed, and when the file system is mounted
/// again; no copy has it. The device is left out because its number changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Inode number.
    pub inode: u64,
    /// When the file was created, in nanoseconds since 1970; 0 where the file system does not record it.
    pub born_ns: i64,
}

impl FileIdentity {
    /// Where the time of birth is unknown, now or then, the inode number alone decides.
    pub fn is_same(&self, other: &Self) -> bool {
        let known = self.born_ns != 0 && other.born_ns != 0;
        self.inode == other.inode && (!known || self.born_ns == other.born_ns)
    }
}

/// Held for as long as the lock is.
pub trait DiskLock: Send + Sync {}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;
    /// Names of the files and directories in `dir`, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Gives a file another name in the same directory, atomically replacing what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory with its parents; fine if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The one path of a directory, whatever links lead to it.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// Space of the file system of `dir`.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
    /// Creates `path` if needed and locks it against other processes; `WouldBlock` when one holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at `offset`; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The first place from `offset` on where something other than zeros may stand; none if there is no such place.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
    /// Writes all of `bytes` at `offset`, growing the file if needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// What tells it from its copies.
    fn identity(&self) -> io::Result<FileIdentity>;
    /// Cuts the file, or grows it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Grows the file to `length` with zeros and reserves the space where the file system can; tells whether it did.
    fn preallocate(&self, length: u64) -> io::Result<bool>;
    /// Makes content and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Tells the system that nobody will read the file soon: what memory holds of it may go to other files. The
    /// content is synced.
    fn leave_cache(&self) {}
}

/// Fills `buffer` from `offset` on; less only at the end of the file.
pub(crate) fn read_full(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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
