//! A blocking connection that reads frames and detects close and timeout.

use anyhow::{Context as _, Result};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameRead {
    Frame(Vec<u8>),
    Closed,
    /// No complete frame arrived in time.
    Silence,
}

#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// Bytes of `inbox` that were already returned as frames.
    used: usize,
}

impl RawConnection {
    pub fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set nodelay")?;
        Ok(Self { stream, inbox: Vec::new(), used: 0 })
    }

    /// Sends bytes. Errors are ignored: if the server has closed the connection, the next read reports it.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Shuts down the sending direction.
    pub fn half_close(&self) {
        // An error means that the connection is closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next frame, waiting at most `timeout`.
    pub fn frame(&mut self, timeout: Duration) -> FrameRead {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(frame) = self.buffered_frame() {
                return FrameRead::Frame(frame);
            }
            match self.fill(deadline) {
                Filled::More => (),
                Filled::End => return FrameRead::Closed,
                Filled::Late => return FrameRead::Silence,
            }
        }
    }

    /// All bytes up to the end of the stream, or until nothing arrives for `timeout`; true if the stream ended.
    pub fn drain(&mut self, timeout: Duration) -> (Vec<u8>, bool) {
        let ended = loop {
            match self.fill(Instant::now() + timeout) {
                Filled::More => (),
                Filled::End => break true,
                Filled::Late => break false,
            }
        };
        (self.inbox.split_off(self.used), ended)
    }

    fn buffered_frame(&mut self) -> Option<Vec<u8>> {
        let rest = &self.inbox[self.used..];
        let (prefix, payload) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*prefix)).ok()?;
        let frame = payload.get(..length)?.to_vec();
        self.used += 4 + length;
        if self.used == self.inbox.len() {
            self.inbox.clear();
            self.used = 0;
        }
        Some(frame)
    }

    fn fill(&mut self, deadline: Instant) -> Filled {
        let mut chunk = [0; 64 * 1024];
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if self.stream.set_read_timeout(Some(left)).is_err() {
            return Filled::End;
        }
        match self.stream.read(&mut chunk) {
            Ok(0) => Filled::End,
            Ok(count) => {
                self.inbox.extend_from_slice(&chunk[..count]);
                Filled::More
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Filled::Late,
            Err(error) if error.kind() == ErrorKind::Interrupted => Filled::More,
            Err(_) => Filled::End,
        }
    }
}

enum Filled {
    More,
    End,
    Late,
}
