//! Writing the transaction log.
//!
//! ```text
//! append batch ──> append batch ──> sync ──> marker        what sync covers may be acknowledged
//!       └ first of a file: the file before it is synced; then the new one, named by its first zxid, gets its
//!         header; file, directory and marker are synced before the batch is written
//! ```
//! The invariant: when [`TxnLog::sync`] returns, everything appended survives a power cut, the name of its file
//! included, and no earlier record is missing. Any error is final: the page cache can no longer be trusted, so
//! nothing more is accepted and the process has to end. Only where the disk has no space for a write, nothing was
//! taken and nothing lost: that is tried once more with the reserve given back.
//!
//! A file is filled with zeros ahead of its records (`limits.rs` says why); behind the last record there
//! are only zeros, always.

use crate::directories::Lock;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, IoContext};
use crate::limits::{FILL_AHEAD_BYTES, FILL_UNDER_BYTES_MAX};
use crate::log_reader::{LOG_HEADER_BYTES, log_header};
use crate::marker::{self, Marker, MarkerFile};
use crate::names::{Dirs, log_name};
use crate::random::Random;
use crate::space::{Reserve, Reserved, is_full};
use ox_proto::Zxid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How logs are written.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Space reserved at a time (`preAllocSize`); 0 reserves nothing.
    pub preallocate_bytes: u64,
    /// A snapshot is due after a random number of records above half of this (`snapCount`), at least 2.
    pub snap_count: u32,
    /// The same by bytes of records (`snapSizeLimitInKb`).
    pub snap_bytes: Option<u64>,
    /// A new file is begun after this many bytes of records (`txnLogSizeLimitInKb`).
    pub roll_bytes: Option<u64>,
    /// False gives up durability for speed (`forceSync=no`).
    pub force_sync: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        let preallocate_bytes = 64 << 20;
        Self { preallocate_bytes, snap_count: 100_000, snap_bytes: Some(4 << 30), roll_bytes: None, force_sync: true }
    }
}

/// The caller's next duty after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// Nothing special.
    Plain,
    /// Enough was logged: the next batch begins a new file, and a snapshot should be taken once this one is
    /// applied, unless one is being written.
    SnapshotDue,
}

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Everything up to here is durable.
    pub last: Zxid,
    /// How long the disk took.
    pub took: Duration,
    /// Size of the log's records, for the warning about a slow sync.
    pub log_bytes: u64,
}

/// The log that is being written.
pub struct TxnLog {
    disk: Arc<dyn Disk>,
    dirs: Dirs,
    options: LogOptions,
    random: Random,
    /// Last zxid appended, or recovered.
    last: Zxid,
    current: Option<Current>,
    trigger: Trigger,
    marker: MarkerFile,
    roll: bool,
    failed: bool,
    reserved: Arc<Reserved>,
    reserve: Arc<Reserve>,
    _lock: Arc<Lock>,
}

/// When the next snapshot is due.
struct Trigger {
    records: u64,
    bytes: u64,
    records_max: u64,
    bytes_max: Option<u64>,
}

/// The open file.
struct Current {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    first: Zxid,
    /// Stored checksum of the first frame.
    identity: i64,
    /// Where the next frame goes.
    position: u64,
    /// Length of the file.
    allocated: u64,
    /// Up to here the file system has set space aside.
    reserved: u64,
    /// Zeros have been written up to here.
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
    ) -> Result<Self, Error> {
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

    /// Last zxid appended, or recovered.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// First zxid of the file being written.
    pub fn current_file(&self) -> Option<Zxid> {
        self.current.as_ref().map(|current| current.first)
    }

    /// Writes a batch of frames, `first` to `last`, with one call. Nothing is durable before [`TxnLog::sync`].
    ///
    /// # Panics
    /// When `first` does not follow what was appended before: a hole must not reach the disk.
    pub fn append(&mut self, frames: &[u8], first: Zxid, last: Zxid, records: usize) -> Result<Appended, Error> {
        assert!(first.follows(self.last), "{first} does not follow {}", self.last);
        assert!(first <= last && 0 < records && !frames.is_empty(), "a batch has records in order");
        self.guarded(|log| {
            if log.roll {
                log.finish_file()?;
            }
            if log.current.is_none() {
                log.begin_file(frames, first)?;
            }
            let current = log.current.as_mut().expect("there is one now");
            current.append(frames, log.options.preallocate_bytes, &log.reserve)?;
            log.reserved.set(current.reserved.saturating_sub(current.position));
            log.last = last;
            Ok(log.count(records, frames.len()))
        })
    }

    /// Makes everything appended durable; with `force_sync` off that waits for the end of the file.
    pub fn sync(&mut self) -> Result<Synced, Error> {
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

    /// Begins a new file with the next batch.
    pub fn roll(&mut self) {
        self.roll = true;
    }

    /// Syncs and closes the open file; the next batch begins another.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.guarded(Self::finish_file)
    }

    /// Continues after `last`, in a new file: what was written before is cut, replaced, or was only just recovered.
    pub(crate) fn continue_after(&mut self, last: Zxid) {
        assert!(self.current.is_none(), "the open file was finished");
        self.last = last;
    }

    /// An earlier error ended the log.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Takes nothing more.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Ends cleanly: everything durable, the unused space given back, and a marker that says so.
    pub fn close(mut self) -> Result<(), Error> {
        self.guarded(|log| {
            log.finish_file()?;
            marker::close(&*log.disk, &log.dirs)
        })
    }

    /// Runs `work` unless something failed before; an error makes all later calls fail.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.failed {
            return Err(Error::LogFailed);
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
    /// record is written: so a power cut within the first batch cannot leave records without a header, nor holes
    /// between records in a file that no marker speaks of.
    fn begin_file(&mut self, frames: &[u8], first: Zxid) -> Result<(), Error> {
        let path = self.dirs.logs.join(log_name(first));
        let file = self.reserve.help(|| self.disk.open(&path, Open::CreateNew)).context("create", &path)?;
        let identity = frames.first_chunk().map_or(0, |word| i64::from_be_bytes(*word));
        let (position, allocated, reserved, filled, unsynced) = (0, 0, 0, 0, true);
        let current = Current { file, path, first, identity, position, allocated, reserved, filled, unsynced };
        let current = self.current.insert(current);
        current.append(&log_header(self.last), self.options.preallocate_bytes, &self.reserve)?;
        current.make_durable()?;
        self.disk.sync_dir(&self.dirs.logs).context("sync directory", &self.dirs.logs)?;
        self.mark()?;
        self.marker.sync()
    }

    /// Syncs and closes the open file. Also with `force_sync` off: a hole between two files would be worse than a
    /// lost tail, and this happens once per file.
    fn finish_file(&mut self) -> Result<(), Error> {
        self.roll = false;
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.position < current.allocated {
            self.reserved.set(0);
            current.file.set_len(current.position).context("cut", &current.path)?;
            current.unsynced = true;
        }
        if current.unsynced {
            current.make_durable()?;
            self.mark()?;
        }
        self.current = None;
        Ok(())
    }

    fn mark(&self) -> Result<(), Error> {
        let Some(Current { first, position, identity, .. }) = self.current else { return Ok(()) };
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

impl Current {
    fn append(&mut self, bytes: &[u8], preallocate_bytes: u64, reserve: &Reserve) -> Result<(), Error> {
        let end = self.position + bytes.len() as u64;
        self.reserve(end, preallocate_bytes)?;
        let write =
            |bytes: &[u8]| reserve.help(|| self.file.write_all_at(bytes, self.position)).context("write", &self.path);
        let fill = (end + FILL_AHEAD_BYTES).min(self.allocated);
        // A large batch changes metadata once for many records: zeros under it would only be written in vain.
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

    /// Has space for what ends at `end`, and some for what follows.
    fn reserve(&mut self, end: u64, step: u64) -> Result<(), Error> {
        if step == 0 || end <= self.allocated {
            return Ok(());
        }
        let length = LOG_HEADER_BYTES + step * end.div_ceil(step);
        match self.file.preallocate(length) {
            Ok(is_reserved) => {
                self.allocated = length;
                self.reserved = if is_reserved { length } else { 0 };
            }
            // A reserve that does not fit is no reason to refuse a batch that does.
            Err(error) if is_full(&error) => (),
            Err(error) => return Err(error).context("preallocate", &self.path),
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), Error> {
        self.file.sync_data().context("sync", &self.path)?;
        self.unsynced = false;
        Ok(())
    }
}
