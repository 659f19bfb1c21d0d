//! Snapshots on request, and the last one.

use super::ServerHandle;
use crate::replica_thread::snapshotter;
use ox_proto::Zxid;
use ox_store::load_snapshot_stream;
use ox_store::names::{FileName, parse_name};
use ox_store::snapshot::SnapshotError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::time::{Instant, UNIX_EPOCH};

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

/// Why a snapshot could not be restored. The data is unchanged, unless the server stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreFailed {
    /// The other members would have different data.
    #[error(
        "a member of an ensemble does not replace its data: stop every server, replace version-2 of each dataDir by one \
         that contains only the snapshot, named snapshot.<its zxid>, create an empty file named initialize in each \
         dataDir, and start them again"
    )]
    Member,
    #[error("cannot restore the snapshot: {0}")]
    Snapshot(#[from] SnapshotError),
    #[error("cannot measure free disk space: {0}")]
    Space(#[source] ox_store::StoreError),
    #[error("the server stops")]
    Stopping,
}

/// Fails after `left` more bytes.
struct Limited<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::StorageFull, "it is larger than the free disk space"))?;
        Ok(count)
    }
}

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
        let _excluded = shared.restore.exclude();
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

    /// Whether [`Self::restore_snapshot`] is possible.
    pub fn check_restore(&self) -> Result<(), RestoreFailed> {
        if self.shared().config.member.is_some() { Err(RestoreFailed::Member) } else { Ok(()) }
    }

    /// Replaces the data of a standalone server by an uncompressed snapshot, and returns its zxid when the snapshot is
    /// durable. All connections are closed; sessions in the snapshot can be resumed. Takes as long as the data is large.
    pub fn restore_snapshot(&self, snapshot: impl Read + Send) -> Result<i64, RestoreFailed> {
        let (shared, started) = (self.shared(), Instant::now());
        let restored = self.check_restore().and_then(|()| {
            let left = shared.store.space().map_err(RestoreFailed::Space)?.usable_bytes();
            let options = shared.state.read().options().clone();
            let state = load_snapshot_stream(Limited { from: snapshot, left }, &options)?;
            let (before, nodes) = (self.last_zxid(), state.node_count());
            tracing::warn!(nodes, zxid = %state.last_zxid(), replaced = %Zxid(before), "restoring a snapshot");
            shared.restore.run(shared, Box::new(state)).ok_or(RestoreFailed::Stopping)
        });
        match restored {
            Ok(last) => {
                let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
                shared.metrics.restore_time.note(took_ms, 1);
                tracing::info!(zxid = %last, took_ms, "snapshot restored");
                Ok(last.0)
            }
            Err(error) => {
                self.note_failed_restore();
                Err(error)
            }
        }
    }
}

impl From<io::Error> for SnapshotFailed {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}
