//! Snapshots on request, and the last one.

use super::ServerHandle;
use crate::replica_thread::snapshotter;
use ox_store::names::{FileName, parse_name};
use std::fs::{self, File};
use std::io;
use std::time::UNIX_EPOCH;

/// The newest snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSnapshot {
    pub zxid: i64,
    /// When it was written, seconds since 1970.
    pub timestamp: u64,
}

/// A snapshot that was written on request. The open file can be read even if it is purged meanwhile.
#[derive(Debug)]
pub struct WrittenSnapshot {
    pub zxid: i64,
    pub bytes: u64,
    pub file: File,
}

/// Why a snapshot could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot take a snapshot: {0}")]
pub struct SnapshotFailed(#[source] Box<dyn std::error::Error + Send + Sync>);

impl ServerHandle {
    /// The newest snapshot file, `None` if there is none.
    pub fn last_snapshot(&self) -> Option<LastSnapshot> {
        let entries = fs::read_dir(&self.shared().store.dirs().snapshots).ok()?.flatten();
        let snapshots = entries.filter_map(|entry| match parse_name(entry.file_name().to_str()?) {
            FileName::Snapshot(zxid, _) => Some((zxid, entry.metadata().ok()?.modified().ok()?)),
            FileName::Log(_) | FileName::Unrecognised | FileName::Unfinished | FileName::Old | FileName::Other => None,
        });
        let (zxid, modified) = snapshots.max_by_key(|(zxid, _)| *zxid)?;
        let timestamp = modified.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Some(LastSnapshot { zxid: zxid.0, timestamp })
    }

    /// Writes a snapshot of the present state into the data directory. Takes as long as the data is large.
    pub fn take_snapshot(&self) -> Result<WrittenSnapshot, SnapshotFailed> {
        let shared = self.shared();
        let frozen = shared.state.read().freeze();
        let written = snapshotter::write(shared, &frozen).and_then(|path| {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((file, bytes))
        });
        let (file, bytes) = written.map_err(|error| {
            shared.metrics.snapshot_error_count.add(1);
            SnapshotFailed(error)
        })?;
        Ok(WrittenSnapshot { zxid: frozen.last_zxid().0, bytes, file })
    }
}

impl From<io::Error> for SnapshotFailed {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}
