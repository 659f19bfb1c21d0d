//! Sockets of connections whose last reply is sent.
//!
//! If a socket is closed while bytes from the client are unread or in flight, the kernel resets the connection, and the
//! client may lose the last reply, which explains why it is closed. So these sockets are shut down for writing first,
//! and closed when the client has closed its side or the time is over.

use crate::connection_table::ConnectionTable;
use crate::limits::{LINGER_BYTES_MAX, LINGER_MS, LINGERING_MAX};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, Read};
use std::net::Shutdown;

/// Tokens of lingering sockets start here; those of connections are smaller.
const TOKENS: usize = usize::MAX / 2;

#[derive(Debug)]
struct LingeringSocket {
    stream: TcpStream,
    until_ms: i64,
    bytes_left: usize,
}

/// Lingering sockets of one thread.
#[derive(Debug, Default)]
pub(super) struct Lingering(Vec<Option<LingeringSocket>>);

impl Lingering {
    /// Takes a socket that is no longer registered. Beyond the limit it is closed immediately.
    pub(super) fn add(
        &mut self,
        mut stream: TcpStream,
        now_ms: i64,
        registry: &Registry,
        connections: &ConnectionTable,
    ) {
        let index = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let is_held = index < LINGERING_MAX
            && stream.shutdown(Shutdown::Write).is_ok()
            && registry.register(&mut stream, Token(TOKENS + index), Interest::READABLE).is_ok();
        if is_held {
            let lingering_socket =
                LingeringSocket { stream, until_ms: now_ms + LINGER_MS, bytes_left: LINGER_BYTES_MAX };
            if index == self.0.len() {
                self.0.push(Some(lingering_socket));
            } else {
                self.0[index] = Some(lingering_socket);
            }
            connections.start_lingering();
        }
    }

    pub(super) fn owns(token: Token) -> bool {
        TOKENS <= token.0
    }

    /// Discards input from the client. Closes the socket when the client has closed its side, or has sent too much.
    pub(super) fn on_event(&mut self, token: Token, scratch: &mut [u8], connections: &ConnectionTable) {
        let Some(slot) = self.0.get_mut(token.0 - TOKENS) else { return };
        if slot.as_mut().is_some_and(|lingering_socket| lingering_socket.is_done(scratch)) {
            *slot = None;
            connections.end_lingering();
        }
    }

    /// Closes sockets whose time is over.
    pub(super) fn check(&mut self, now_ms: i64, connections: &ConnectionTable) {
        for slot in &mut self.0 {
            if slot.take_if(|lingering_socket| lingering_socket.until_ms <= now_ms).is_some() {
                connections.end_lingering();
            }
        }
    }
}

impl LingeringSocket {
    fn is_done(&mut self, scratch: &mut [u8]) -> bool {
        while 0 < self.bytes_left {
            match self.stream.read(scratch) {
                Ok(0) => return true,
                Ok(count) => self.bytes_left = self.bytes_left.saturating_sub(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(_) => return true,
            }
        }
        true
    }
}
