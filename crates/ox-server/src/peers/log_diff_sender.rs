//! Stored transactions for a learner, read on a thread of their own: a slow disk delays this learner and nobody else.
//!
//! The thread is a few pieces ahead of what is sent. It ends, and lets go of the files, when nobody wants the next piece.

use super::commands::PeerCommands;
use crate::limits::{LINK_CHUNK_BYTES, LOG_DIFF_CHUNKS_MAX};
use ox_proto::quorum::packet::{PacketKind, put_bare, put_with_data};
use ox_store::{Error, Logged};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// What there is to send now.
pub(super) enum Chunk {
    Bytes(Vec<u8>),
    /// The disk is not ready.
    NotYet,
    RemoteEnd,
    /// The log could not be read to its end.
    Failed,
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() { Self::RemoteEnd } else { Self::Bytes(bytes) }
    }
}

/// A history on its way from the disk. Empty bytes are its end.
pub(super) struct LogDiffSender(Receiver<Vec<u8>>);

impl LogDiffSender {
    /// Begins to read; `orders` are woken when there is something to send.
    pub(super) fn read<H>(mut history: H, commands: Arc<PeerCommands>) -> io::Result<Self>
    where
        H: Iterator<Item = Result<Logged, Error>> + Send + 'static,
    {
        let (sender, chunks) = sync_channel(LOG_DIFF_CHUNKS_MAX);
        let work = move || {
            loop {
                let chunk = match next_chunk(&mut history) {
                    Ok(chunk) => chunk,
                    Err(error) => {
                        tracing::error!(%error, "the stored log cannot be read for a learner");
                        break;
                    }
                };
                let is_last = chunk.is_empty();
                // Nobody takes it when the learner is gone.
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

/// The next transactions of a stored history, as proposals with their commits; nothing at its end.
fn next_chunk(history: &mut impl Iterator<Item = Result<Logged, Error>>) -> Result<Vec<u8>, Error> {
    let mut chunk = Vec::new();
    while chunk.len() < LINK_CHUNK_BYTES
        && let Some(logged) = history.next().transpose()?
    {
        put_with_data(&mut chunk, PacketKind::Proposal, logged.zxid, &logged.record);
        put_bare(&mut chunk, PacketKind::Commit, logged.zxid);
    }
    Ok(chunk)
}
