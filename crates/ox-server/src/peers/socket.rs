//! A socket that is read and written as far as it goes.

use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// One connection, with what is still to be sent.
pub(super) struct Socket {
    stream: TcpStream,
    unsent: VecDeque<Vec<u8>>,
    /// What of the first is sent.
    sent: usize,
    unsent_bytes: usize,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, unsent: VecDeque::new(), sent: 0, unsent_bytes: 0 }
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.unsent_bytes += bytes.len();
        self.unsent.push_back(bytes);
    }

    /// Sends what the system takes. Returns how much that was.
    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let mut total = 0;
        while let Some(first) = self.unsent.front() {
            match self.stream.write(&first[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    total += count;
                    self.sent += count;
                    self.unsent_bytes -= count;
                    if self.sent == first.len() {
                        self.unsent.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Appends what is there to `input`, up to `max` bytes in it. False if there may be more. The end of the stream is
    /// an error.
    pub(super) fn read(&mut self, input: &mut Vec<u8>, max: usize) -> io::Result<bool> {
        while input.len() < max {
            let start = input.len();
            input.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut input[start..]);
            input.truncate(start + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
