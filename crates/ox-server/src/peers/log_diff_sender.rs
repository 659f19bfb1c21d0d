//! Stored transactions for a learner, read on a thread of their own: a slow disk delays this learner and nobody else.
//!
//! The thread is a few pieces ahead of what is sent. It ends, and lets go of the files, when nobody wants the next piece.

use super::commands::Orders;
use crate::limits::{LINK_PIECE_BYTES, STORED_PIECES_MAX};
use ox_proto::quorum::packet::{PacketKind, put_bare, put_with_data};
use ox_store::{Error, Logged};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// What there is to send now.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The disk is not ready.
    NotYet,
    End,
    /// The log could not be read to its end.
    Broken,
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() { Self::End } else { Self::Bytes(bytes) }
    }
}

/// A history on its way from the disk. Empty bytes are its end.
pub(super) struct Pieces(Receiver<Vec<u8>>);

impl Pieces {
    /// Begins to read; `orders` are woken when there is something to send.
    pub(super) fn read<H>(mut history: H, orders: Arc<Orders>) -> io::Result<Self>
    where
        H: Iterator<Item = Result<Logged, Error>> + Send + 'static,
    {
        let (give, pieces) = sync_channel(STORED_PIECES_MAX);
        let work = move || {
            loop {
                let piece = match next_piece(&mut history) {
                    Ok(piece) => piece,
                    Err(error) => {
                        tracing::error!(%error, "the stored log cannot be read for a learner");
                        break;
                    }
                };
                let is_last = piece.is_empty();
                // Nobody takes it when the learner is gone.
                if give.send(piece).is_err() || is_last {
                    break;
                }
                orders.wake();
            }
            drop(give);
            orders.wake();
        };
        std::thread::Builder::new().name("stored".to_owned()).spawn(work)?;
        Ok(Self(pieces))
    }

    pub(super) fn next(&self) -> Piece {
        match self.0.try_recv() {
            Ok(bytes) => bytes.into(),
            Err(TryRecvError::Empty) => Piece::NotYet,
            Err(TryRecvError::Disconnected) => Piece::Broken,
        }
    }
}

/// The next transactions of a stored history, as proposals with their commits; nothing at its end.
fn next_piece(history: &mut impl Iterator<Item = Result<Logged, Error>>) -> Result<Vec<u8>, Error> {
    let mut piece = Vec::new();
    while piece.len() < LINK_PIECE_BYTES
        && let Some(logged) = history.next().transpose()?
    {
        put_with_data(&mut piece, PacketKind::Proposal, logged.zxid, &logged.record);
        put_bare(&mut piece, PacketKind::Commit, logged.zxid);
    }
    Ok(piece)
}
