//! Free disk space: below the low-water mark a server refuses writes, or does not lead; above it, it accepts them again.

use ox_store::{FreeSpace, Store, StoreError};
use std::io;

/// Logs when free space becomes low or sufficient.
#[derive(Clone, Debug)]
pub struct SpaceCheck {
    is_member: bool,
    was_low: bool,
}

/// Why free space is unknown.
#[derive(Debug)]
pub enum SpaceError {
    /// The directory was removed. Its files can still be written to, but no later start would find them: the server has
    /// to stop.
    Gone(StoreError),
    Failed(StoreError),
}

impl SpaceCheck {
    pub fn new(is_member: bool) -> Self {
        Self { is_member, was_low: false }
    }

    /// Measures free space. Between two measurements the replica subtracts what it logs; snapshots and other programs
    /// use space, too.
    pub fn measure(store: &Store) -> Result<FreeSpace, SpaceError> {
        match store.space() {
            Ok(space) => Ok(space),
            Err(error) if is_gone(&error) => Err(SpaceError::Gone(error)),
            Err(error) => Err(SpaceError::Failed(error)),
        }
    }

    /// Logs a change. The replica must have the measurement already, so that the line is true when an operator reads it.
    pub fn log_change(&mut self, space: &FreeSpace) {
        if space.is_low == std::mem::replace(&mut self.was_low, space.is_low) {
            return;
        }
        let free_bytes = space.free_bytes;
        if space.is_low && self.is_member {
            tracing::error!(
                free_bytes,
                "disk space is low: this member does not lead; free some space in dataDir and dataLogDir"
            );
        } else if space.is_low {
            tracing::error!(
                free_bytes,
                "disk space is low: writes are refused; free some space in dataDir and dataLogDir"
            );
        } else {
            tracing::info!(free_bytes, "disk space is sufficient again");
        }
    }
}

fn is_gone(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
