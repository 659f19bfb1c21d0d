//! The body of a request, read by a command on a blocking thread while it arrives.

use crate::limits::{BODY_CHUNKS, BODY_TIMEOUT};
use axum::body::{Body, HttpBody as _};
use bytes::{Buf as _, Bytes};
use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::Pin;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// Reads the body; an error if the client is silent for too long or closes its connection.
pub(crate) struct BodyReader {
    chunks: Receiver<io::Result<Bytes>>,
    /// What is left of the last chunk.
    chunk: Bytes,
}

impl BodyReader {
    /// Starts to receive the body. `None` if there is none.
    pub(crate) fn start(body: Body) -> Option<Self> {
        if body.is_end_stream() {
            return None;
        }
        let (sender, chunks) = channel(BODY_CHUNKS);
        tokio::spawn(receive(body, sender));
        Some(Self { chunks, chunk: Bytes::new() })
    }
}

/// Ends when the body does, or when its reader is dropped.
async fn receive(mut body: Body, sender: Sender<io::Result<Bytes>>) {
    loop {
        let frame = timeout(BODY_TIMEOUT, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
        let chunk = match frame {
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the rest of the request did not arrive in time")),
            Ok(None) => return,
            Ok(Some(Err(error))) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => Ok(data),
                Err(_) => continue, // trailers
            },
        };
        let is_last = chunk.is_err();
        if sender.send(chunk).await.is_err() || is_last {
            return;
        }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.chunk = chunk?,
            }
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
