//! Sockets of connections whose last reply is sent.
//!
//! If a socket is closed while bytes from the client are unread or in flight, the kernel resets the connection, and the
//! client may lose the last reply, which explains why it is closed. So these sockets are shut down for writing first,
//! and closed when the client has closed its side or the time is over.

use super::ClientIo;
use super::host::ClientHost;
use super::limits::{LINGER_BYTES_MAX, LINGER_MS, LINGERING_MAX};
use crate::sockets::{SocketRead, Sockets};

#[derive(Debug)]
struct LingeringSocket<S> {
    socket: S,
    until_ms: i64,
    bytes_left: usize,
}

/// Lingering sockets of one thread.
#[derive(Debug)]
pub(super) struct Lingering<S> {
    sockets: Vec<Option<LingeringSocket<S>>>,
    /// Those that input has arrived for.
    ready: Vec<usize>,
}

impl<S> Default for Lingering<S> {
    fn default() -> Self {
        Self { sockets: Vec::new(), ready: Vec::new() }
    }
}

impl<S> Lingering<S> {
    /// Takes the socket of a closed connection. Beyond the limit it is closed immediately.
    pub(super) fn add<H: ClientHost<Socket = S>>(&mut self, mut socket: S, now_ms: i64, host: &mut H) {
        let index = self.sockets.iter().position(Option::is_none).unwrap_or(self.sockets.len());
        if LINGERING_MAX <= index || !host.shut_down(&mut socket, index) {
            return host.close(socket);
        }
        let lingering = LingeringSocket { socket, until_ms: now_ms + LINGER_MS, bytes_left: LINGER_BYTES_MAX };
        if index == self.sockets.len() {
            self.sockets.push(Some(lingering));
        } else {
            self.sockets[index] = Some(lingering);
        }
        host.on_lingering(true);
    }

    pub(super) fn on_ready(&mut self, index: usize) {
        self.ready.push(index);
    }

    /// Closes sockets whose time is over.
    pub(super) fn check(&mut self, now_ms: i64, host: &mut impl ClientHost<Socket = S>) {
        for slot in &mut self.sockets {
            if let Some(over) = slot.take_if(|lingering| lingering.until_ms <= now_ms) {
                host.close(over.socket);
                host.on_lingering(false);
            }
        }
    }
}

impl<S, R> ClientIo<S, R> {
    /// Discards input of lingering sockets. Closes those whose clients have closed their side, or have sent too much.
    /// The arena serves as scratch: at this time it holds nothing.
    pub(super) fn drain_lingering<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        for index in self.lingering.ready.drain(..) {
            let Some(slot) = self.lingering.sockets.get_mut(index) else { continue };
            if let Some(done) = slot.take_if(|lingering| lingering.is_done(&mut self.arena, host)) {
                host.close(done.socket);
                host.on_lingering(false);
            }
        }
    }
}

impl<S> LingeringSocket<S> {
    fn is_done(&mut self, scratch: &mut [u8], sockets: &mut impl Sockets<Socket = S>) -> bool {
        while 0 < self.bytes_left {
            match sockets.receive(&mut self.socket, scratch) {
                SocketRead::Bytes(count) => self.bytes_left = self.bytes_left.saturating_sub(count),
                SocketRead::Nothing => return false,
                SocketRead::End => return true,
            }
        }
        true
    }
}
