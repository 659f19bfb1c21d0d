//! A nonblocking socket with its unsent data.

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::time::Duration;

/// Buffers passed to one system call.
const SLICES_MAX: usize = 16;

pub(super) struct Socket {
    stream: TcpStream,
    unsent: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that are sent.
    sent: usize,
    unsent_bytes: usize,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, unsent: VecDeque::new(), sent: 0, unsent_bytes: 0 }
    }

    /// Makes closing this socket send a reset: unsent data is dropped, and one packet informs the remote end.
    pub(super) fn reset_on_close(&self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Has the kernel probe the remote end after `silence`, and at that interval.
    pub(super) fn probe_after(&self, silence: Duration) {
        let probes = TcpKeepalive::new().with_time(silence).with_interval(silence);
        let _ = SockRef::from(&self.stream).set_tcp_keepalive(&probes);
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.unsent_bytes += bytes.len();
        self.unsent.push_back(bytes);
    }

    /// Sends what the kernel accepts, `max` bytes and a little more at most. Returns the number of bytes: less than
    /// `max` if the kernel accepts no more.
    pub(super) fn flush(&mut self, max: usize) -> io::Result<usize> {
        let mut total = 0;
        while self.unsent_bytes != 0 && total < max {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            for (at, (slice, bytes)) in slices.iter_mut().zip(&self.unsent).enumerate() {
                *slice = IoSlice::new(if at == 0 { &bytes[self.sent..] } else { bytes });
            }
            match self.stream.write_vectored(&slices) {
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
        self.unsent_bytes -= count;
        self.sent += count;
        while let Some(first) = self.unsent.pop_front_if(|first| first.len() <= self.sent) {
            self.sent -= first.len();
        }
    }

    /// Appends input to `input`, up to about `max` bytes in it, by way of `buffer`. False if there may be more. The end
    /// of the stream is an error.
    pub(super) fn read(&mut self, input: &mut Vec<u8>, max: usize, buffer: &mut [u8]) -> io::Result<bool> {
        while input.len() < max {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
