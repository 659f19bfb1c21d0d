//! Free space, and a little of it kept back.
//!
//! Below the low-water mark the server refuses writes with a clear error and resumes when space returns; it asks
//! [`crate::Store::space`] now and then. Space that the log has reserved ahead of its records counts as free: they
//! will fit. Should the log meet a full disk anyway, because a snapshot or somebody else was quicker, it gives the
//! reserve back and goes on. What frees space may use the reserve too, so that it is served when others have taken
//! the last byte.
//!
//! A member of an ensemble keeps a second reserve, for its epochs and notes: with the log full it can still promise an
//! epoch, follow a leader, and be of use to others.

use crate::disk::{Disk, DiskSpace, Open};
use crate::error::{Error, IoContext};
use crate::limits::{EPOCHS_RESERVE_BYTES, LOW_WATER_PART};
use crate::names::Dirs;
use crate::store::StoreOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Free space where logs and snapshots go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written, those reserved for the log included.
    pub free_bytes: u64,
    /// The low-water mark: what should be left.
    pub low_water_bytes: u64,
    /// Below the low-water mark: writes should be refused.
    pub is_low: bool,
    /// Bytes that the log can still get if it must: on its own volume, with the reserve.
    pub last_bytes: u64,
}

impl Space {
    /// Measures the tighter of the two directories.
    pub(crate) fn measure(
        disk: &dyn Disk,
        dirs: &Dirs,
        reserved: &Reserved,
        reserve: &Reserve,
        low_water_bytes: u64,
    ) -> Result<Self, Error> {
        let measure = |dir: &Path| disk.space(dir).context("measure", dir);
        let before = reserved.bytes();
        let (logs, snapshots) = (measure(&dirs.logs)?, measure(&dirs.snapshots)?);
        // The log goes on meanwhile; the smaller figure never counts a byte twice.
        let reserved_bytes = before.min(reserved.bytes());
        let last_bytes = logs.free_bytes.saturating_add(reserved_bytes).saturating_add(reserve.bytes());
        let space = |of: DiskSpace| {
            let reserved_bytes = if of.volume == logs.volume { reserved_bytes } else { 0 };
            let free_bytes = of.free_bytes.saturating_add(reserved_bytes);
            let low_water_bytes = scaled(low_water_bytes, of);
            Self { free_bytes, low_water_bytes, is_low: free_bytes < low_water_bytes, last_bytes }
        };
        let above = |space: &Self| i128::from(space.free_bytes) - i128::from(space.low_water_bytes);
        let (logs, snapshots) = (space(logs), space(snapshots));
        Ok(if above(&logs) <= above(&snapshots) { logs } else { snapshots })
    }

    /// Bytes that may be logged: below the low-water mark, where only few kinds of writes are taken, all that there are.
    pub fn usable_bytes(&self) -> u64 {
        if self.is_low { self.last_bytes.min(self.low_water_bytes.saturating_sub(1)) } else { self.free_bytes }
    }
}

/// Whether a server that had to end because its disk was full can begin again: with its reserve set aside, it is above the
/// low-water mark.
pub fn has_room(disk: &dyn Disk, options: &StoreOptions) -> io::Result<bool> {
    let has_room = |space: DiskSpace| {
        scaled(options.low_water_bytes, space) + scaled(options.reserve_bytes, space) <= space.free_bytes
    };
    let log_dir = options.log_dir.as_deref().unwrap_or(&options.data_dir);
    Ok(has_room(disk.space(&options.data_dir)?) && has_room(disk.space(log_dir)?))
}

/// What should be left of a volume: less on a small one.
fn scaled(low_water_bytes: u64, of: DiskSpace) -> u64 {
    low_water_bytes.min(of.total_bytes / LOW_WATER_PART)
}

/// Bytes that a snapshot may take and still leave the log what it needs.
pub(crate) fn room(disk: &dyn Disk, dir: &Path, low_water_bytes: u64) -> io::Result<u64> {
    let space = disk.space(dir)?;
    Ok(space.free_bytes.saturating_sub(scaled(low_water_bytes, space)))
}

/// Space that the log has reserved and not used yet: told by the log, never more than there is.
#[derive(Debug, Default)]
pub(crate) struct Reserved(AtomicU64);

impl Reserved {
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether the disk has no space left, or no more of it for this user.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// A file that takes up space: for what is on its way to the log when the disk runs full, or for a member's epochs.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    bytes_max: u64,
    /// What is given back at a time.
    step_bytes: u64,
    /// What is set aside now.
    bytes: AtomicU64,
}

impl Reserve {
    /// For the log: `oxk.reserve`, given back as a whole.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, bytes_max: u64) -> Self {
        let (dir, path) = (dir.to_owned(), dir.join("oxk.reserve"));
        Self { disk, dir, path, bytes_max, step_bytes: bytes_max, bytes: AtomicU64::new(0) }
    }

    /// For small files beside the snapshots: `oxk.reserve.epochs`, given back a little at a time, because others may
    /// take what is left over.
    pub(crate) fn for_epochs(disk: Arc<dyn Disk>, dir: &Path, log_bytes_max: u64) -> Self {
        let (dir, path) = (dir.to_owned(), dir.join("oxk.reserve.epochs"));
        let bytes_max = EPOCHS_RESERVE_BYTES.min(log_bytes_max / 4);
        Self { disk, dir, path, bytes_max, step_bytes: bytes_max.div_ceil(4), bytes: AtomicU64::new(0) }
    }

    /// Sets the space aside. A disk that is too full already has no use for a reserve.
    pub(crate) fn create(&self) -> Result<(), Error> {
        if self.bytes_max == 0 {
            return Ok(());
        }
        let total_bytes = self.disk.space(&self.dir).context("measure", &self.dir)?.total_bytes;
        let bytes = self.bytes_max.min(total_bytes / LOW_WATER_PART);
        let file = match self.disk.open(&self.path, Open::Create) {
            Err(error) if is_full(&error) => return Ok(()),
            file => file.context("create", &self.path)?,
        };
        match file.preallocate(bytes) {
            Ok(_) => self.bytes.store(bytes, Ordering::Release),
            Err(error) if is_full(&error) => _ = self.disk.remove(&self.path),
            Err(error) => return Err(error).context("preallocate", &self.path),
        }
        Ok(())
    }

    /// Sets it aside again once there is plenty.
    pub(crate) fn renew(&self, space: &Space) -> Result<(), Error> {
        let enough_bytes = space.low_water_bytes.saturating_add(self.bytes_max).saturating_mul(2);
        if self.bytes() != 0 || space.free_bytes < enough_bytes { Ok(()) } else { self.create() }
    }

    /// Does `work`; if the disk is full, gives space back and does it again.
    pub(crate) fn help<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match work() {
                Err(error) if is_full(&error) && self.release() => (),
                outcome => return outcome,
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Whether there was something to give back.
    fn release(&self) -> bool {
        let bytes = self.bytes();
        let left = bytes.saturating_sub(self.step_bytes);
        self.bytes.store(left, Ordering::Release);
        let cut = || self.disk.open(&self.path, Open::Write)?.set_len(left);
        bytes != 0 && (if left == 0 { self.disk.remove(&self.path) } else { cut() }).is_ok()
    }
}
