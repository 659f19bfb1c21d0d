//! The two promises of an ensemble member: `acceptedEpoch` and `currentEpoch`.
//!
//! | file | means |
//! |---|---|
//! | `acceptedEpoch` | the highest epoch whose leader was promised to be followed |
//! | `currentEpoch` | the epoch of the leader whose history this server holds |
//!
//! Both are decimal texts in the directory of the snapshots, replaced as a whole (`small_file.rs`); memory follows the
//! disk. What a start makes of them, with `e` the epoch of the last zxid found:
//!
//! | found | then |
//! |---|---|
//! | both missing | both are `e` if `e` is 0 or the operator vouches with the `initialize` marker; else in doubt |
//! | `currentEpoch` missing | 0 if everything else is 0; `e` if the operator vouches and `acceptedEpoch` is `e`, as after a crash in the row above; else refused |
//! | `acceptedEpoch` missing | 0 if everything else is 0; else refused: a promise may be lost |
//! | one is empty or no number | the value of its `.tmp` if that is one; else refused |
//! | `e` above `currentEpoch` | the crash came between history and epoch. `currentEpoch.tmp` if it is from `e` to `acceptedEpoch`; else `e` if it was accepted; else refused |
//! | `acceptedEpoch` below `currentEpoch` | refused |
//! | either of the last two, in a copy that the operator vouches for | `acceptedEpoch` is raised: the files were copied one after another |

use crate::disk::Disk;
use crate::error::Error;
use crate::small_file;
use crate::space::Reserve;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ACCEPTED: &str = "acceptedEpoch";
pub(crate) const CURRENT: &str = "currentEpoch";
/// Left behind by 3.4.
const UPDATING: &str = "updatingEpoch";

/// Both promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// The highest epoch whose leader was promised to be followed.
    pub accepted: u32,
    /// The epoch of the leader whose history is held.
    pub current: u32,
}

/// Why the epoch files cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpochError {
    /// No promise is known, and there is a history.
    #[error("acceptedEpoch and currentEpoch are missing beside a history of epoch {history}")]
    BothMissing {
        /// Epoch of the last zxid.
        history: u32,
    },
    /// One of them is gone.
    #[error("{name} is missing beside a history of epoch {history} and {other}")]
    Missing {
        /// The missing file.
        name: &'static str,
        /// Epoch of the last zxid.
        history: u32,
        /// Value of the other file.
        other: u32,
    },
    /// Not a number.
    #[error("{0} holds no epoch")]
    Unreadable(&'static str),
    /// A history of an epoch that was never accepted.
    #[error("the history is of epoch {history}, but only epoch {accepted} was accepted")]
    NotAccepted {
        /// Epoch of the last zxid.
        history: u32,
        /// `acceptedEpoch`.
        accepted: u32,
    },
    /// The two contradict each other.
    #[error("acceptedEpoch {accepted} is below currentEpoch {current}")]
    Order {
        /// `acceptedEpoch`.
        accepted: u32,
        /// `currentEpoch`.
        current: u32,
    },
}

/// What a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Missing,
    Unreadable,
    Epoch(u32),
}

impl Stored {
    fn parse(bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return Self::Missing };
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Compat: Apache writes -1 for a database that must not be created: no promise yet.
        let digits = if line == b"-1" { b"0" } else { line };
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let epoch = plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten();
        let epoch = epoch.filter(|epoch| *epoch <= i32::MAX.unsigned_abs()); // zxids have no room for more
        epoch.map_or(Self::Unreadable, Self::Epoch)
    }

    pub(crate) fn epoch(self) -> Option<u32> {
        if let Self::Epoch(epoch) = self { Some(epoch) } else { None }
    }
}

/// What the files say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) accepted: Stored,
    pub(crate) current: Stored,
    accepted_tmp: Stored,
    current_tmp: Stored,
}

/// What speaks for believing more than the files prove.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vouched {
    /// The operator placed the `initialize` marker.
    pub(crate) initialize: bool,
    /// `oxkeeper.recovery.onDamage=accept`.
    pub(crate) accept_doubt: bool,
    /// The history is a copy, whose epochs may have been copied before its logs.
    pub(crate) is_copy: bool,
}

impl Found {
    /// The disk cannot read them any more.
    pub(crate) const UNREADABLE: Self = Self {
        accepted: Stored::Unreadable,
        current: Stored::Unreadable,
        accepted_tmp: Stored::Unreadable,
        current_tmp: Stored::Unreadable,
    };

    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, Error> {
        let read = |name: &str| Ok(Stored::parse(small_file::read(disk, &dir.join(name))?.as_deref()));
        Ok(Self {
            accepted: read(ACCEPTED)?,
            current: read(CURRENT)?,
            accepted_tmp: read(&small_file::tmp_name(ACCEPTED))?,
            current_tmp: read(&small_file::tmp_name(CURRENT))?,
        })
    }

    /// Neither file is there.
    pub(crate) fn is_nothing(&self) -> bool {
        (self.accepted, self.current) == (Stored::Missing, Stored::Missing)
    }

    /// True if one of the files tells of an epoch, so that there was a history once.
    pub(crate) fn any_above_zero(&self) -> bool {
        [self.accepted, self.current].into_iter().any(|stored| !matches!(stored, Stored::Missing | Stored::Epoch(0)))
    }

    /// The table above.
    pub(crate) fn judge(&self, history: u32, vouched: Vouched) -> Result<Epochs, EpochError> {
        let accepted = or_tmp(self.accepted, self.accepted_tmp, ACCEPTED)?;
        let current = or_tmp(self.current, self.current_tmp, CURRENT)?;
        let is_vouched = vouched.initialize || vouched.accept_doubt;
        let (accepted, current) = match (accepted, current) {
            (Some(accepted), Some(current)) => (accepted, current),
            (None, None) if history == 0 || is_vouched => (history, history),
            (Some(accepted), None) if accepted == history && is_vouched => (history, history),
            (None, None) => return Err(EpochError::BothMissing { history }),
            (None, Some(0)) | (Some(0), None) if history == 0 => (0, 0),
            (None, Some(other)) => return Err(EpochError::Missing { name: ACCEPTED, history, other }),
            (Some(other), None) => return Err(EpochError::Missing { name: CURRENT, history, other }),
        };
        let is_vouched_copy = vouched.accept_doubt && vouched.is_copy;
        let accepted = if is_vouched_copy { accepted.max(current).max(history) } else { accepted };
        if accepted < current {
            return Err(EpochError::Order { accepted, current });
        }
        if history <= current {
            return Ok(Epochs { accepted, current });
        }
        if accepted < history {
            return Err(EpochError::NotAccepted { history, accepted });
        }
        let begun = self.current_tmp.epoch().filter(|epoch| (history..=accepted).contains(epoch));
        Ok(Epochs { accepted, current: begun.unwrap_or(history) })
    }
}

fn or_tmp(stored: Stored, tmp: Stored, name: &'static str) -> Result<Option<u32>, EpochError> {
    match stored {
        Stored::Missing => Ok(None),
        Stored::Epoch(epoch) => Ok(Some(epoch)),
        Stored::Unreadable => tmp.epoch().map(Some).ok_or(EpochError::Unreadable(name)),
    }
}

/// The files, and what they hold.
pub(crate) struct EpochFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    reserve: Arc<Reserve>,
    epochs: Epochs,
    /// The files hold exactly these.
    are_stored: bool,
}

impl EpochFiles {
    /// Holds `epochs`, which may still have to be written.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        reserve: Arc<Reserve>,
        epochs: Epochs,
        are_stored: bool,
    ) -> Self {
        Self { disk, dir, reserve, epochs, are_stored }
    }

    pub(crate) fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Writes both, the promise first, and removes what earlier writes left behind.
    pub(crate) fn store(&mut self) -> Result<(), Error> {
        if !self.are_stored {
            self.write(ACCEPTED, self.epochs.accepted)?;
            self.write(CURRENT, self.epochs.current)?;
            self.are_stored = true;
        }
        for name in [small_file::tmp_name(ACCEPTED), small_file::tmp_name(CURRENT), UPDATING.to_owned()] {
            small_file::remove_quietly(&*self.disk, &self.dir.join(name))?;
        }
        Ok(())
    }

    /// # Panics
    /// When the promise would be taken back.
    pub(crate) fn set_accepted(&mut self, epoch: u32) -> Result<(), Error> {
        assert!(self.epochs.accepted <= epoch, "epoch {} was promised, not {epoch}", self.epochs.accepted);
        if self.are_stored && self.epochs.accepted == epoch {
            return Ok(());
        }
        self.write(ACCEPTED, epoch)?;
        self.epochs.accepted = epoch;
        Ok(())
    }

    /// # Panics
    /// When the epoch was not accepted, or is an old one.
    pub(crate) fn set_current(&mut self, epoch: u32) -> Result<(), Error> {
        let Epochs { accepted, current } = self.epochs;
        assert!(current <= epoch && epoch <= accepted, "epoch {epoch} is not between {current} and {accepted}");
        if self.are_stored && current == epoch {
            return Ok(());
        }
        self.write(CURRENT, epoch)?;
        self.epochs.current = epoch;
        // Both were written by now: the promise always comes first.
        self.are_stored = true;
        Ok(())
    }

    fn write(&self, name: &str, epoch: u32) -> Result<(), Error> {
        small_file::replace(&*self.disk, Some(&self.reserve), &self.dir, name, epoch.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests;
