//! Free space, and a little of it kept back.
//!
//! Below the low-water mark the server refuses writes with a clear error and resumes when space returns; it asks
//! [`crate::Store::space`] now and then. Space that the log has reserved ahead of its records counts as free: they
//! will fit. Should a write meet a full disk anyway, the reserve can be given back so that a clean stop fits.

use crate::disk::{Disk, DiskSpace, Open};
use crate::error::{Error, IoContext};
use crate::limits::LOW_WATER_PART;
use crate::names::Dirs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
}

impl Space {
    /// Measures the tighter of the two directories.
    pub(crate) fn measure(
        disk: &dyn Disk,
        dirs: &Dirs,
        reserved: &Reserved,
        low_water_bytes: u64,
    ) -> Result<Self, Error> {
        let measure = |dir: &Path| disk.space(dir).context("measure", dir);
        let before = reserved.bytes();
        let (logs, snapshots) = (measure(&dirs.logs)?, measure(&dirs.snapshots)?);
        // The log goes on meanwhile; the smaller figure never counts a byte twice.
        let reserved_bytes = before.min(reserved.bytes());
        let space = |of: DiskSpace| {
            let reserved_bytes = if of.volume == logs.volume { reserved_bytes } else { 0 };
            let free_bytes = of.free_bytes.saturating_add(reserved_bytes);
            let low_water_bytes = low_water_bytes.min(of.total_bytes / LOW_WATER_PART);
            Self { free_bytes, low_water_bytes, is_low: free_bytes < low_water_bytes }
        };
        let above = |space: &Self| i128::from(space.free_bytes) - i128::from(space.low_water_bytes);
        let (logs, snapshots) = (space(logs), space(snapshots));
        Ok(if above(&logs) <= above(&snapshots) { logs } else { snapshots })
    }
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

/// The file `oxk.reserve`.
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(dir: &Path, bytes: u64) -> Self {
        Self { path: dir.join("oxk.reserve"), bytes }
    }

    /// Sets the space aside. A disk that is too full already has no use for a reserve.
    pub(crate) fn create(&self, disk: &dyn Disk) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let file = disk.open(&self.path, Open::Create).context("create", &self.path)?;
        match file.preallocate(self.bytes) {
            Err(error) if error.kind() == ErrorKind::StorageFull => self.release(disk),
            outcome => outcome.map(|_| ()).context("preallocate", &self.path),
        }
    }

    /// Gives it back.
    pub(crate) fn release(&self, disk: &dyn Disk) -> Result<(), Error> {
        match disk.remove(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome.context("remove", &self.path),
        }
    }
}
