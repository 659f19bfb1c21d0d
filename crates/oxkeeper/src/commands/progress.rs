//! Progress of a long job: a line on the terminal that appears after a while and is removed at the end. Piped output
//! does not contain it.
//!
//! The jobs need no changes: they read through a [`Disk`], which counts the bytes here.

use ox_bench::progress::ProgressLine;
use ox_store::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode, RealDisk};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A shorter job shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval between two updates of the line.
const BETWEEN: Duration = Duration::from_millis(100);

/// The real disk, with progress.
pub(crate) struct Watched(Arc<Mutex<ProgressLine>>);

impl Watched {
    /// Shows progress if stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(ProgressLine::with_intervals(PATIENCE, BETWEEN))))
    }

    /// Removes the line before other output.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A file that counts the bytes read.
struct WatchedFile {
    file: Box<dyn DiskFile>,
    line: Arc<Mutex<ProgressLine>>,
    name: String,
    length: u64,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.file.read_at(buffer, offset)?;
        self.line.lock().show(|| {
            let done = (offset + count as u64).saturating_mul(100);
            let percent = done.checked_div(self.length).unwrap_or(100).min(100);
            format!("{}: {percent} % of {} MB", self.name, self.length >> 20)
        });
        Ok(count)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn preallocate(&self, length: u64) -> io::Result<bool> {
        self.file.preallocate(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = RealDisk.open(path, how)?;
        if how != OpenMode::Read {
            return Ok(file);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let length = file.len()?;
        Ok(Box::new(WatchedFile { file, line: Arc::clone(&self.0), name, length }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        RealDisk.space(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path)
    }
}
