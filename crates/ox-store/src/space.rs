//! Free space, and a little of it kept back.
//!
//! Below the low-water mark the server refuses writes with a clear error and resumes when space returns; it asks
//! [`crate::Store::space`] now and then. Should a write meet a full disk anyway, the reserve can be given back so
//! that a clean stop fits.

use crate::disk::{Disk, Open};
use crate::error::{Error, IoContext};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Free space where logs and snapshots go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// The low-water mark: what should be left.
    pub low_water_bytes: u64,
    /// Below the low-water mark: writes should be refused.
    pub is_low: bool,
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
            outcome => outcome.context("preallocate", &self.path),
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
