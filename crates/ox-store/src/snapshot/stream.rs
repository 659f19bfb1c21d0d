//! A snapshot sent to a learner.
//!
//! The body as in a file (`body.rs`), without header and seals, followed by the string `BenWasHere`; its zxid is in the
//! preceding SNAP packet. Other packets follow immediately, so the receiver must find the end itself.

use super::SnapshotError;
use super::body::{BodyDecoder, BodyEncoder, BodyError};
use crate::limits::WRITE_CHUNK_BYTES;
use crate::recovery::LoaderSink;
use ox_proto::jute::put_text;
use ox_proto::{DecodeError, Reader, Zxid};
use ox_tree::{FrozenView, Loader, State, TreeOptions};

/// The signature that terminates the stream.
const SIGNATURE: &str = "BenWasHere";
/// The signature as a jute string.
const SIGNATURE_BYTES: &[u8; 14] = b"\0\0\0\x0aBenWasHere";

/// The stream of a state, in chunks, at the receiver's pace.
pub struct SnapshotSender {
    frozen: FrozenView,
    body: BodyEncoder,
    done: bool,
}

impl SnapshotSender {
    pub fn new(frozen: FrozenView) -> Self {
        Self { frozen, body: BodyEncoder::new(), done: false }
    }

    /// The zxid for the SNAP packet.
    pub fn last_zxid(&self) -> Zxid {
        self.frozen.last_zxid()
    }
}

impl Iterator for SnapshotSender {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.done {
            return None;
        }
        let mut chunk = Vec::with_capacity(WRITE_CHUNK_BYTES + (4 << 10));
        if !self.body.fill(&self.frozen, &mut chunk, WRITE_CHUNK_BYTES) {
            put_text(&mut chunk, SIGNATURE);
            self.done = true;
        }
        Some(chunk)
    }
}

/// Decodes a stream incrementally. Memory is bounded by the received bytes, never by an announced length.
pub struct SnapshotReceiver {
    body: BodyDecoder,
    sink: LoaderSink,
    /// The beginning of an incomplete item.
    begun: Vec<u8>,
    /// The number of bytes before `begun`.
    taken: u64,
    done: bool,
}

/// A state that was received completely.
pub struct ReceivedSnapshot {
    /// Everything up to the zxid of the packet, and possibly parts of later transactions.
    pub state: State,
    /// Nodes whose ACL was not in the stream. They are closed until a later transaction sets it; see
    /// [`State::is_closed`].
    pub unresolved: Vec<String>,
}

impl SnapshotReceiver {
    pub fn new(options: TreeOptions) -> Self {
        let sink = LoaderSink(Loader::new(options));
        Self { body: BodyDecoder::default(), sink, begun: Vec::new(), taken: 0, done: false }
    }

    /// Decodes more bytes. Returns `None` if the stream continues, and at its end the number of these bytes that belong
    /// to it. After an error the stream must be discarded.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<usize>, SnapshotError> {
        if self.done {
            return Ok(Some(0));
        }
        let mut begun = std::mem::take(&mut self.begun);
        let rest = if begun.is_empty() {
            self.take(bytes)?
        } else {
            begun.extend_from_slice(bytes);
            self.take(&begun)?
        };
        if self.done {
            return Ok(Some(bytes.len() - rest.len()));
        }
        if rest.len() != begun.len() || begun.is_empty() {
            begun = rest.to_vec();
        }
        self.begun = begun;
        Ok(None)
    }

    /// Returns the state after [`SnapshotReceiver::feed`] has reached the end. `last` is the zxid of the SNAP packet.
    pub fn finish(self, last: Zxid) -> Result<ReceivedSnapshot, SnapshotError> {
        if !self.done {
            let (offset, source) = (self.taken, DecodeError::Truncated);
            return Err(SnapshotError::Decode { offset, source });
        }
        let mut loader = self.sink.0;
        let unresolved = loader.take_unresolved();
        let state = loader.finish(last).map_err(|error| SnapshotError::Content(error.to_string()))?;
        Ok(ReceivedSnapshot { state, unresolved })
    }

    /// Decodes all complete items; returns the remaining bytes.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], SnapshotError> {
        let mut rest = bytes;
        loop {
            // Strings as in a file: an Apache leader encodes some characters as surrogate pairs.
            let mut from = Reader::from_disk(rest);
            let more = self.body.take(&mut from, &mut self.sink);
            match more {
                Ok(true) => {
                    self.taken += (rest.len() - from.rest().len()) as u64;
                    rest = from.rest();
                }
                Ok(false) => return self.signature(rest),
                Err(BodyError::Decode(DecodeError::Truncated)) => return Ok(rest),
                Err(BodyError::Decode(source)) => return Err(SnapshotError::Decode { offset: self.taken, source }),
                Err(BodyError::Content(text)) => return Err(SnapshotError::Content(text)),
            }
        }
    }

    fn signature<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], SnapshotError> {
        if let Some(rest) = rest.strip_prefix(SIGNATURE_BYTES) {
            self.done = true;
            return Ok(rest);
        }
        if SIGNATURE_BYTES.starts_with(rest) { Ok(rest) } else { Err(SnapshotError::BadSignature) }
    }
}
