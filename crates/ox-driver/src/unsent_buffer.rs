//! Bytes that a socket has not accepted yet.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Buffers passed to one system call.
const SLICES_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct UnsentBuffer {
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that are sent.
    sent: usize,
    bytes: usize,
}

impl UnsentBuffer {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.buffers.push_back(bytes);
    }

    /// Sends what the socket accepts, `max` bytes and a little more at most. Returns the number of bytes: less than
    /// `max` if the socket accepts no more.
    pub fn flush(
        &mut self,
        max: usize,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut total = 0;
        while self.bytes != 0 && total < max {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            for (at, (slice, bytes)) in slices.iter_mut().zip(&self.buffers).enumerate() {
                *slice = IoSlice::new(if at == 0 { &bytes[self.sent..] } else { bytes });
            }
            match write(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    total += count;
                    self.forget(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn forget(&mut self, count: usize) {
        self.bytes -= count;
        self.sent += count;
        while let Some(first) = self.buffers.pop_front_if(|first| first.len() <= self.sent) {
            self.sent -= first.len();
        }
    }
}

/// Appends input to `input`, up to about `max` bytes in it, by way of `buffer`. False if there may be more. The end of
/// the stream is an error.
pub fn read_available(
    input: &mut Vec<u8>,
    max: usize,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<bool> {
    while input.len() < max {
        match read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
