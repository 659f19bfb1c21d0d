//! A nonblocking socket with its unsent data.

use mio::net::TcpStream;
use ox_driver::unsent_buffer::{UnsentBuffer, read_available};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::time::Duration;

pub(super) struct Socket {
    stream: TcpStream,
    unsent: UnsentBuffer,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, unsent: UnsentBuffer::default() }
    }

    /// Has the kernel probe the remote end after `silence`, and at that interval.
    pub(super) fn probe_after(&self, silence: Duration) {
        let probes = TcpKeepalive::new().with_time(silence).with_interval(silence);
        let _ = SockRef::from(&self.stream).set_tcp_keepalive(&probes);
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.bytes()
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.unsent.push(bytes);
    }

    /// Sends what the kernel accepts, as [`UnsentBuffer::flush`].
    pub(super) fn flush(&mut self, max: usize) -> io::Result<usize> {
        self.unsent.flush(max, |slices| self.stream.write_vectored(slices))
    }

    /// Appends input to `input`, as [`read_available`].
    pub(super) fn read(&mut self, input: &mut Vec<u8>, max: usize, buffer: &mut [u8]) -> io::Result<bool> {
        read_available(input, max, buffer, |buffer| self.stream.read(buffer))
    }
}
