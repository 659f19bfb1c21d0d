//! A socket that sends exactly the bytes that a test chooses, and splits what arrives into frames.

use crate::packet::RawHandshake;
use ox_proto::connect::ConnectResponse;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longer than any wait of a test that succeeds.
pub const READ_TIMEOUT: Duration = Duration::from_secs(60);

const READ_BYTES: usize = 64 << 10;

/// What arrived in the time that a caller allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameRead {
    /// The payload of a complete frame.
    Frame(Vec<u8>),
    Closed,
    /// No complete frame arrived in time.
    Silence,
}

/// A socket, and the bytes read from it after the last frame.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    timeout: Duration,
    received: Vec<u8>,
    /// Bytes of `received` that were returned as frames.
    used: usize,
}

enum Filled {
    More,
    End,
    Late,
}

impl RawConnection {
    pub fn connect(address: impl ToSocketAddrs) -> Self {
        Self::try_connect(address).expect("the server listens")
    }

    pub fn try_connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpStream::connect(address).and_then(Self::try_over)
    }

    /// Takes over a connected socket.
    pub fn over(stream: TcpStream) -> Self {
        Self::try_over(stream).unwrap()
    }

    fn try_over(stream: TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, timeout: READ_TIMEOUT, received: Vec::new(), used: 0 })
    }

    /// Limits the wait of [`Self::frame`], [`Self::next_frame`] and [`Self::rest`], at first [`READ_TIMEOUT`].
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// A second handle on the socket, to write while another thread reads.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads its input");
    }

    /// Sends to a server that may have closed the connection meanwhile, which the next read reports.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Shuts the socket down for writing.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write); // the server may have closed it already
    }

    /// Shuts the connection down, including handles of other threads.
    pub fn shut_down(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both); // the server may have closed it already
    }

    /// The next frame; `None` when the server has closed the connection. Panics if nothing arrives in time.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        match self.next_frame() {
            FrameRead::Frame(payload) => Some(payload),
            FrameRead::Closed => None,
            FrameRead::Silence => panic!("no frame received for {:?}", self.timeout),
        }
    }

    /// The next frame; `None` when the server has closed the connection, or sends nothing in time.
    pub fn try_frame(&mut self) -> Option<Vec<u8>> {
        match self.next_frame() {
            FrameRead::Frame(payload) => Some(payload),
            FrameRead::Closed | FrameRead::Silence => None,
        }
    }

    /// The next frame, within the timeout of the connection.
    pub fn next_frame(&mut self) -> FrameRead {
        self.frame_within(self.timeout)
    }

    pub fn frame_within(&mut self, timeout: Duration) -> FrameRead {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(payload) = self.buffered_frame() {
                return FrameRead::Frame(payload);
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
        (self.received.split_off(self.used), ended)
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let (rest, ended) = self.drain(self.timeout);
        assert!(ended, "nothing received for {:?}", self.timeout);
        rest
    }

    /// Expects the server to close the connection without sending anything.
    pub fn expect_closed(&mut self) {
        assert_eq!(self.rest(), [] as [u8; 0], "closed without a reply");
    }

    /// Sends a handshake and waits for the reply; `None` when the server closes the connection instead.
    pub fn handshake(&mut self, handshake: &RawHandshake) -> Option<ConnectResponse> {
        self.send(&handshake.frame());
        self.frame().map(|payload| ConnectResponse::decode(&payload).expect("a reply to a handshake"))
    }

    fn buffered_frame(&mut self) -> Option<Vec<u8>> {
        let (prefix, rest) = self.received[self.used..].split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*prefix) as usize;
        let payload = rest.get(..length)?.to_vec();
        self.used += 4 + length;
        Some(payload)
    }

    fn fill(&mut self, deadline: Instant) -> Filled {
        self.received.drain(..self.used);
        self.used = 0;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if self.stream.set_read_timeout(Some(left)).is_err() {
            return Filled::End;
        }
        let start = self.received.len();
        self.received.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.received[start..]);
        self.received.truncate(start + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Filled::End,
            Ok(_) => Filled::More,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Filled::Late,
            Err(error) if error.kind() == ErrorKind::Interrupted => Filled::More,
            Err(_) => Filled::End, // a reset closes the connection, too
        }
    }
}
