//! Reading a snapshot, with every check, once through the file.
//!
//! The content goes to a [`Sink`] as it is met, before the seals at the end are known to fit: a sink's work counts
//! only if [`read_snapshot`] succeeds.

use super::compress::decoder;
use super::{Contents, END_MARK, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, SnapshotError, Trailer};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, IoContext};
use crate::limits::{READ_CHUNK_BYTES, TRAILER_BYTES_MAX};
use crate::names::SnapshotFile;
use ox_proto::stat::StatPersisted;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_proto::{DecodeError, RawAcls, Reader, SessionId, Zxid};
use simd_adler32::Adler32;
use std::borrow::Cow;
use std::io::{self, Read};

/// A node as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNode<'a> {
    /// Empty for the root.
    pub path: Cow<'a, str>,
    /// Null and empty differ.
    pub data: Option<&'a [u8]>,
    /// Id of its list; -1 for the open one, which is in no table.
    pub acl: i64,
    /// Its stored metadata.
    pub stat: StatPersisted,
}

/// Takes what a snapshot holds, in the order of the file. An error text rejects the snapshot.
pub trait Sink {
    /// A session.
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String>;
    /// A list that nodes refer to.
    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String>;
    /// A node, after its parent.
    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String>;
}

/// Reads `file` into `sink` and checks all of it.
pub fn read_snapshot(disk: &dyn Disk, file: &SnapshotFile, sink: &mut impl Sink) -> Result<Contents, Error> {
    let open = disk.open(&file.path, Open::Read).context("open", &file.path)?;
    let content = decoder(FileReader { file: &*open, offset: 0 }, file.compression);
    read_stream(content, sink)
        .and_then(|contents| match contents.trailer.last_zxid {
            Some(last) if last < file.last => Err(SnapshotError::Misnamed { name: file.last, last }),
            _ => Ok(contents),
        })
        .map_err(|source| Error::Snapshot { path: file.path.clone(), source })
}

/// Reads an uncompressed stream.
pub(crate) fn read_stream(from: impl Read, sink: &mut impl Sink) -> Result<Contents, SnapshotError> {
    let mut input = Input::new(from);
    let mut contents = Contents::default();
    read_header(&mut input)?;
    let sessions = input.item(|from| Ok(from.count()?.unwrap_or(0)))?;
    for _ in 0..sessions {
        let (id, timeout_ms) = input.item(|from| Ok((from.get()?, from.get()?)))?;
        sink.session(id, timeout_ms).map_err(SnapshotError::Content)?;
        contents.sessions += 1;
    }
    let lists = input.item(|from| Ok(from.count()?.unwrap_or(0)))?;
    for _ in 0..lists {
        input.list_into(sink)?;
    }
    while input.node_into(sink)? {
        contents.nodes += 1;
    }
    input.seal()?;
    contents.trailer = read_trailer(&mut input)?;
    contents.bytes = input.offset();
    Ok(contents)
}

fn read_header(input: &mut Input<impl Read>) -> Result<(), SnapshotError> {
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

fn get_list<'a>(from: &mut Reader<'a>) -> Result<(i64, RawAcls<'a>), DecodeError> {
    let (id, acls) = (from.get()?, from.get::<RawAcls<'_>>()?);
    if acls.is_null() { Err(DecodeError::Null) } else { Ok((id, acls)) }
}

/// The next node, or none at the end of the nodes.
fn get_node<'a>(from: &mut Reader<'a>) -> Result<Option<StoredNode<'a>>, DecodeError> {
    let path = from.text()?;
    if path == END_MARK {
        return Ok(None);
    }
    Ok(Some(StoredNode { path, data: from.get()?, acl: from.get()?, stat: from.get()? }))
}

/// Decides by what is left which parts are there.
fn read_trailer(input: &mut Input<impl Read>) -> Result<Trailer, SnapshotError> {
    let mut trailer = Trailer::default();
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
        // Compat: a text of hex digits, never written by a release and of no use to us.
        from.get::<Option<&[u8]>>()?;
        return Ok(None);
    }
    Ok(Some((zxid, TxnDigest { version, tree_digest: from.get()? })))
}

/// The stream, with its running checksum.
struct Input<R> {
    from: R,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[begin..end]`.
    begin: usize,
    end: usize,
    /// `buffer[..hashed]` is part of `adler`.
    hashed: usize,
    adler: Adler32,
    /// Where `buffer[0]` stands in the stream.
    base: u64,
    at_end: bool,
}

impl<R: Read> Input<R> {
    fn new(from: R) -> Self {
        let buffer = vec![0; READ_CHUNK_BYTES];
        Self { from, buffer, begin: 0, end: 0, hashed: 0, adler: Adler32::new(), base: 0, at_end: false }
    }

    fn offset(&self) -> u64 {
        self.base + self.begin as u64
    }

    fn left(&self) -> usize {
        self.end - self.begin
    }

    /// Reads one item that keeps nothing of the buffer.
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

    /// Reads one list and lends it to the sink.
    fn list_into(&mut self, sink: &mut impl Sink) -> Result<(), SnapshotError> {
        loop {
            let mut from = Reader::from_disk(&self.buffer[self.begin..self.end]);
            match get_list(&mut from) {
                Ok((id, acls)) => {
                    self.begin = self.end - from.rest().len();
                    return sink.acl(id, acls).map_err(SnapshotError::Content);
                }
                Err(error) => self.more(error)?,
            }
        }
    }

    /// Reads one node and lends it to the sink; false at the end of the nodes.
    fn node_into(&mut self, sink: &mut impl Sink) -> Result<bool, SnapshotError> {
        loop {
            let mut from = Reader::from_disk(&self.buffer[self.begin..self.end]);
            match get_node(&mut from) {
                Ok(node) => {
                    self.begin = self.end - from.rest().len();
                    let Some(node) = node else { return Ok(false) };
                    return sink.node(&node).map(|()| true).map_err(SnapshotError::Content);
                }
                Err(error) => self.more(error)?,
            }
        }
    }

    /// Checks the seal that stands here.
    fn seal(&mut self) -> Result<(), SnapshotError> {
        self.hash();
        let (offset, expected) = (self.offset(), i64::from(self.adler.finish()));
        let (checksum, mark) = self.item(|from| Ok((from.get::<i64>()?, from.text()? == END_MARK)))?;
        if checksum != expected || !mark {
            return Err(SnapshotError::BadSeal { offset });
        }
        Ok(())
    }

    /// Gets more bytes if `error` says that they are missing and there are any.
    fn more(&mut self, error: DecodeError) -> Result<(), SnapshotError> {
        if error != DecodeError::Truncated || !self.refill()? {
            return Err(SnapshotError::Decode { offset: self.offset(), source: error });
        }
        Ok(())
    }

    /// Has everything that is left in the buffer, or more than `bytes_max` of it; tells how much.
    fn fill_up_to(&mut self, bytes_max: usize) -> Result<usize, SnapshotError> {
        while self.left() <= bytes_max && self.refill()? {}
        if bytes_max < self.left() { Err(SnapshotError::BadTrailer(self.left())) } else { Ok(self.left()) }
    }

    fn hash(&mut self) {
        self.adler.write(&self.buffer[self.hashed..self.begin]);
        self.hashed = self.begin;
    }

    /// Reads on; false at the end of the stream. The buffer grows only when what it holds fills it.
    fn refill(&mut self) -> Result<bool, SnapshotError> {
        if self.at_end {
            return Ok(false);
        }
        self.hash();
        self.buffer.copy_within(self.begin..self.end, 0);
        self.base += self.begin as u64;
        (self.begin, self.end, self.hashed) = (0, self.end - self.begin, 0);
        let before = self.end;
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        while self.end < self.buffer.len() {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(before < self.end)
    }
}

/// A file read from its start.
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
