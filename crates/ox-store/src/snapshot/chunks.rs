//! The bytes of a snapshot in chunks, with running checksums.
//!
//! For a large snapshot, a separate thread reads, decompresses and checksums a chunk while the caller builds the tree
//! from the previous one. Each chunk comes with the Adler-32 of everything before it, so that the caller checksums only
//! the last chunk: the seals are within the last few KiB of the stream, which the last chunk contains completely.
//!
//! ```text
//! chunk:  [ space for the rest of the previous chunk | content ]
//!                                                      ^ `before` is the checksum up to here
//! ```

use crate::limits::{READ_CHUNK_BYTES, READ_THREAD_FROM_BYTES, TRAILER_BYTES_MAX};
use simd_adler32::Adler32;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// The space before the content. Only a node larger than this is copied together with the following chunk.
pub(super) const PREFIX_BYTES: usize = 16 << 10;

pub(super) struct Chunk {
    /// The content is `bytes[PREFIX_BYTES..end]`.
    pub(super) bytes: Vec<u8>,
    pub(super) end: usize,
    /// The checksum of the stream before the content.
    pub(super) before: u32,
}

/// Splits a stream into chunks.
pub(super) struct Chunks<'a> {
    from: Box<dyn Read + Send + 'a>,
    chunk_bytes: usize,
    adler: Adler32,
    /// The chunk after the last returned one.
    lookahead: Option<(Vec<u8>, usize)>,
    started: bool,
    /// A buffer for reuse.
    spare: Option<Vec<u8>>,
}

impl<'a> Chunks<'a> {
    /// For a stream of about `length` bytes.
    pub(super) fn new(from: Box<dyn Read + Send + 'a>, length: u64) -> Self {
        let chunk_bytes = if length < READ_THREAD_FROM_BYTES { READ_CHUNK_BYTES / 64 } else { READ_CHUNK_BYTES };
        Self { from, chunk_bytes, adler: Adler32::new(), lookahead: None, started: false, spare: None }
    }

    /// The next chunk; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Chunk>> {
        if !self.started {
            self.started = true;
            self.lookahead = self.read()?;
        }
        let Some((mut bytes, mut end)) = self.lookahead.take() else { return Ok(None) };
        self.lookahead = self.read()?;
        // The bytes after the nodes must be in the same chunk as the end of the stream.
        if let Some((rest, rest_end)) = self.lookahead.take_if(|(_, end)| *end - PREFIX_BYTES <= TRAILER_BYTES_MAX) {
            let length = rest_end - PREFIX_BYTES;
            bytes[end..end + length].copy_from_slice(&rest[PREFIX_BYTES..rest_end]);
            end += length;
        }
        let before = self.adler.finish();
        self.adler.write(&bytes[PREFIX_BYTES..end]);
        Ok(Some(Chunk { bytes, end, before }))
    }

    fn read(&mut self) -> io::Result<Option<(Vec<u8>, usize)>> {
        let (full, size) = (PREFIX_BYTES + self.chunk_bytes, PREFIX_BYTES + self.chunk_bytes + TRAILER_BYTES_MAX);
        let mut bytes = self.spare.take().filter(|bytes| bytes.len() == size).unwrap_or_else(|| vec![0; size]);
        let mut end = PREFIX_BYTES;
        while end < full {
            match self.from.read(&mut bytes[end..full]) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok((PREFIX_BYTES < end).then_some((bytes, end)))
    }

    /// Sends chunks until the end of the stream, an error, or the receiver is dropped.
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

/// The source of chunks.
pub(super) enum Feed<'a> {
    /// Reads them when they are needed.
    Here(Chunks<'a>),
    /// Receives them from another thread.
    Thread { filled: Receiver<io::Result<Chunk>>, spare: Sender<Vec<u8>> },
}

impl Feed<'_> {
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        match self {
            Self::Here(chunks) => chunks.next(),
            Self::Thread { filled, .. } => filled.recv().ok().transpose(),
        }
    }

    /// Returns the buffer of a chunk for reuse.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        match self {
            Self::Here(chunks) => chunks.spare = Some(buffer),
            Self::Thread { spare, .. } => _ = spare.send(buffer), // fails after the thread has read everything
        }
    }
}
