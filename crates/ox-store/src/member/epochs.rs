//! The epochs of an ensemble member: `acceptedEpoch` and `currentEpoch`.
//!
//! | file | meaning |
//! |---|---|
//! | `acceptedEpoch` | the highest epoch that was accepted from a leader |
//! | `currentEpoch` | the epoch of the leader whose history this server holds |
//!
//! Both are decimal numbers in the snapshot directory, replaced atomically (`atomic_file.rs`); memory is updated after
//! the disk. At a start, with `e` the epoch of the last zxid:
//!
//! | found | result |
//! |---|---|
//! | both missing | both are `e` if `e` is 0 or the operator has created the `initialize` marker; else in doubt |
//! | `currentEpoch` missing | 0 if everything else is 0; `e` with the `initialize` marker if `acceptedEpoch` is `e`, as after a crash in the row above; else refused |
//! | `acceptedEpoch` missing | 0 if everything else is 0; else refused, because an accepted epoch may be lost |
//! | one is empty or not a number | the value of its `.tmp` if that is a number; else refused |
//! | `e` above `currentEpoch` | the server crashed between history and epoch. `currentEpoch.tmp` if it is between `e` and `acceptedEpoch`; else `e` if it was accepted; else refused |
//! | `acceptedEpoch` below `currentEpoch` | refused |
//! | either of the last two, in a copy that the operator has accepted | `acceptedEpoch` is raised: the files were copied one after another |

use crate::atomic_file;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::free_space::Reserve;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ACCEPTED: &str = "acceptedEpoch";
pub(crate) const CURRENT: &str = "currentEpoch";
/// A temporary file of ZooKeeper 3.4.
const UPDATING: &str = "updatingEpoch";

/// The contents of both epoch files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredEpochs {
    /// The highest epoch that was accepted from a leader.
    pub accepted: u32,
    /// The epoch of the leader whose history this server holds.
    pub current: u32,
}

/// Why the epoch files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpochError {
    /// Both files are missing beside a history.
    #[error("acceptedEpoch and currentEpoch are missing beside a history of epoch {history}")]
    BothMissing {
        /// The epoch of the last zxid.
        history: u32,
    },
    /// One of the files is missing.
    #[error("{name} is missing beside a history of epoch {history} and {other}")]
    Missing {
        name: &'static str,
        /// The epoch of the last zxid.
        history: u32,
        /// The value of the other file.
        other: u32,
    },
    #[error("{0} does not contain an epoch")]
    Unreadable(&'static str),
    /// The history belongs to an epoch that was never accepted.
    #[error("the history is of epoch {history}, but only epoch {accepted} was accepted")]
    NotAccepted {
        /// The epoch of the last zxid.
        history: u32,
        accepted: u32,
    },
    /// `acceptedEpoch` is below `currentEpoch`.
    #[error("acceptedEpoch {accepted} is below currentEpoch {current}")]
    Order { accepted: u32, current: u32 },
}

/// The contents of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredEpoch {
    Missing,
    Unreadable,
    Epoch(u32),
}

impl StoredEpoch {
    fn parse(bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return Self::Missing };
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Compat: Apache writes -1 for a database that must not be created: no epoch accepted yet.
        let digits = if line == b"-1" { b"0" } else { line };
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let epoch = plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten();
        let epoch = epoch.filter(|epoch| *epoch <= i32::MAX.unsigned_abs()); // the epoch in a zxid has 31 usable bits
        epoch.map_or(Self::Unreadable, Self::Epoch)
    }

    pub(crate) fn epoch(self) -> Option<u32> {
        if let Self::Epoch(epoch) = self { Some(epoch) } else { None }
    }
}

/// The contents of both files and their temporary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundEpochs {
    pub(crate) accepted: StoredEpoch,
    pub(crate) current: StoredEpoch,
    accepted_tmp: StoredEpoch,
    current_tmp: StoredEpoch,
}

/// Reasons to accept more than the files prove.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrustHints {
    /// The operator created the `initialize` marker.
    pub(crate) initialize: bool,
    pub(crate) accept_doubt: bool,
    /// The history is a copy, whose epochs may have been copied before its logs.
    pub(crate) is_copy: bool,
}

impl FoundEpochs {
    /// The disk cannot read the files.
    pub(crate) const UNREADABLE: Self = Self {
        accepted: StoredEpoch::Unreadable,
        current: StoredEpoch::Unreadable,
        accepted_tmp: StoredEpoch::Unreadable,
        current_tmp: StoredEpoch::Unreadable,
    };

    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, StoreError> {
        let read = |name: &str| Ok(StoredEpoch::parse(atomic_file::read(disk, &dir.join(name))?.as_deref()));
        Ok(Self {
            accepted: read(ACCEPTED)?,
            current: read(CURRENT)?,
            accepted_tmp: read(&atomic_file::tmp_name(ACCEPTED))?,
            current_tmp: read(&atomic_file::tmp_name(CURRENT))?,
        })
    }

    /// Whether both files are missing.
    pub(crate) fn are_missing(&self) -> bool {
        (self.accepted, self.current) == (StoredEpoch::Missing, StoredEpoch::Missing)
    }

    /// Whether a file contains an epoch above 0, so that a history has existed.
    pub(crate) fn any_above_zero(&self) -> bool {
        [self.accepted, self.current]
            .into_iter()
            .any(|stored| !matches!(stored, StoredEpoch::Missing | StoredEpoch::Epoch(0)))
    }

    /// Implements the table above.
    pub(crate) fn resolve(&self, history: u32, trust: TrustHints) -> Result<StoredEpochs, EpochError> {
        let accepted = or_tmp(self.accepted, self.accepted_tmp, ACCEPTED)?;
        let current = or_tmp(self.current, self.current_tmp, CURRENT)?;
        let is_trusted = trust.initialize || trust.accept_doubt;
        let (accepted, current) = match (accepted, current) {
            (Some(accepted), Some(current)) => (accepted, current),
            (None, None) if history == 0 || is_trusted => (history, history),
            (Some(accepted), None) if accepted == history && is_trusted => (history, history),
            (None, None) => return Err(EpochError::BothMissing { history }),
            (None, Some(0)) | (Some(0), None) if history == 0 => (0, 0),
            (None, Some(other)) => return Err(EpochError::Missing { name: ACCEPTED, history, other }),
            (Some(other), None) => return Err(EpochError::Missing { name: CURRENT, history, other }),
        };
        let is_trusted_copy = trust.accept_doubt && trust.is_copy;
        let accepted = if is_trusted_copy { accepted.max(current).max(history) } else { accepted };
        if accepted < current {
            return Err(EpochError::Order { accepted, current });
        }
        if history <= current {
            return Ok(StoredEpochs { accepted, current });
        }
        if accepted < history {
            return Err(EpochError::NotAccepted { history, accepted });
        }
        let begun = self.current_tmp.epoch().filter(|epoch| (history..=accepted).contains(epoch));
        Ok(StoredEpochs { accepted, current: begun.unwrap_or(history) })
    }
}

fn or_tmp(stored: StoredEpoch, tmp: StoredEpoch, name: &'static str) -> Result<Option<u32>, EpochError> {
    match stored {
        StoredEpoch::Missing => Ok(None),
        StoredEpoch::Epoch(epoch) => Ok(Some(epoch)),
        StoredEpoch::Unreadable => tmp.epoch().map(Some).ok_or(EpochError::Unreadable(name)),
    }
}

/// The epoch files, and their contents.
pub(crate) struct EpochFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    reserve: Arc<Reserve>,
    epochs: StoredEpochs,
    /// The files contain exactly these epochs.
    are_stored: bool,
}

impl EpochFiles {
    /// The caller may still have to write `epochs`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        reserve: Arc<Reserve>,
        epochs: StoredEpochs,
        are_stored: bool,
    ) -> Self {
        Self { disk, dir, reserve, epochs, are_stored }
    }

    pub(crate) fn epochs(&self) -> StoredEpochs {
        self.epochs
    }

    /// Writes both files, `acceptedEpoch` first, and removes temporary files.
    pub(crate) fn store(&mut self) -> Result<(), StoreError> {
        if !self.are_stored {
            self.write(ACCEPTED, self.epochs.accepted)?;
            self.write(CURRENT, self.epochs.current)?;
            self.are_stored = true;
        }
        for name in [atomic_file::tmp_name(ACCEPTED), atomic_file::tmp_name(CURRENT), UPDATING.to_owned()] {
            atomic_file::remove_quietly(&*self.disk, &self.dir.join(name))?;
        }
        Ok(())
    }

    /// # Panics
    /// If a higher epoch was accepted before.
    pub(crate) fn set_accepted(&mut self, epoch: u32) -> Result<(), StoreError> {
        assert!(self.epochs.accepted <= epoch, "epoch {} was accepted, not {epoch}", self.epochs.accepted);
        if self.are_stored && self.epochs.accepted == epoch {
            return Ok(());
        }
        self.write(ACCEPTED, epoch)?;
        self.epochs.accepted = epoch;
        Ok(())
    }

    /// # Panics
    /// If the epoch was not accepted, or is below the current one.
    pub(crate) fn set_current(&mut self, epoch: u32) -> Result<(), StoreError> {
        let StoredEpochs { accepted, current } = self.epochs;
        assert!(current <= epoch && epoch <= accepted, "epoch {epoch} is not between {current} and {accepted}");
        if self.are_stored && current == epoch {
            return Ok(());
        }
        self.write(CURRENT, epoch)?;
        self.epochs.current = epoch;
        // Both files are written by now, because `acceptedEpoch` is always written first.
        self.are_stored = true;
        Ok(())
    }

    fn write(&self, name: &str, epoch: u32) -> Result<(), StoreError> {
        atomic_file::replace(&*self.disk, Some(&self.reserve), &self.dir, name, epoch.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests;
