//! Installing a snapshot that replaces the local history: a leader's (SNAP), or one that an operator restores on a
//! standalone server.
//!
//! The local history may differ from the leader's, both above and below the zxid of the snapshot, so all of it must be
//! replaced. But other members may rely on it, so it is kept until the new one is durable. A note makes the switch
//! atomic:
//!
//! ```text
//! snapshot written, synced, read back ──> note ──> snapshot renamed ──> note: moving ──> others moved aside ──> no note
//!             (the old history is valid)  └────────────────── (the new history is valid) ─────────────────┘
//! ```
//! If a start finds a note and the snapshot that it describes, it completes the move before it reads anything; if the
//! snapshot is missing and nothing was moved, it removes the note. Moved files (`old.<zxid>.<name>`) are removed when
//! another snapshot is durable. In a copy of a running server's directory the note may be older than the other files,
//! so it is not followed.
//!
//! `oxk.install`, beside the snapshots, big-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `OXKINST1` |
//! | 8 | 8 | zxid in the name of the snapshot |
//! | 16 | 8 | length of its file |
//! | 24 | 8 | Adler-32 of its file, zero-extended: an older snapshot of that name is another one |
//! | 32 | 4 | its compression: 0 none, 1 gz, 2 snappy |
//! | 36 | 4 | 1 if files may have been moved |
//! | 40 | 8 | Adler-32 of bytes 0 to 39, zero-extended |

use super::MemberLog;
use crate::atomic_file;
use crate::disk::{Disk, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use crate::free_space::Reserve;
use crate::limits::READ_CHUNK_BYTES;
use crate::marker::{Marker, write_durably};
use crate::names::{self, Compression, Dirs, SnapshotFile, old_name, snapshot_name};
use crate::snapshot::write::{WriteLimits, publish};
use crate::store::Store;
use crate::txn_log::TxnLog;
use crate::valid_range::ValidRange;
use ox_proto::Zxid;
use ox_tree::FrozenView;
use simd_adler32::Adler32;
use std::io;
use std::path::Path;

const NAME: &str = "oxk.install";
const MAGIC: &[u8; 8] = b"OXKINST1";
const BYTES: usize = 48;
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Gz, Compression::Snappy];

impl MemberLog {
    /// Replaces the local history by `frozen`. All appended records must be synced. After an error the process must
    /// end; the next start finds the old history or the new one.
    pub fn install(&mut self, frozen: &FrozenView) -> Result<SnapshotFile, StoreError> {
        self.job(|log| {
            let store = log.store.clone();
            let file = store.replace_history(&mut log.log, frozen)?;
            let last = frozen.last_zxid();
            log.begin_history(last, last, last);
            Ok(file)
        })
    }
}

impl Store {
    /// Replaces the history of a standalone server by `frozen`, which the caller serves from now on. All appended
    /// records must be synced, and no snapshot of the old history may be begun and not finished. After an error the
    /// process must end; the next start finds the old history or the new one.
    pub fn restore(&self, log: &mut TxnLog, frozen: &FrozenView) -> Result<SnapshotFile, StoreError> {
        if log.has_failed() {
            return Err(StoreError::LogFailed);
        }
        let restored = self.replace_history(log, frozen);
        if restored.is_err() {
            log.fail();
        }
        restored
    }

    fn replace_history(&self, log: &mut TxnLog, frozen: &FrozenView) -> Result<SnapshotFile, StoreError> {
        log.finish()?;
        let shared = &*self.0;
        let (disk, dirs, reserve) = (&*shared.disk, &shared.dirs, &*shared.epochs_reserve);
        let _files = shared.files.lock();
        let mut valid_range = shared.valid_range.lock();
        if *valid_range != ValidRange::Standalone {
            *valid_range = ValidRange::Unusable;
        }
        drop(valid_range);
        // A member cannot be synchronised without it, so it may use all free space.
        let prepared = self.prepare(frozen, WriteLimits::ANY)?;
        let note = Note::new(disk, &prepared.unfinished, &prepared.file)?;
        note.write(disk, reserve, dirs)?;
        let file = publish(disk, prepared)?;
        let note = Note { moving: true, ..note };
        note.write(disk, reserve, dirs)?;
        note.finish(disk, dirs)?;
        log.continue_after(frozen.last_zxid());
        Ok(file)
    }
}

/// The contents of `oxk.install`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    last: Zxid,
    compression: Compression,
    length: u64,
    adler: u32,
    moving: bool,
}

/// Whether an earlier run has started an installation.
pub(crate) fn is_begun(disk: &dyn Disk, dirs: &Dirs) -> Result<bool, StoreError> {
    Ok(atomic_file::read(disk, &dirs.snapshots.join(NAME))?.is_some())
}

/// Completes or discards an installation that an earlier run has started.
pub(crate) fn resume(disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
    let path = dirs.snapshots.join(NAME);
    let Some(bytes) = atomic_file::read(disk, &path)? else { return Ok(()) };
    let Some(note) = Note::decode(&bytes) else { return Err(StoreError::InstallUnreadable(path)) };
    if Marker::load(disk, &dirs.logs)?.is_some_and(|found| found.is_copied) {
        return Err(StoreError::InstallCopied(path));
    }
    let snapshot = dirs.snapshots.join(snapshot_name(note.last, note.compression));
    match fingerprint(disk, &snapshot)? {
        Some(found) if found == (note.length, note.adler) => {
            // The file was synced before the rename, but the directory perhaps not.
            disk.sync_dir(&dirs.snapshots).context("fsync directory", &dirs.snapshots)?;
            note.finish(disk, dirs)
        }
        _ if note.moving => Err(StoreError::InstallLost(snapshot)),
        _ => atomic_file::remove(disk, &dirs.snapshots, NAME),
    }
}

impl Note {
    fn new(disk: &dyn Disk, unfinished: &Path, file: &SnapshotFile) -> Result<Self, StoreError> {
        let found = fingerprint(disk, unfinished)?;
        let (length, adler) = found.ok_or(io::ErrorKind::NotFound.into()).context("open", unfinished)?;
        Ok(Self { last: file.last, compression: file.compression, length, adler, moving: false })
    }

    fn write(&self, disk: &dyn Disk, reserve: &Reserve, dirs: &Dirs) -> Result<(), StoreError> {
        atomic_file::replace(disk, Some(reserve), &dirs.snapshots, NAME, &self.encode())
    }

    /// Moves all other files aside, and removes the note.
    fn finish(&self, disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
        let listing = names::list(disk, dirs)?;
        let kept = dirs.snapshots.join(snapshot_name(self.last, self.compression));
        let logs = listing.logs.iter().map(|log| &log.path);
        let snapshots = listing.snapshots.iter().map(|file| &file.path).filter(|path| **path != kept);
        for path in logs.chain(snapshots) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            disk.rename(path, &path.with_file_name(old_name(self.last, name))).context("rename", path)?;
        }
        for dir in dirs.each() {
            disk.sync_dir(dir).context("fsync directory", dir)?;
        }
        // The marker described the old history.
        let marker = Marker { last: self.last, ..Marker::default() };
        write_durably(disk, &dirs.logs, &marker)?;
        atomic_file::remove(disk, &dirs.snapshots, NAME)
    }

    fn encode(&self) -> [u8; BYTES] {
        let compression = COMPRESSIONS.iter().position(|one| *one == self.compression).unwrap_or_default();
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.last.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_be_bytes());
        bytes[24..32].copy_from_slice(&u64::from(self.adler).to_be_bytes());
        bytes[35] = u8::try_from(compression).unwrap_or_default();
        bytes[39] = u8::from(self.moving);
        let checksum = u64::from(simd_adler32::adler32(&&bytes[..40]));
        bytes[40..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Returns `None` unless the note is intact.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|word| i64::from_be_bytes(*word));
        let note = Self {
            last: Zxid(number(8)?),
            length: number(16)?.cast_unsigned(),
            adler: u32::try_from(number(24)?).ok()?,
            compression: *COMPRESSIONS.get(usize::from(bytes[35]))?,
            moving: bytes[39] == 1,
        };
        (note.encode() == *bytes).then_some(note)
    }
}

/// Length and checksum of a file; `None` if it does not exist.
fn fingerprint(disk: &dyn Disk, path: &Path) -> Result<Option<(u64, u32)>, StoreError> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("open", path),
    };
    let (mut adler, mut length, mut chunk) = (Adler32::new(), 0, vec![0; READ_CHUNK_BYTES]);
    loop {
        let count = read_full(&*file, &mut chunk, length).context("read", path)?;
        if count == 0 {
            return Ok(Some((length, adler.finish())));
        }
        adler.write(&chunk[..count]);
        length += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intact_notes_are_decoded() {
        for compression in COMPRESSIONS {
            let note = Note { last: Zxid(14), compression, length: 619, adler: 0xf987_0c34, moving: true };
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Some(note));
            assert_eq!(Note::decode(&bytes[..47]), None);
            for at in 0..bytes.len() {
                let mut damaged = bytes;
                damaged[at] ^= 4;
                assert_eq!(Note::decode(&damaged), None, "byte {at}");
            }
        }
    }
}
