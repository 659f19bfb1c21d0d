//! On-disk log diffs for learners. Each is read on a thread of its own: a slow disk delays this learner and no other.
//!
//! The thread reads a few chunks ahead. It ends, and closes the files, when the link is closed.

use super::commands::PeerCommands;
use crate::limits::{LINK_CHUNK_BYTES, LOG_DIFF_CHUNKS_MAX};
use ox_proto::quorum::packet::{PacketKind, put_bare, put_with_data};
use ox_store::{LoggedRecord, StoreError};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// The next chunk to send.
pub(super) enum Chunk {
    Bytes(Vec<u8>),
    /// The disk has not delivered it yet.
    NotYet,
    RemoteEnd,
    /// The log could not be read to the end.
    Failed,
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() { Self::RemoteEnd } else { Self::Bytes(bytes) }
    }
}

/// A log diff that is being read. Empty bytes mark its end.
pub(super) struct LogDiffSender(Receiver<Vec<u8>>);

impl LogDiffSender {
    /// Starts to read; wakes the peers thread when there is something to send.
    pub(super) fn read<H>(mut history: H, commands: Arc<PeerCommands>) -> io::Result<Self>
    where
        H: Iterator<Item = Result<LoggedRecord, StoreError>> + Send + 'static,
    {
        let (sender, chunks) = sync_channel(LOG_DIFF_CHUNKS_MAX);
        let work = move || {
            loop {
                let chunk = match next_chunk(&mut history) {
                    Ok(chunk) => chunk,
                    Err(error) => {
                        tracing::error!(%error, "link of a learner closed: cannot read the on-disk log");
                        break;
                    }
                };
                let is_last = chunk.is_empty();
                // Fails when the link is closed.
                if sender.send(chunk).is_err() || is_last {
                    break;
                }
                commands.wake();
            }
            drop(sender);
            commands.wake();
        };
        std::thread::Builder::new().name("stored".to_owned()).spawn(work)?;
        Ok(Self(chunks))
    }

    pub(super) fn next(&self) -> Chunk {
        match self.0.try_recv() {
            Ok(bytes) => bytes.into(),
            Err(TryRecvError::Empty) => Chunk::NotYet,
            Err(TryRecvError::Disconnected) => Chunk::Failed,
        }
    }
}

/// The next transactions of the diff as proposals with their commits; empty at its end.
fn next_chunk(history: &mut impl Iterator<Item = Result<LoggedRecord, StoreError>>) -> Result<Vec<u8>, StoreError> {
    let mut chunk = Vec::new();
    while chunk.len() < LINK_CHUNK_BYTES
        && let Some(logged) = history.next().transpose()?
    {
        put_with_data(&mut chunk, PacketKind::Proposal, logged.zxid, &logged.record);
        put_bare(&mut chunk, PacketKind::Commit, logged.zxid);
    }
    Ok(chunk)
}
