//! Progress of a long job: a line on the terminal that appears after a while and is removed at the end. Piped output
//! does not contain it.
//!
//! The jobs need no changes: they read through a [`Disk`], which counts the bytes here.

use ox_store::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode, RealDisk};
use parking_lot::Mutex;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A shorter job shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval between two updates of the line.
const BETWEEN: Duration = Duration::from_millis(100);

/// The real disk, with progress.
pub(crate) struct Watched(Option<Arc<Mutex<Line>>>);

struct Line {
    /// When the line is drawn next.
    due: Instant,
    is_drawn: bool,
}

impl Watched {
    /// Shows progress if stderr is a terminal.
    pub(crate) fn new() -> Self {
        let line = Line { due: Instant::now() + PATIENCE, is_drawn: false };
        Self(io::stderr().is_terminal().then(|| Arc::new(Mutex::new(line))))
    }

    /// Removes the line before other output.
    pub(crate) fn clear(&self) {
        if let Some(line) = &self.0 {
            line.lock().clear();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Line {
    fn draw(&mut self, name: &str, done: u64, length: u64) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        (self.due, self.is_drawn) = (now + BETWEEN, true);
        let percent = done.saturating_mul(100).checked_div(length).unwrap_or(100).min(100);
        let _ = write!(io::stderr(), "\r\x1b[K{name}: {percent} % of {} MB", length >> 20);
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        self.due = Instant::now() + PATIENCE;
    }
}

/// A file that counts the bytes read.
struct WatchedFile {
    file: Box<dyn DiskFile>,
    line: Arc<Mutex<Line>>,
    name: String,
    length: u64,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.file.read_at(buffer, offset)?;
        self.line.lock().draw(&self.name, offset + count as u64, self.length);
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
        let (Some(line), OpenMode::Read) = (&self.0, how) else { return Ok(file) };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let length = file.len()?;
        Ok(Box::new(WatchedFile { file, line: Arc::clone(line), name, length }))
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
