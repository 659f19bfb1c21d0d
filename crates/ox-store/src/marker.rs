//! The synced-position marker: up to where the newest log is known to be on the disk.
//!
//! After a power cut, a half-persisted batch and bit rot in acknowledged records can look alike. The marker tells
//! them apart: bytes below its position had been synced, so damage there is never a torn tail. It is written after
//! each sync without being synced itself, so it may be old or missing after a power cut, which is safe: it is a
//! lower bound. A marker that is too high would not be, so it is lowered, durably, before a log is cut.
//!
//! `oxk.synced`, one sector at most, big-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `OXKSYNC1` |
//! | 8 | 8 | zxid in the name of the log |
//! | 16 | 8 | position: all bytes of the log before it were synced |
//! | 24 | 8 | stored checksum of the log's first frame: tells the log from a later one of the same name |
//! | 32 | 8 | zxid of the last record before the position |
//! | 40 | 8 | Adler-32 of bytes 0 to 39, zero-extended |
//!
//! Apache ignores the file, and may have written logs since; `damage.rs` says when a marker counts.
//!
//! That the log it names is missing is no damage by itself, as long as a snapshot has everything up to its last record:
//! Apache's purge removes such logs and leaves the marker, and so does a start of ours that finds the newest log without
//! a record, or damaged where a snapshot covers it.

use crate::disk::{Disk, DiskFile, Open, read_full};
use crate::error::{Error, IoContext};
use ox_proto::Zxid;
use std::io;
use std::path::{Path, PathBuf};

/// The side file's name, in the directory of the logs.
pub const MARKER_NAME: &str = "oxk.synced";

const MAGIC: &[u8; 8] = b"OXKSYNC1";
const BYTES: usize = 48;

/// What the marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Zxid in the name of the log.
    pub log: Zxid,
    /// All bytes before it were synced.
    pub position: u64,
    /// Stored checksum of the log's first frame.
    pub identity: i64,
    /// Last record before the position.
    pub last: Zxid,
}

impl Marker {
    /// The file's bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.log.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.identity.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.last.0.to_be_bytes());
        let checksum = u64::from(simd_adler32::adler32(&&bytes[..40]));
        bytes[40..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// `None` for anything but an intact marker.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|word| i64::from_be_bytes(*word));
        let position = number(16)?.cast_unsigned();
        let marker = Self { log: Zxid(number(8)?), position, identity: number(24)?, last: Zxid(number(32)?) };
        (marker.encode() == *bytes).then_some(marker)
    }

    /// Reads the marker of a log directory; none when there is no file or it is not intact.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(MARKER_NAME);
        let file = match disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("open", &path),
        };
        let mut bytes = [0; BYTES];
        let count = read_full(&*file, &mut bytes, 0).context("read", &path)?;
        Ok(Self::decode(&bytes[..count]))
    }
}

/// The open side file.
pub(crate) struct MarkerFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl MarkerFile {
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<Self, Error> {
        let path = dir.join(MARKER_NAME);
        let file = disk.open(&path, Open::Create).context("open", &path)?;
        Ok(Self { file, path })
    }

    /// Overwrites the marker, not durably.
    pub(crate) fn write(&self, marker: &Marker) -> Result<(), Error> {
        self.file.write_all_at(&marker.encode(), 0).context("write", &self.path)
    }

    /// Makes it durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().context("sync", &self.path)
    }
}

/// Overwrites the marker, durably: it is about to say less.
pub(crate) fn write_durably(disk: &dyn Disk, dir: &Path, marker: &Marker) -> Result<(), Error> {
    let file = MarkerFile::open(disk, dir)?;
    file.write(marker)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_intact_marker_counts() {
        let marker = Marker { log: Zxid(14), position: 619, identity: 0xf987_0c34, last: Zxid(20) };
        let bytes = marker.encode();
        assert_eq!(Marker::decode(&bytes), Some(marker));
        assert_eq!(Marker::decode(&bytes[..47]), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 4;
            assert_eq!(Marker::decode(&damaged), None, "byte {at}");
        }
    }
}
