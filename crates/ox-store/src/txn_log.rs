//! Writing the transaction log (Apache's `FileTxnLog`).
//!
//! ```text
//! append batch ──> append batch ──> sync ──> marker    what sync covers may be acknowledged
//!    └ first batch of a file: sync the previous file; create the new one, named by its first zxid, with its header;
//!      sync file, directory and marker before the batch is written
//! ```
//! The invariant: when [`TxnLog::sync`] returns, all appended records survive a power cut, including the name of their
//! file, and no earlier record is missing. Any error is final: the page cache can no longer be trusted, so the log
//! accepts nothing more and the process must end. The exception is a write that fails because the disk is full: nothing
//! was written, and it is tried once more after the reserve was released.
//!
//! A file is filled with zeros ahead of its records (`limits.rs` gives the reason); only zeros follow the last record
//! at any time.

use crate::directories::Lock;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, StoreError};
use crate::free_space::{Reserve, Reserved, is_full};
use crate::limits::{FILL_AHEAD_BYTES, FILL_UNDER_BYTES_MAX};
use crate::log_reader::{LOG_HEADER_BYTES, log_header};
use crate::marker::{self, Marker, MarkerFile};
use crate::names::{Dirs, log_name};
use crate::random::Random;
use ox_proto::Zxid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct LogOptions {
    /// How much space is allocated at a time (`preAllocSize`); 0 allocates none in advance.
    pub preallocate_bytes: u64,
    /// A snapshot is due after a random number of records between half of this and all of it (`snapCount`), at least 2.
    pub snap_count: u32,
    /// As `snap_count`, in bytes of records (`snapSizeLimitInKb`).
    pub snap_bytes: Option<u64>,
    /// Start a new file after this many bytes of records (`txnLogSizeLimitInKb`).
    pub roll_bytes: Option<u64>,
    /// False trades durability for speed (`forceSync=no`).
    pub force_sync: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        let preallocate_bytes = 64 << 20;
        Self { preallocate_bytes, snap_count: 100_000, snap_bytes: Some(4 << 30), roll_bytes: None, force_sync: true }
    }
}

/// What the caller must do after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    Plain,
    /// The next batch starts a new file, and a snapshot should be taken once this one is applied, unless one is being
    /// written.
    SnapshotDue,
}

/// The result of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Everything up to here is durable.
    pub last: Zxid,
    /// The duration of the sync.
    pub took: Duration,
    /// The size of the log, for the warning about a slow fsync.
    pub log_bytes: u64,
}

/// The transaction log of a server.
pub struct TxnLog {
    disk: Arc<dyn Disk>,
    dirs: Dirs,
    options: LogOptions,
    random: Random,
    /// The last zxid appended, or recovered.
    last: Zxid,
    current: Option<CurrentFile>,
    trigger: Trigger,
    marker: MarkerFile,
    roll: bool,
    failed: bool,
    reserved: Arc<Reserved>,
    reserve: Arc<Reserve>,
    _lock: Arc<Lock>,
}

/// The counters that determine when the next snapshot is due.
struct Trigger {
    records: u64,
    bytes: u64,
    records_max: u64,
    bytes_max: Option<u64>,
}

/// The file being written.
struct CurrentFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    first: Zxid,
    /// The stored checksum of the first frame.
    identity: i64,
    /// The offset of the next frame.
    position: u64,
    allocated: u64,
    /// The file system has allocated space up to here.
    reserved: u64,
    /// Zeros were written up to here.
    filled: u64,
    unsynced: bool,
}

impl TxnLog {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dirs: Dirs,
        options: LogOptions,
        last: Zxid,
        seed: u64,
        (lock, reserved, reserve): (Arc<Lock>, Arc<Reserved>, Arc<Reserve>),
    ) -> Result<Self, StoreError> {
        let mut random = Random::new(seed);
        let trigger = Trigger::draw(&options, &mut random);
        let marker = MarkerFile::open(&*disk, &dirs.logs)?;
        Ok(Self {
            disk,
            dirs,
            options,
            random,
            last,
            current: None,
            trigger,
            marker,
            roll: false,
            failed: false,
            reserved,
            reserve,
            _lock: lock,
        })
    }

    /// The last zxid appended, or recovered.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The first zxid of the file being written.
    pub fn current_file(&self) -> Option<Zxid> {
        self.current.as_ref().map(|current| current.first)
    }

    /// Writes the frames of a batch, `first` to `last`, with one call. Nothing is durable before [`TxnLog::sync`].
    ///
    /// # Panics
    /// If `first` does not follow the last record: a gap must not reach the disk.
    pub fn append(&mut self, frames: &[u8], first: Zxid, last: Zxid, records: usize) -> Result<Appended, StoreError> {
        assert!(first.follows(self.last), "{first} does not follow {}", self.last);
        assert!(first <= last && 0 < records && !frames.is_empty(), "a batch has records in order");
        self.guarded(|log| {
            if log.roll {
                log.finish_file()?;
            }
            if log.current.is_none() {
                log.begin_file(frames, first)?;
            }
            let current = log.current.as_mut().expect("a file was started above");
            current.append(frames, log.options.preallocate_bytes, &log.reserve)?;
            log.reserved.set(current.reserved.saturating_sub(current.position));
            log.last = last;
            Ok(log.count(records, frames.len()))
        })
    }

    /// Makes all appended records durable. Without `force_sync`, this happens only at the end of a file.
    pub fn sync(&mut self) -> Result<Synced, StoreError> {
        let started = Instant::now();
        self.guarded(|log| {
            let last = log.last;
            let Some(current) = log.current.as_mut().filter(|current| current.unsynced) else {
                return Ok(Synced { last, took: Duration::ZERO, log_bytes: 0 });
            };
            if log.options.force_sync {
                current.make_durable()?;
                log.mark()?;
            }
            let log_bytes = log.current.as_ref().map_or(0, |current| current.position);
            if log.options.roll_bytes.is_some_and(|bytes_max| bytes_max < log_bytes) {
                log.roll = true;
            }
            Ok(Synced { last, took: started.elapsed(), log_bytes })
        })
    }

    /// Starts a new file with the next batch.
    pub fn roll(&mut self) {
        self.roll = true;
    }

    /// Syncs and closes the open file. The next batch starts a new one.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        self.guarded(Self::finish_file)
    }

    /// Continues after `last` in a new file, after recovery, truncation or installation.
    pub(crate) fn continue_after(&mut self, last: Zxid) {
        assert!(self.current.is_none(), "the open file was finished");
        self.last = last;
    }

    /// Whether an earlier call failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Makes all later calls fail.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Stops cleanly: syncs everything, releases unused space, and records this in the marker.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.guarded(|log| {
            log.finish_file()?;
            marker::close(&*log.disk, &log.dirs)
        })
    }

    /// Runs `work` unless an earlier call failed. An error makes all later calls fail.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.failed {
            return Err(StoreError::LogFailed);
        }
        let outcome = work(self);
        self.failed = outcome.is_err();
        outcome
    }

    fn count(&mut self, records: usize, bytes: usize) -> Appended {
        self.trigger.records += records as u64;
        self.trigger.bytes += bytes as u64;
        if !self.trigger.is_due() {
            return Appended::Plain;
        }
        self.trigger = Trigger::draw(&self.options, &mut self.random);
        self.roll = true;
        Appended::SnapshotDue
    }

    /// Creates the file for a batch that starts with `first`. Header, name and marker are durable before the first
    /// record is written. So a power cut during the first batch leaves neither records without a header nor gaps in a
    /// file that no marker names.
    fn begin_file(&mut self, frames: &[u8], first: Zxid) -> Result<(), StoreError> {
        let path = self.dirs.logs.join(log_name(first));
        let file =
            self.reserve.retry_when_full(|| self.disk.open(&path, OpenMode::CreateNew)).context("create", &path)?;
        let identity = frames.first_chunk().map_or(0, |word| i64::from_be_bytes(*word));
        let (position, allocated, reserved, filled, unsynced) = (0, 0, 0, 0, true);
        let current = CurrentFile { file, path, first, identity, position, allocated, reserved, filled, unsynced };
        let current = self.current.insert(current);
        current.append(&log_header(self.last), self.options.preallocate_bytes, &self.reserve)?;
        current.make_durable()?;
        self.disk.sync_dir(&self.dirs.logs).context("fsync directory", &self.dirs.logs)?;
        self.mark()?;
        self.marker.sync()
    }

    /// Syncs and closes the open file, even without `force_sync`: a gap between two files would be worse than a lost
    /// tail, and this happens once per file.
    fn finish_file(&mut self) -> Result<(), StoreError> {
        self.roll = false;
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.position < current.allocated {
            self.reserved.set(0);
            current.file.set_len(current.position).context("truncate", &current.path)?;
            current.unsynced = true;
        }
        if current.unsynced {
            current.make_durable()?;
            self.mark()?;
        }
        self.current = None;
        Ok(())
    }

    fn mark(&self) -> Result<(), StoreError> {
        let Some(CurrentFile { first, position, identity, .. }) = self.current else { return Ok(()) };
        self.marker.write(&Marker { log: first, position, identity, last: self.last, ..Marker::default() })
    }
}

impl Trigger {
    fn draw(options: &LogOptions, random: &mut Random) -> Self {
        let half = u64::from(options.snap_count.max(2)) / 2;
        let bytes_max = options.snap_bytes.map(|bytes| bytes / 2 + random.below(bytes / 2));
        Self { records: 0, bytes: 0, records_max: half + random.below(half), bytes_max }
    }

    fn is_due(&self) -> bool {
        self.records_max < self.records || self.bytes_max.is_some_and(|bytes_max| bytes_max < self.bytes)
    }
}

impl CurrentFile {
    fn append(&mut self, bytes: &[u8], preallocate_bytes: u64, reserve: &Reserve) -> Result<(), StoreError> {
        let end = self.position + bytes.len() as u64;
        self.reserve(end, preallocate_bytes)?;
        let write = |bytes: &[u8]| {
            reserve.retry_when_full(|| self.file.write_all_at(bytes, self.position)).context("write", &self.path)
        };
        let fill = (end + FILL_AHEAD_BYTES).min(self.allocated);
        // A large batch changes metadata once for many records, so filling ahead is not worth writing its bytes twice.
        if end <= self.filled || fill <= end || FILL_UNDER_BYTES_MAX < bytes.len() {
            write(bytes)?;
        } else {
            let zeros = usize::try_from(fill - end).expect("at most the step of filling");
            let mut filled = Vec::with_capacity(bytes.len() + zeros);
            filled.extend_from_slice(bytes);
            filled.resize(bytes.len() + zeros, 0);
            write(&filled)?;
            self.filled = fill;
        }
        self.position = end;
        self.allocated = self.allocated.max(end);
        self.unsynced = true;
        Ok(())
    }

    /// Allocates space up to `end`, and some more for later batches.
    fn reserve(&mut self, end: u64, step: u64) -> Result<(), StoreError> {
        if step == 0 || end <= self.allocated {
            return Ok(());
        }
        let length = LOG_HEADER_BYTES + step * end.div_ceil(step);
        match self.file.preallocate(length) {
            Ok(is_reserved) => {
                self.allocated = length;
                self.reserved = if is_reserved { length } else { 0 };
            }
            // If the preallocation does not fit, the batch may still fit.
            Err(error) if is_full(&error) => (),
            Err(error) => return Err(error).context("preallocate", &self.path),
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().context("fsync", &self.path)?;
        self.unsynced = false;
        Ok(())
    }
}
