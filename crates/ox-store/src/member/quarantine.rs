//! The record of a quarantine: `oxk.quarantine`, beside the snapshots.
//!
//! Once damage was found, the member stays quarantined until a leader's snapshot has replaced the history, even if a
//! later start does not find the damage. The first line is the time in ms, the rest the reason. The existence of the
//! file decides, whatever its contents; Apache ignores it.

use crate::atomic_file;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::free_space::Reserve;
use crate::limits::SMALL_FILE_BYTES_MAX;
use std::path::Path;

const NAME: &str = "oxk.quarantine";

/// Why a member's history is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    pub reason: String,
    /// The wall clock when the damage was found.
    pub since_ms: i64,
}

impl Quarantine {
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = atomic_file::read(disk, &dir.join(NAME))? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let (since, reason) = text.split_once('\n').unwrap_or(("", &text));
        Ok(Some(Self { reason: reason.trim_end().to_owned(), since_ms: since.parse().unwrap_or(0) }))
    }

    pub(crate) fn write(&self, disk: &dyn Disk, reserve: &Reserve, dir: &Path) -> Result<(), StoreError> {
        let mut text = format!("{}\n{}\n", self.since_ms, self.reason);
        text.truncate(text.floor_char_boundary(SMALL_FILE_BYTES_MAX));
        atomic_file::replace(disk, Some(reserve), dir, NAME, text.as_bytes())
    }

    pub(crate) fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
        atomic_file::remove(disk, dir, NAME)
    }
}
