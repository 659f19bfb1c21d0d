//! On-disk log diffs for learners. Each is read on a thread of its own: a slow disk delays this learner and no other.
//!
//! The thread reads a few chunks ahead. It ends, and closes the files, when the link is closed.

use super::commands::PeerCommands;
use crate::limits::LINK_CHUNK_BYTES;
use ox_driver::links::{LogDiffChunks, next_chunk};
use ox_store::{LoggedRecord, StoreError};
use std::io;
use std::sync::Arc;

/// Starts to read; wakes the peers thread when there is something to send.
pub(super) fn read<H>(mut history: H, commands: Arc<PeerCommands>) -> io::Result<LogDiffChunks>
where
    H: Iterator<Item = Result<LoggedRecord, StoreError>> + Send + 'static,
{
    let (sender, chunks) = LogDiffChunks::channel();
    let work = move || {
        loop {
            let chunk = match next_chunk(&mut history, LINK_CHUNK_BYTES) {
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
    Ok(chunks)
}
