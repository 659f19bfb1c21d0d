//! A socket, plain or with TLS, blocking or not.

use rustls::{ClientConnection, Stream};
use std::io::{self, Read, Write};

/// A connection to a server. Without TLS it is the socket itself.
#[derive(Debug)]
pub struct LoadStream<S> {
    socket: S,
    tls: Option<Box<ClientConnection>>,
}

impl<S> LoadStream<S> {
    /// The handshake of TLS takes place with the first bytes that are written.
    pub fn new(socket: S, tls: Option<ClientConnection>) -> Self {
        Self { socket, tls: tls.map(Box::new) }
    }

    /// The same connection on another type of socket.
    pub fn map<T>(self, convert: impl FnOnce(S) -> T) -> LoadStream<T> {
        LoadStream { socket: convert(self.socket), tls: self.tls }
    }

    pub fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether a read returns one record of TLS at most, although more bytes have arrived.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl<S: Read + Write> Read for LoadStream<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(bytes),
            Some(tls) => Stream::new(&mut **tls, &mut self.socket).read(bytes),
        }
    }
}

impl<S: Read + Write> Write for LoadStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => Stream::new(&mut **tls, &mut self.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => Stream::new(&mut **tls, &mut self.socket).flush(),
        }
    }
}
