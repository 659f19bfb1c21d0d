//! Chunks of an on-disk log diff, from the reader of the log files to a link.
//!
//! The reader works ahead of the link by a few chunks. It ends, and closes the files, when the link is closed.

use ox_proto::quorum::packet::{PacketKind, put_bare, put_with_data};
use ox_store::{LoggedRecord, StoreError};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Chunks that are read ahead of sending, so that the link does not wait for the disk.
const CHUNKS_MAX: usize = 4;

/// The chunks of a log diff, in order. An empty one marks its end.
pub struct LogDiffChunks(Receiver<Vec<u8>>);

/// The next chunk to send.
pub(super) enum Chunk {
    Bytes(Vec<u8>),
    /// The disk has not delivered it yet.
    NotYet,
    End,
    /// The log could not be read to the end.
    Failed,
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() { Self::End } else { Self::Bytes(bytes) }
    }
}

impl LogDiffChunks {
    /// The chunks, and the sender for the reader of the log. It sends an empty chunk at the end, and is dropped after
    /// an error.
    pub fn channel() -> (SyncSender<Vec<u8>>, Self) {
        let (sender, receiver) = sync_channel(CHUNKS_MAX);
        (sender, Self(receiver))
    }

    pub(super) fn next(&self) -> Chunk {
        match self.0.try_recv() {
            Ok(bytes) => bytes.into(),
            Err(TryRecvError::Empty) => Chunk::NotYet,
            Err(TryRecvError::Disconnected) => Chunk::Failed,
        }
    }
}

/// The next transactions of a diff, about `bytes`, as proposals with their commits; empty at its end.
pub fn next_chunk(
    history: &mut impl Iterator<Item = Result<LoggedRecord, StoreError>>,
    bytes: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut chunk = Vec::new();
    while chunk.len() < bytes
        && let Some(logged) = history.next().transpose()?
    {
        put_with_data(&mut chunk, PacketKind::Proposal, logged.zxid, &logged.record);
        put_bare(&mut chunk, PacketKind::Commit, logged.zxid);
    }
    Ok(chunk)
}
