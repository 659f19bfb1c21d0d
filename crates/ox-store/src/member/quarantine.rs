//! The note that a member's history must not be used: `oxk.quarantine`, beside the snapshots.
//!
//! Damage that was seen once counts until a leader's history has taken the place of the damaged one, also when the next
//! start would not see it. The first line is the time in milliseconds, the rest the reason. That there is a note is what
//! counts, whatever it says; Apache ignores it.

use crate::disk::Disk;
use crate::error::Error;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::small_file;
use crate::space::Reserve;
use std::path::Path;

const NAME: &str = "oxk.quarantine";

/// Why a member's history is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// For the operator.
    pub reason: String,
    /// Wall clock when it was noticed.
    pub since_ms: i64,
}

impl Quarantine {
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, Error> {
        let Some(bytes) = small_file::read(disk, &dir.join(NAME))? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let (since, reason) = text.split_once('\n').unwrap_or(("", &text));
        Ok(Some(Self { reason: reason.trim_end().to_owned(), since_ms: since.parse().unwrap_or(0) }))
    }

    pub(crate) fn write(&self, disk: &dyn Disk, reserve: &Reserve, dir: &Path) -> Result<(), Error> {
        let mut text = format!("{}\n{}\n", self.since_ms, self.reason);
        text.truncate(text.floor_char_boundary(SMALL_FILE_BYTES_MAX));
        small_file::replace(disk, Some(reserve), dir, NAME, text.as_bytes())
    }

    pub(crate) fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
        small_file::remove(disk, dir, NAME)
    }
}
