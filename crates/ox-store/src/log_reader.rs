//! Reading a transaction log, frame by frame.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | magic `ZKLG`, version 2 |
//! | 8 | 8 | dbid: the last zxid before the first record, possibly of an earlier epoch; 0 if Apache wrote the log |
//! | 16 | | frames (`ox_proto::log_frame`), zxids ascending |
//! | | | zeros up to the end of the file, or nothing |
//!
//! The reader stops at the first offset without an intact frame; `log_tail.rs` determines why. Apache ignores the dbid.
//! We use it because the first record of an epoch appears to follow any record, so that a missing end of the previous
//! epoch would not be noticed. Memory is bounded by the size of the file, never by an announced length.

use crate::disk::{Disk, DiskFile, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use crate::limits::READ_CHUNK_BYTES;
use ox_proto::Zxid;
use ox_proto::log_frame::{Framed, HEAD_BYTES, OVERHEAD_BYTES, read_log_frame};
use std::path::{Path, PathBuf};

pub const LOG_HEADER_BYTES: u64 = 16;
/// `ZKLG`, the magic number of logs.
pub const LOG_MAGIC: u32 = 0x5a4b_4c47;
/// The only version of the format.
pub const LOG_VERSION: u32 = 2;

/// The header of a new log; `before` is the last zxid before its first record.
pub fn log_header(before: Zxid) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&LOG_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&LOG_VERSION.to_be_bytes());
    bytes[8..].copy_from_slice(&before.0.to_be_bytes());
    bytes
}

/// The decoded file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogHeader {
    /// A log. Apache ignores the version and no checksum covers it, so it is reported but not checked.
    Log {
        version: u32,
        /// The last zxid before the first record; 0 if unknown.
        dbid: i64,
    },
    /// Fewer than 16 bytes, or 16 zeros: the server crashed before it wrote the header.
    Missing,
    /// The file is not a log.
    BadMagic(u32),
}

/// An intact frame of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogFrame<'a> {
    /// The offset of the frame in the file.
    pub offset: u64,
    pub checksum: i64,
    pub record: &'a [u8],
}

/// A sequential reader of a log.
pub struct LogReader {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    length: u64,
    header: LogHeader,
    buffer: Vec<u8>,
    /// The unread bytes are `buffer[begin..end]`.
    begin: usize,
    end: usize,
    /// The offset of `buffer[begin]` in the file.
    offset: u64,
}

impl LogReader {
    /// Opens the log and reads its header.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, StoreError> {
        let file = disk.open(path, OpenMode::Read).context("open", path)?;
        let length = file.len().context("stat", path)?;
        let (path, buffer) = (path.to_owned(), vec![0; READ_CHUNK_BYTES.min(clamp(length) + 1)]);
        let mut reader = Self { path, file, length, header: LogHeader::Missing, buffer, begin: 0, end: 0, offset: 0 };
        reader.ensure(16)?;
        reader.header = read_header(&reader.buffer[..reader.end]);
        reader.skip(reader.end.min(16));
        Ok(reader)
    }

    pub fn header(&self) -> LogHeader {
        self.header
    }

    /// The last zxid before the first record, if the header contains one. The start of an epoch is not a record.
    pub fn predecessor(&self) -> Option<Zxid> {
        match self.header {
            LogHeader::Log { dbid, .. } if 0 < dbid => Some(Zxid(dbid)).filter(|before| before.counter() != 0),
            LogHeader::Log { .. } | LogHeader::Missing | LogHeader::BadMagic(_) => None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for examining damage.
    pub fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// The length of the file when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The offset of the next frame, or where reading stopped.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Continues at another offset.
    pub fn seek(&mut self, offset: u64) {
        (self.begin, self.end, self.offset) = (0, 0, offset);
    }

    /// The next frame; `None` if there is no intact frame, also when called again.
    pub fn next_frame(&mut self) -> Result<Option<LogFrame<'_>>, StoreError> {
        self.ensure(HEAD_BYTES)?;
        let Some(size) = self.announced().filter(|size| self.offset + (*size + OVERHEAD_BYTES) as u64 <= self.length)
        else {
            return Ok(None);
        };
        self.ensure(size + OVERHEAD_BYTES)?;
        if !matches!(read_log_frame(&self.buffer[self.begin..self.end]), Framed::Record(_)) {
            return Ok(None);
        }
        let (offset, start) = (self.offset, self.begin);
        self.skip(size + OVERHEAD_BYTES);
        let frame = &self.buffer[start..self.begin];
        let checksum = frame.first_chunk().map_or(0, |word| i64::from_be_bytes(*word));
        Ok(Some(LogFrame { offset, checksum, record: &frame[HEAD_BYTES..HEAD_BYTES + size] }))
    }

    /// The announced length of the next frame, if it is possible.
    fn announced(&self) -> Option<usize> {
        let head = self.buffer[self.begin..self.end].first_chunk::<HEAD_BYTES>()?;
        let length = i32::from_be_bytes(*head.last_chunk()?);
        usize::try_from(length).ok().filter(|size| 0 < *size)
    }

    fn skip(&mut self, count: usize) {
        self.begin += count;
        self.offset += count as u64;
    }

    /// Reads until `count` unread bytes are in the buffer, or the file ends.
    fn ensure(&mut self, count: usize) -> Result<(), StoreError> {
        if count <= self.end - self.begin {
            return Ok(());
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.buffer.len() < count {
            self.buffer.resize(count, 0); // callers have checked that the file has as many bytes
        }
        let at = self.offset + self.end as u64;
        self.end += read_full(&*self.file, &mut self.buffer[self.end..], at).context("read", &self.path)?;
        Ok(())
    }
}

fn clamp(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX - 1)
}

fn read_header(bytes: &[u8]) -> LogHeader {
    let Some(header) = bytes.first_chunk::<16>().filter(|header| **header != [0; 16]) else {
        return LogHeader::Missing;
    };
    let word = |at: usize| header[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
    if word(0) != LOG_MAGIC {
        return LogHeader::BadMagic(word(0));
    }
    LogHeader::Log { version: word(4), dbid: i64::from(word(8)) << 32 | i64::from(word(12)) }
}
