//! The bytes of a snapshot, in chunks, with the checksum up to each of them.
//!
//! A large snapshot is read, decompressed and checksummed by a thread of its own while the caller builds the tree
//! from the chunk before. Each chunk comes with the Adler-32 of everything before it, so that the caller hashes only
//! the last one: the seals stand within the last few KiB of the stream, and the last chunk holds at least those.
//!
//! ```text
//! chunk:  [ room for what is left of the one before | content ]
//!                                                   ^ `before` is the checksum up to here
//! ```

use crate::limits::{READ_CHUNK_BYTES, READ_THREAD_FROM_BYTES, TRAILER_BYTES_MAX};
use simd_adler32::Adler32;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// Room before the content. Only a node larger than this is copied with the chunk that follows it.
pub(super) const ROOM_BYTES: usize = 16 << 10;

/// Part of a stream.
pub(super) struct Chunk {
    /// The content is `bytes[ROOM_BYTES..end]`.
    pub(super) bytes: Vec<u8>,
    pub(super) end: usize,
    /// Checksum of the stream before the content.
    pub(super) before: u32,
}

/// Cuts a stream into chunks.
pub(super) struct Chunks<'a> {
    from: Box<dyn Read + Send + 'a>,
    chunk_bytes: usize,
    adler: Adler32,
    /// The chunk after the one handed out last.
    ahead: Option<(Vec<u8>, usize)>,
    started: bool,
    /// A buffer to be used again.
    spare: Option<Vec<u8>>,
}

impl<'a> Chunks<'a> {
    /// For a stream of about `length` bytes.
    pub(super) fn new(from: Box<dyn Read + Send + 'a>, length: u64) -> Self {
        let chunk_bytes = if length < READ_THREAD_FROM_BYTES { READ_CHUNK_BYTES / 64 } else { READ_CHUNK_BYTES };
        Self { from, chunk_bytes, adler: Adler32::new(), ahead: None, started: false, spare: None }
    }

    /// The next chunk, none at the end.
    fn next(&mut self) -> io::Result<Option<Chunk>> {
        if !self.started {
            self.started = true;
            self.ahead = self.read()?;
        }
        let Some((mut bytes, mut end)) = self.ahead.take() else { return Ok(None) };
        self.ahead = self.read()?;
        // What stands behind the nodes must not be torn from the end of the stream.
        if let Some((rest, rest_end)) = self.ahead.take_if(|(_, end)| *end - ROOM_BYTES <= TRAILER_BYTES_MAX) {
            let length = rest_end - ROOM_BYTES;
            bytes[end..end + length].copy_from_slice(&rest[ROOM_BYTES..rest_end]);
            end += length;
        }
        let before = self.adler.finish();
        self.adler.write(&bytes[ROOM_BYTES..end]);
        Ok(Some(Chunk { bytes, end, before }))
    }

    fn read(&mut self) -> io::Result<Option<(Vec<u8>, usize)>> {
        let (full, size) = (ROOM_BYTES + self.chunk_bytes, ROOM_BYTES + self.chunk_bytes + TRAILER_BYTES_MAX);
        let mut bytes = self.spare.take().filter(|bytes| bytes.len() == size).unwrap_or_else(|| vec![0; size]);
        let mut end = ROOM_BYTES;
        while end < full {
            match self.from.read(&mut bytes[end..full]) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok((ROOM_BYTES < end).then_some((bytes, end)))
    }

    /// Cuts until the end, an error, or nobody listens any more.
    pub(super) fn run(mut self, filled: &SyncSender<io::Result<Chunk>>, spare: &Receiver<Vec<u8>>) {
        loop {
            self.spare = spare.try_recv().ok();
            let next = self.next().transpose();
            let is_last = !matches!(next, Some(Ok(_)));
            if next.is_some_and(|next| filled.send(next).is_err()) || is_last {
                return;
            }
        }
    }
}

/// Where chunks come from.
pub(super) enum Feed<'a> {
    /// Cut when they are needed.
    Here(Chunks<'a>),
    /// Cut by another thread.
    Thread { filled: Receiver<io::Result<Chunk>>, spare: Sender<Vec<u8>> },
}

impl Feed<'_> {
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        match self {
            Self::Here(chunks) => chunks.next(),
            Self::Thread { filled, .. } => filled.recv().ok().transpose(),
        }
    }

    /// Takes back the buffer of a chunk.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        match self {
            Self::Here(chunks) => chunks.spare = Some(buffer),
            Self::Thread { spare, .. } => _ = spare.send(buffer), // nobody takes it once everything is read
        }
    }
}
