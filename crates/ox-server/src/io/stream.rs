//! What carries the bytes of a connection: TCP alone, or TLS over TCP.
//!
//! The driver sends and receives plaintext. It relies on two properties of sockets, which TLS has to keep: a read that
//! does not fill its buffer leaves nothing behind, and bytes that a write has taken are out of its hands. So a read
//! decrypts until the buffer is full or the socket is empty, and a write reports a chunk only when the kernel has all of
//! its ciphertext. Until then the chunk stays in the driver's buffer, where it is counted, and the next write continues
//! it.
//!
//! Calls to the kernel are direct where possible: the C library's functions are cancellation points, which costs time on
//! each call.

use crate::limits::{TLS_CHUNK_BYTES, TLS_READS_PER_CALL_MAX};
use mio::net::TcpStream;
use ox_driver::sockets::{SocketRead, SocketWrite};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::Connection;
use std::io::{self, Read, Write};

/// The stream of a connection, of a client or of another server.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsLayer>),
}

/// TLS after the handshake.
#[derive(Debug)]
pub(crate) struct TlsLayer {
    tcp: TcpStream,
    tls: Connection,
    /// Bytes at the start of the next write that are encrypted, and whose ciphertext is not sent completely.
    encrypted: usize,
    /// Received ciphertext that did not fit into the buffer of a read.
    undecrypted: Vec<u8>,
    /// The peer has ended the stream, or the stream is broken. Plaintext received before may be left.
    has_ended: bool,
    /// Why TLS has ended the stream, such as an alert of the peer.
    failure: Option<rustls::Error>,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRead {
    pub(crate) read: SocketRead,
    /// There may be more although the buffer is not full, and no event announces it.
    pub(crate) is_unfinished: bool,
}

impl Stream {
    /// A connection whose handshake is complete.
    pub(crate) fn tls(tcp: TcpStream, tls: Connection) -> Self {
        Self::tls_with_input(tcp, tls, Vec::new())
    }

    /// The same, with ciphertext that was received after the handshake.
    pub(crate) fn tls_with_input(tcp: TcpStream, tls: Connection, undecrypted: Vec<u8>) -> Self {
        Self::Tls(Box::new(TlsLayer { tcp, tls, encrypted: 0, undecrypted, has_ended: false, failure: None }))
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The state of TLS, with the certificates of the peer.
    pub(crate) fn tls_state(&self) -> Option<&Connection> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(layer) => Some(&layer.tls),
        }
    }

    /// Why TLS has ended the stream. A client that uses TLS 1.3 learns only after its handshake that its certificate is
    /// refused.
    pub(crate) fn tls_failure(&self) -> Option<&rustls::Error> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(layer) => layer.failure.as_ref(),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(layer) => &layer.tcp,
        }
    }

    pub(crate) fn tcp_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(layer) => &mut layer.tcp,
        }
    }

    /// Reads into `buffer`. `scratch` holds ciphertext meanwhile.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], scratch: &mut Vec<u8>) -> StreamRead {
        match self {
            Self::Plain(tcp) => StreamRead { read: receive_plain(tcp, buffer), is_unfinished: false },
            Self::Tls(layer) => layer.receive(buffer, scratch),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> SocketWrite {
        match self {
            Self::Plain(tcp) => match retry_on_intr(|| send(&*tcp, bytes, SendFlags::NOSIGNAL)) {
                Ok(count) => SocketWrite::Bytes(count),
                Err(Errno::WOULDBLOCK) => SocketWrite::Full,
                Err(_) => SocketWrite::Broken,
            },
            Self::Tls(layer) => layer.send(bytes),
        }
    }

    /// Tells the peer that nothing follows, as far as the socket takes it.
    pub(crate) fn end_output(&mut self) {
        if let Self::Tls(layer) = self {
            layer.tls.send_close_notify();
            let _ = flush(&mut layer.tls, &mut layer.tcp); // the peer then sees the end of the TCP stream only
        }
    }
}

fn receive_plain(tcp: &TcpStream, buffer: &mut [u8]) -> SocketRead {
    match retry_on_intr(|| recv(tcp, &mut *buffer, RecvFlags::empty())) {
        Ok((0, _)) => SocketRead::End,
        Ok((count, _)) => SocketRead::Bytes(count),
        Err(Errno::WOULDBLOCK) => SocketRead::Nothing,
        Err(_) => SocketRead::End,
    }
}

impl TlsLayer {
    fn receive(&mut self, buffer: &mut [u8], scratch: &mut Vec<u8>) -> StreamRead {
        scratch.resize(TLS_CHUNK_BYTES, 0);
        let mut filled = 0;
        let undecrypted = std::mem::take(&mut self.undecrypted);
        self.decrypt(&undecrypted, buffer, &mut filled);
        // Records without data do not fill the buffer, and must not occupy the thread.
        let mut reads_left = TLS_READS_PER_CALL_MAX;
        while filled < buffer.len() && !self.has_ended && 0 < reads_left {
            reads_left -= 1;
            let length = scratch.len().min(buffer.len() - filled);
            match receive_plain(&self.tcp, &mut scratch[..length]) {
                SocketRead::Bytes(count) => {
                    self.decrypt(&scratch[..count], buffer, &mut filled);
                    if count < length {
                        break; // the socket is empty: further bytes raise a new event
                    }
                }
                SocketRead::Nothing => break,
                SocketRead::End => self.has_ended = true,
            }
        }
        let is_full = filled == buffer.len();
        let read = match filled {
            0 if self.has_ended => SocketRead::End,
            0 => SocketRead::Nothing,
            filled => SocketRead::Bytes(filled),
        };
        let is_left = self.has_ended || reads_left == 0;
        StreamRead { read, is_unfinished: is_left && !is_full && read != SocketRead::End }
    }

    /// Decrypts received bytes into the free part of `buffer`, and keeps what does not fit.
    fn decrypt(&mut self, mut ciphertext: &[u8], buffer: &mut [u8], filled: &mut usize) {
        loop {
            self.take_plaintext(buffer, filled);
            if ciphertext.is_empty() || self.has_ended {
                return;
            }
            if *filled == buffer.len() {
                self.undecrypted = ciphertext.to_vec();
                return;
            }
            let taken = self.tls.read_tls(&mut ciphertext);
            // After the peer's close_notify, rustls takes no more.
            if !taken.is_ok_and(|count| 0 < count) {
                self.has_ended = true;
            } else if let Err(error) = self.tls.process_new_packets() {
                (self.has_ended, self.failure) = (true, Some(error));
            }
            if self.tls.wants_write() {
                let _ = flush(&mut self.tls, &mut self.tcp); // an alert or a key update; a later write continues it
            }
        }
    }

    fn take_plaintext(&mut self, buffer: &mut [u8], filled: &mut usize) {
        while *filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[*filled..]) {
                Ok(0) => {
                    self.has_ended = true;
                    return;
                }
                Ok(count) => *filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.has_ended = true;
                    return;
                }
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> SocketWrite {
        let mut sent = 0;
        loop {
            if self.encrypted == 0 {
                let chunk = &bytes[sent..bytes.len().min(sent + TLS_CHUNK_BYTES)];
                match self.tls.writer().write(chunk) {
                    Ok(count) if 0 < count => self.encrypted = count,
                    Ok(_) | Err(_) => return SocketWrite::Broken,
                }
            }
            match flush(&mut self.tls, &mut self.tcp) {
                Ok(FlushOutcome::Empty) => sent += std::mem::take(&mut self.encrypted).min(bytes.len() - sent),
                Ok(FlushOutcome::Full) if sent == 0 => return SocketWrite::Full,
                Ok(FlushOutcome::Full) => return SocketWrite::Bytes(sent),
                Err(_) => return SocketWrite::Broken,
            }
            if sent == bytes.len() {
                return SocketWrite::Bytes(sent);
            }
        }
    }
}

/// How far a flush came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushOutcome {
    /// The kernel has all ciphertext.
    Empty,
    /// The socket is full.
    Full,
}

/// Sends the ciphertext that rustls holds.
pub(crate) fn flush(tls: &mut Connection, tcp: &mut TcpStream) -> io::Result<FlushOutcome> {
    while tls.wants_write() {
        match tls.write_tls(tcp) {
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(FlushOutcome::Full),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(FlushOutcome::Empty)
}
