//! The transport of a client connection: its stream, and where it came from.

use crate::io::connection_table::ClientPort;
use crate::io::stream::{Stream, StreamRead};
use mio::Token;
use mio::net::TcpStream;
use ox_driver::sockets::SocketWrite;
use rustls::Connection;

/// Replaced before it is used.
const UNREGISTERED: Token = Token(usize::MAX);

/// The transport of a client connection.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: Stream,
    /// The listener that has accepted the connection.
    pub(crate) port: ClientPort,
    /// The token under which an I/O thread has registered the socket.
    pub(super) token: Token,
}

impl Transport {
    pub(crate) fn plain(tcp: TcpStream, port: ClientPort) -> Self {
        Self { stream: Stream::Plain(tcp), port, token: UNREGISTERED }
    }

    /// A connection whose handshake is complete.
    pub(crate) fn tls(tcp: TcpStream, tls: Connection, port: ClientPort) -> Self {
        Self { stream: Stream::tls(tcp, tls), port, token: UNREGISTERED }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    pub(super) fn tcp(&mut self) -> &mut TcpStream {
        self.stream.tcp_mut()
    }

    /// Reads into `buffer`. `scratch` holds ciphertext meanwhile.
    pub(super) fn receive(&mut self, buffer: &mut [u8], scratch: &mut Vec<u8>) -> StreamRead {
        self.stream.receive(buffer, scratch)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> SocketWrite {
        self.stream.send(bytes)
    }

    /// Tells the peer that nothing follows, as far as the socket takes it.
    pub(super) fn end_output(&mut self) {
        self.stream.end_output();
    }
}
