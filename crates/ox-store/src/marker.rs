//! The marker of the synced position: the end of the newest log that is known to be fsynced.
//!
//! After a power cut, a partially written batch and bit rot in acknowledged records can look alike. The marker
//! distinguishes them: bytes below its position were synced, so damage there is never a torn tail. The marker is
//! written after each fsync without being synced itself. It may be outdated or missing after a power cut, which is
//! safe, because it is a lower bound. A position that is too high would not be safe, so it is lowered durably before a
//! log is truncated.
//!
//! `oxk.synced`, one sector at most, big-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `OXKSYNC2` |
//! | 8 | 8 | zxid in the name of the log |
//! | 16 | 8 | position: all bytes of the log before it were synced |
//! | 24 | 8 | stored checksum of the log's first frame: distinguishes the log from a later one of the same name |
//! | 32 | 8 | zxid of the last record before the position |
//! | 40 | 8 | inode number of this very file |
//! | 48 | 8 | when this very file was created, in nanoseconds since 1970; 0 if unknown |
//! | 56 | 8 | 0 while a server runs; after a clean stop the fingerprint of the directories ([`inventory`]) |
//! | 64 | 8 | Adler-32 of bytes 0 to 63, zero-extended |
//!
//! Version 1 (`OXKSYNC1`, 48 bytes) has its checksum after the zxid. Its directory counts as the original.
//!
//! Apache ignores the file, and may have written logs since; `log_tail.rs` decides when the marker applies.
//!
//! If the log that it names is missing, that is not damage by itself, as long as a snapshot contains everything up to
//! the marker's last record. Apache's purge removes such logs and leaves the marker, and so does a start of ours that
//! finds the newest log empty, or damaged where a snapshot covers it.
//!
//! # Copies
//!
//! The marker is overwritten in place and never renamed, so it contains the inode number and time of creation of its
//! own file, unless it is a copy: `cp`, `rsync` and `tar` create new files, whose time of creation cannot be set. A
//! renamed directory keeps both, and so does a snapshot of the volume, which equals the result of a power cut.
//!
//! | marker | the directory is | its end |
//! |---|---|---|
//! | is its own, or of version 1 | the original | must reach the marker |
//! | of another file, closed, and the fingerprint matches | the original, moved after a clean stop | must reach the marker |
//! | of another file otherwise | a copy made while the server ran | may be missing |
//!
//! The position in the marker of a copy proves nothing, because the log may have been copied before the marker. A start
//! rewrites the marker durably, and not closed, before the server accepts anything.

use crate::atomic_file;
use crate::disk::{Disk, DiskFile, FileIdentity, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use crate::member::epochs::{ACCEPTED, CURRENT};
use crate::names::{DirListing, Dirs};
use ox_proto::Zxid;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the marker, in the log directory.
pub const MARKER_NAME: &str = "oxk.synced";

const MAGIC: &[u8; 8] = b"OXKSYNC2";
const BYTES: usize = 72;
const MAGIC_1: &[u8; 8] = b"OXKSYNC1";
const BYTES_1: usize = 48;

/// The decoded contents of the marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// The zxid in the name of the log; 0 if the marker names none.
    pub log: Zxid,
    /// All bytes of the log before it were synced.
    pub position: u64,
    /// The stored checksum of the log's first frame.
    pub identity: i64,
    /// The last record before the position.
    pub last: Zxid,
    /// The file that the marker was written to; `None` in version 1.
    pub written_to: Option<FileIdentity>,
    /// The fingerprint of the directories, if the server has stopped cleanly.
    pub closed: Option<u64>,
}

impl Marker {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(if self.written_to.is_some() { MAGIC } else { MAGIC_1 });
        let position = self.position.cast_signed();
        for word in [self.log.0, position, self.identity, self.last.0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        if let Some(FileIdentity { inode, born_ns }) = self.written_to {
            bytes.extend_from_slice(&inode.to_be_bytes());
            bytes.extend_from_slice(&born_ns.to_be_bytes());
            bytes.extend_from_slice(&self.closed.unwrap_or(0).to_be_bytes());
        }
        let checksum = u64::from(simd_adler32::adler32(&bytes.as_slice()));
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Returns `None` unless the marker is intact.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..)?.first_chunk().map(|word| i64::from_be_bytes(*word));
        let mut marker = Self {
            log: Zxid(number(8)?),
            position: number(16)?.cast_unsigned(),
            identity: number(24)?,
            last: Zxid(number(32)?),
            ..Self::default()
        };
        if bytes.starts_with(MAGIC) {
            marker.written_to = Some(FileIdentity { inode: number(40)?.cast_unsigned(), born_ns: number(48)? });
            marker.closed = Some(number(56)?.cast_unsigned()).filter(|fingerprint| *fingerprint != 0);
        }
        (marker.encode() == *bytes).then_some(marker)
    }

    /// Reads the marker of a log directory; `None` if it is missing or not intact.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundMarker>, StoreError> {
        let path = dir.join(MARKER_NAME);
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("open", &path),
        };
        let mut bytes = [0; BYTES];
        let count = read_full(&*file, &mut bytes, 0).context("read", &path)?;
        let decoded = Self::decode(&bytes[..count]).or_else(|| Self::decode(bytes.get(..BYTES_1)?));
        let Some(marker) = decoded else { return Ok(None) };
        let identity = file.identity().context("stat", &path)?;
        let is_copied = marker.written_to.is_some_and(|original| !original.is_same(&identity));
        Ok(Some(FoundMarker { marker, is_copied }))
    }
}

/// A marker, and whether its file is a copy.
#[derive(Clone, Copy, Debug)]
pub struct FoundMarker {
    pub marker: Marker,
    /// The file is not the one that the marker was written to.
    pub is_copied: bool,
}

impl FoundMarker {
    /// Whether the directories contain exactly what they did after the clean stop.
    pub(crate) fn is_complete(&self, disk: &dyn Disk, dirs: &Dirs, listing: &DirListing) -> Result<bool, StoreError> {
        Ok(self.marker.closed.is_some() && self.marker.closed == Some(inventory(disk, dirs, listing)?))
    }
}

/// A fingerprint of the history: names and lengths of logs and snapshots, and the epochs. It differs in a copy whose
/// files were copied at different times.
fn inventory(disk: &dyn Disk, dirs: &Dirs, listing: &DirListing) -> Result<u64, StoreError> {
    // FNV-1a, against mistakes, not against forgery.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    let logs = listing.logs.iter().map(|log| &log.path);
    for path in logs.chain(listing.snapshots.iter().map(|snapshot| &snapshot.path)) {
        let length = disk.open(path, OpenMode::Read).and_then(|file| file.len()).context("stat", path)?;
        add(path.file_name().unwrap_or_default().as_encoded_bytes());
        add(&length.to_be_bytes());
    }
    for name in [ACCEPTED, CURRENT] {
        add(&atomic_file::read(disk, &dirs.snapshots.join(name))?.unwrap_or_default());
    }
    Ok(hash.max(1))
}

pub(crate) struct MarkerFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    identity: FileIdentity,
}

impl MarkerFile {
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(MARKER_NAME);
        let file = disk.open(&path, OpenMode::Create).context("open", &path)?;
        let identity = file.identity().context("stat", &path)?;
        Ok(Self { file, path, identity })
    }

    /// Overwrites the marker without an fsync. From now on it describes this directory.
    pub(crate) fn write(&self, marker: &Marker) -> Result<(), StoreError> {
        let marker = Marker { written_to: Some(self.identity), ..*marker };
        self.file.write_all_at(&marker.encode(), 0).context("write", &self.path)
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_all().context("fsync", &self.path)
    }
}

/// Overwrites the marker durably, because it is about to be lowered.
pub(crate) fn write_durably(disk: &dyn Disk, dir: &Path, marker: &Marker) -> Result<(), StoreError> {
    let file = MarkerFile::open(disk, dir)?;
    file.write(marker)?;
    file.sync()
}

/// Records durably that the history is complete. Nothing may be written afterwards.
pub(crate) fn close(disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
    let Some(FoundMarker { marker, is_copied: false }) = Marker::load(disk, &dirs.logs)? else { return Ok(()) };
    let closed = Some(inventory(disk, dirs, &crate::names::list(disk, dirs)?)?);
    write_durably(disk, &dirs.logs, &Marker { closed, ..marker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_decode_accepts_only_intact_bytes_of_both_versions() {
        let first = Marker { log: Zxid(14), position: 619, identity: 0xf987_0c34, last: Zxid(20), ..Marker::default() };
        let written_to = Some(FileIdentity { inode: 9_977_920, born_ns: 1_790_000_000_000_000_000 });
        let second = Marker { written_to, ..first };
        let closed = Marker { closed: Some(u64::MAX), ..second };
        for (marker, length) in [(first, BYTES_1), (second, BYTES), (closed, BYTES)] {
            let bytes = marker.encode();
            assert_eq!(bytes.len(), length);
            assert_eq!(Marker::decode(&bytes), Some(marker));
            assert_eq!(Marker::decode(&bytes[..length - 1]), None);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert_eq!(Marker::decode(&damaged), None, "byte {at}");
            }
        }
    }
}
