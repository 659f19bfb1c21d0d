//! Reading and validating a snapshot in one pass.
//!
//! The contents are passed to a [`SnapshotSink`] while they are read, before the seals at the end are verified. The
//! sink's result is valid only if [`read_snapshot`] succeeds.

use super::body::{BodyDecoder, BodyError};
use super::chunks::{Chunks, Feed, PREFIX_BYTES};
use super::compress::decoder;
use super::{END_MARK, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, SnapshotContents, SnapshotError, SnapshotTrailer};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, StoreError};
use crate::limits::{READ_THREAD_FROM_BYTES, TRAILER_BYTES_MAX};
use crate::names::SnapshotFile;
use ox_proto::stat::StatPersisted;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_proto::{DecodeError, RawAcls, Reader, SessionId, Zxid};
use simd_adler32::Adler32;
use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// A node with the fields that a snapshot stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNode<'a> {
    /// Empty for the root.
    pub path: Cow<'a, str>,
    /// `None` and empty are different.
    pub data: Option<&'a [u8]>,
    /// The id of its ACL; -1 for the null list, which is not in the table.
    pub acl: i64,
    pub stat: StatPersisted,
}

/// Receives the contents of a snapshot, in the order of the file. An error rejects the snapshot.
pub trait SnapshotSink {
    /// Called for each session.
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String>;
    /// Called for each ACL.
    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String>;
    /// Called for each node, after its parent.
    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String>;
}

/// Reads `file` into `sink` and validates all of it.
pub fn read_snapshot(
    disk: &dyn Disk,
    file: &SnapshotFile,
    sink: &mut impl SnapshotSink,
) -> Result<SnapshotContents, StoreError> {
    let open = disk.open(&file.path, OpenMode::Read).context("open", &file.path)?;
    let length = open.len().context("stat", &file.path)?;
    let chunks = Chunks::new(decoder(FileReader { file: &*open, offset: 0 }, file.compression), length);
    let read = if length < READ_THREAD_FROM_BYTES {
        read_feed(Feed::Here(chunks), sink)
    } else {
        let ((filled, receive), (back, spare)) = (sync_channel(2), channel());
        thread::scope(|scope| {
            let reader = thread::Builder::new().name("snapshot-read".into());
            reader.spawn_scoped(scope, move || chunks.run(&filled, &spare))?;
            read_feed(Feed::Thread { filled: receive, spare: back }, sink)
        })
    };
    read.and_then(|contents| match contents.trailer.last_zxid {
        Some(last) if last < file.last => Err(SnapshotError::Misnamed { name: file.last, last }),
        _ => Ok(contents),
    })
    .map_err(|source| StoreError::Snapshot { path: file.path.clone(), source })
}

/// Reads an uncompressed snapshot that is not in a file into `sink`, and validates all of it.
pub(crate) fn read_snapshot_stream(
    from: impl Read + Send,
    sink: &mut impl SnapshotSink,
) -> Result<SnapshotContents, SnapshotError> {
    read_feed(Feed::Here(Chunks::new(Box::new(from), READ_THREAD_FROM_BYTES)), sink)
}

fn read_feed(feed: Feed<'_>, sink: &mut impl SnapshotSink) -> Result<SnapshotContents, SnapshotError> {
    let mut input = Input::new(feed);
    let mut contents = SnapshotContents::default();
    read_header(&mut input)?;
    let mut body = BodyDecoder::default();
    while input.take(&mut body, sink)? {}
    (contents.sessions, contents.nodes) = (body.sessions, body.nodes);
    input.seal()?;
    contents.trailer = read_trailer(&mut input)?;
    contents.bytes = input.offset();
    Ok(contents)
}

fn read_header(input: &mut Input<'_>) -> Result<(), SnapshotError> {
    let (magic, version) = input.item(|from| {
        let (magic, version) = (from.get::<i32>()?, from.get::<i32>()?);
        from.get::<i64>()?;
        Ok((magic.cast_unsigned(), version.cast_unsigned()))
    })?;
    if magic != SNAPSHOT_MAGIC {
        return Err(SnapshotError::BadMagic(magic));
    }
    if version != SNAPSHOT_VERSION {
        return Err(SnapshotError::BadVersion(version));
    }
    Ok(())
}

/// The number of remaining bytes determines which parts are present.
fn read_trailer(input: &mut Input<'_>) -> Result<SnapshotTrailer, SnapshotError> {
    let mut trailer = SnapshotTrailer::default();
    let left = input.fill_up_to(TRAILER_BYTES_MAX)?;
    let unknown = |_: SnapshotError| SnapshotError::BadTrailer(left);
    match left {
        0 => return Ok(trailer),
        21 => (),
        _ => {
            let digest = input.item(get_digest).map_err(unknown)?;
            trailer.digest = digest;
            input.seal()?;
        }
    }
    if input.left() != 0 {
        trailer.last_zxid = Some(input.item(|from| from.get::<Zxid>()).map_err(unknown)?);
        input.seal()?;
    }
    if input.left() != 0 {
        return Err(SnapshotError::BadTrailer(left));
    }
    Ok(trailer)
}

fn get_digest(from: &mut Reader<'_>) -> Result<Option<(Zxid, TxnDigest)>, DecodeError> {
    let (zxid, version) = (from.get::<Zxid>()?, from.get::<i32>()?);
    if version < DIGEST_VERSION {
        // Compat: a string of hex digits, which no release has written; it is ignored.
        from.get::<Option<&[u8]>>()?;
        return Ok(None);
    }
    Ok(Some((zxid, TxnDigest { version, tree_digest: from.get()? })))
}

/// The stream with its running checksum.
struct Input<'a> {
    feed: Feed<'a>,
    buffer: Vec<u8>,
    /// The unread bytes are `buffer[begin..end]`.
    begin: usize,
    end: usize,
    /// The start of the newest chunk in the buffer, and the checksum of the stream up to there.
    chunk: (usize, u32),
    /// The position in the stream minus `begin`, modulo 2^64, because the space before the first chunk has no position.
    base: u64,
    at_end: bool,
}

impl<'a> Input<'a> {
    fn new(feed: Feed<'a>) -> Self {
        Self { feed, buffer: Vec::new(), begin: 0, end: 0, chunk: (0, 1), base: 0, at_end: false }
    }

    fn offset(&self) -> u64 {
        self.base.wrapping_add(self.begin as u64)
    }

    fn left(&self) -> usize {
        self.end - self.begin
    }

    /// Decodes one item that borrows nothing from the buffer.
    fn item<T>(&mut self, get: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>) -> Result<T, SnapshotError> {
        loop {
            let mut from = Reader::from_disk(&self.buffer[self.begin..self.end]);
            match get(&mut from) {
                Ok(item) => {
                    self.begin = self.end - from.rest().len();
                    return Ok(item);
                }
                Err(error) => self.more(error)?,
            }
        }
    }

    /// Decodes one item of the body and passes it to the sink; returns false at the end.
    fn take(&mut self, body: &mut BodyDecoder, sink: &mut impl SnapshotSink) -> Result<bool, SnapshotError> {
        loop {
            let mut from = Reader::from_disk(&self.buffer[self.begin..self.end]);
            match body.take(&mut from, sink) {
                Ok(more) => {
                    self.begin = self.end - from.rest().len();
                    return Ok(more);
                }
                Err(BodyError::Decode(error)) => self.more(error)?,
                Err(BodyError::Content(text)) => return Err(SnapshotError::Content(text)),
            }
        }
    }

    /// Verifies the next seal.
    fn seal(&mut self) -> Result<(), SnapshotError> {
        let (offset, (start, before)) = (self.offset(), self.chunk);
        // If the newest chunk starts after the seal, more bytes follow than any trailer has.
        let since = self.buffer.get(start..self.begin).ok_or(SnapshotError::BadSeal { offset })?;
        let mut adler = Adler32::from_checksum(before);
        adler.write(since);
        let expected = i64::from(adler.finish());
        let (checksum, mark) = self.item(|from| Ok((from.get::<i64>()?, from.text()? == END_MARK)))?;
        if checksum != expected || !mark {
            return Err(SnapshotError::BadSeal { offset });
        }
        Ok(())
    }

    /// Reads more bytes if `error` reports that some are missing and the stream has more.
    fn more(&mut self, error: DecodeError) -> Result<(), SnapshotError> {
        if error != DecodeError::Truncated || !self.refill()? {
            return Err(SnapshotError::Decode { offset: self.offset(), source: error });
        }
        Ok(())
    }

    /// Reads until the buffer contains the rest of the stream, or more than `bytes_max`; returns the number of unread
    /// bytes.
    fn fill_up_to(&mut self, bytes_max: usize) -> Result<usize, SnapshotError> {
        while self.left() <= bytes_max && self.refill()? {}
        if bytes_max < self.left() { Err(SnapshotError::BadTrailer(self.left())) } else { Ok(self.left()) }
    }

    /// Reads the next chunk; returns false at the end of the stream. Memory grows only with the largest item.
    fn refill(&mut self) -> Result<bool, SnapshotError> {
        if self.at_end {
            return Ok(false);
        }
        let Some(mut chunk) = self.feed.next()? else {
            self.at_end = true;
            return Ok(false);
        };
        let offset = self.offset();
        let left = self.buffer[self.begin..self.end].to_vec();
        self.feed.recycle(std::mem::take(&mut self.buffer));
        if left.len() <= PREFIX_BYTES {
            self.begin = PREFIX_BYTES - left.len();
            chunk.bytes[self.begin..PREFIX_BYTES].copy_from_slice(&left);
            (self.buffer, self.end, self.chunk) = (chunk.bytes, chunk.end, (PREFIX_BYTES, chunk.before));
        } else {
            let content = &chunk.bytes[PREFIX_BYTES..chunk.end];
            self.chunk = (left.len(), chunk.before);
            self.buffer = left;
            self.buffer.extend_from_slice(content);
            (self.begin, self.end) = (0, self.buffer.len());
        }
        self.base = offset.wrapping_sub(self.begin as u64);
        Ok(true)
    }
}

/// Reads a file sequentially.
struct FileReader<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
