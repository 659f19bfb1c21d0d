//! Free disk space, and reserves.
//!
//! Below the low-water mark the server refuses writes with an error, and resumes when space is free again; it polls
//! [`crate::Store::space`]. Space that is preallocated for the log counts as free, because records will fit there. If
//! the log finds the disk full all the same, because a snapshot or another process took the space, it releases the
//! reserve and continues. Operations that free space may use the reserve too, so that they succeed on a full disk.
//!
//! An ensemble member has a second reserve, for its epochs and `oxk.*` files: while the log is full it can still accept
//! an epoch and follow a leader.

use crate::disk::{Disk, DiskSpace, OpenMode};
use crate::error::{IoContext, StoreError};
use crate::limits::{EPOCHS_RESERVE_BYTES, LOW_WATER_PART};
use crate::names::Dirs;
use crate::store::StoreOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The free space for logs and snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that can be written, including those preallocated for the log.
    pub free_bytes: u64,
    /// The low-water mark: the space that should remain free.
    pub low_water_bytes: u64,
    /// Below the low-water mark: writes should be refused.
    pub is_low: bool,
    /// Bytes that the log can use in the worst case: on its own volume, including the reserve.
    pub last_bytes: u64,
}

impl FreeSpace {
    /// Returns the space of the directory that is closer to its low-water mark.
    pub(crate) fn measure(
        disk: &dyn Disk,
        dirs: &Dirs,
        reserved: &Reserved,
        reserve: &Reserve,
        low_water_bytes: u64,
    ) -> Result<Self, StoreError> {
        let measure = |dir: &Path| disk.space(dir).context("stat", dir);
        let before = reserved.bytes();
        let (logs, snapshots) = (measure(&dirs.logs)?, measure(&dirs.snapshots)?);
        // The log may use preallocated space meanwhile; the smaller value counts no byte twice.
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

    /// Bytes that may be logged. Below the low-water mark, where only some kinds of writes are accepted, this is
    /// everything.
    pub fn usable_bytes(&self) -> u64 {
        if self.is_low { self.last_bytes.min(self.low_water_bytes.saturating_sub(1)) } else { self.free_bytes }
    }
}

/// Whether a server that stopped because of a full disk can start again: with its reserve allocated, it is above the
/// low-water mark.
pub fn has_free_space(disk: &dyn Disk, options: &StoreOptions) -> io::Result<bool> {
    let has_free_space = |space: DiskSpace| free_to_start(options, space) <= space.free_bytes;
    let log_dir = options.log_dir.as_deref().unwrap_or(&options.data_dir);
    Ok(has_free_space(disk.space(&options.data_dir)?) && has_free_space(disk.space(log_dir)?))
}

/// The bytes that must be free on the volumes of `dataDir` and `dataLogDir` for [`has_free_space`].
pub fn free_space_needed(disk: &dyn Disk, options: &StoreOptions) -> io::Result<[u64; 2]> {
    let log_dir = options.log_dir.as_deref().unwrap_or(&options.data_dir);
    Ok([free_to_start(options, disk.space(&options.data_dir)?), free_to_start(options, disk.space(log_dir)?)])
}

fn free_to_start(options: &StoreOptions, of: DiskSpace) -> u64 {
    scaled(options.low_water_bytes, of) + scaled(options.reserve_bytes, of)
}

/// The low-water mark of a volume, which is lower for a small one.
fn scaled(low_water_bytes: u64, of: DiskSpace) -> u64 {
    low_water_bytes.min(of.total_bytes / LOW_WATER_PART)
}

/// Bytes that a snapshot may take without using the space that the log needs.
pub(crate) fn free_for_snapshot(disk: &dyn Disk, dir: &Path, low_water_bytes: u64) -> io::Result<u64> {
    let space = disk.space(dir)?;
    Ok(space.free_bytes.saturating_sub(scaled(low_water_bytes, space)))
}

/// Preallocated space that the log has not used yet. The log updates it; it never exceeds the actual value.
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

/// Whether the volume is full, or the user's disk quota is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// A file that reserves space: for records in flight when the disk becomes full, or for a member's epochs.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    bytes_max: u64,
    /// How much one release frees.
    step_bytes: u64,
    /// The reserved size at present.
    bytes: AtomicU64,
}

impl Reserve {
    /// `oxk.reserve` for the log, released as a whole.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, bytes_max: u64) -> Self {
        let (dir, path) = (dir.to_owned(), dir.join("oxk.reserve"));
        Self { disk, dir, path, bytes_max, step_bytes: bytes_max, bytes: AtomicU64::new(0) }
    }

    /// `oxk.reserve.epochs` for small files beside the snapshots. It is released in small steps, because other writers
    /// may take what is left over.
    pub(crate) fn for_epochs(disk: Arc<dyn Disk>, dir: &Path, log_bytes_max: u64) -> Self {
        let (dir, path) = (dir.to_owned(), dir.join("oxk.reserve.epochs"));
        let bytes_max = EPOCHS_RESERVE_BYTES.min(log_bytes_max / 4);
        Self { disk, dir, path, bytes_max, step_bytes: bytes_max.div_ceil(4), bytes: AtomicU64::new(0) }
    }

    /// Allocates the reserve, unless the disk is too full already.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        if self.bytes_max == 0 {
            return Ok(());
        }
        let total_bytes = self.disk.space(&self.dir).context("stat", &self.dir)?.total_bytes;
        let bytes = self.bytes_max.min(total_bytes / LOW_WATER_PART);
        let file = match self.disk.open(&self.path, OpenMode::Create) {
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

    /// Allocates the reserve again once there is enough free space.
    pub(crate) fn renew(&self, space: &FreeSpace) -> Result<(), StoreError> {
        let enough_bytes = space.low_water_bytes.saturating_add(self.bytes_max).saturating_mul(2);
        if self.bytes() != 0 || space.free_bytes < enough_bytes { Ok(()) } else { self.create() }
    }

    /// Runs `work`. If the disk is full, releases reserved space and tries again.
    pub(crate) fn retry_when_full<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
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

    /// Releases one step; returns whether there was anything to release.
    fn release(&self) -> bool {
        let bytes = self.bytes();
        let left = bytes.saturating_sub(self.step_bytes);
        self.bytes.store(left, Ordering::Release);
        let cut = || self.disk.open(&self.path, OpenMode::Write)?.set_len(left);
        bytes != 0 && (if left == 0 { self.disk.remove(&self.path) } else { cut() }).is_ok()
    }
}
