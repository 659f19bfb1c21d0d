//! A blocking connection that sees frames, the end of the stream, and silence.

use anyhow::{Context as _, Result};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// What a read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The payload of a frame.
    Frame(Vec<u8>),
    /// The server has closed the connection.
    Closed,
    /// Nothing came in time.
    Silence,
}

/// One TCP connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// Bytes of `inbox` that frames were already made of.
    used: usize,
}

impl Connection {
    /// Connects to `host:port`.
    pub fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set nodelay")?;
        Ok(Self { stream, inbox: Vec::new(), used: 0 })
    }

    /// Sends bytes. A connection that the server has closed swallows them; reading tells.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Tells the server that nothing more will be sent.
    pub fn half_close(&self) {
        // A connection that is gone already needs no goodbye.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next frame, waiting at most `patience`.
    pub fn frame(&mut self, patience: Duration) -> Heard {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = self.buffered_frame() {
                return Heard::Frame(frame);
            }
            match self.fill(deadline) {
                Filled::More => (),
                Filled::End => return Heard::Closed,
                Filled::Late => return Heard::Silence,
            }
        }
    }

    /// All bytes up to the end of the stream, or until nothing came for `patience`; true if the stream ended.
    pub fn drain(&mut self, patience: Duration) -> (Vec<u8>, bool) {
        let ended = loop {
            match self.fill(Instant::now() + patience) {
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
