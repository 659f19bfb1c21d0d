//! One socket with its buffers.

use super::pool::Pool;
use super::waiting::Waiting;
use crate::register::ConnFigures;
use mio::net::TcpStream;
use ox_replica::Conn;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) core: Conn,
    pub(super) address: SocketAddr,
    pub(super) figures: Arc<ConnFigures>,
    /// Bytes received and not served: an incomplete frame, or frames that must wait.
    pub(super) input: Vec<u8>,
    /// Bytes for the client.
    pub(super) output: Vec<u8>,
    /// How much of `output` is sent.
    sent: usize,
    /// The socket may have more to read.
    pub(super) readable: bool,
    writable: bool,
    /// The system has told that nothing more comes behind what is there to read.
    pub(super) read_closed: bool,
    /// The client has closed its side.
    pub(super) ended: bool,
    /// Close when everything is sent.
    pub(super) closing: bool,
    /// It is in the list of connections to serve or flush this turn.
    pub(super) listed: bool,
    /// A four-letter word is being answered.
    pub(super) asked_word: bool,
    /// The word's answer goes on when everything is sent.
    pub(super) wants_more: bool,
    /// Requests on their way through the replica.
    pub(super) waiting: Waiting,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    End,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, address: SocketAddr, core: Conn, figures: Arc<ConnFigures>) -> Self {
        Self {
            stream,
            core,
            address,
            figures,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            readable: false,
            writable: true,
            read_closed: false,
            ended: false,
            closing: false,
            listed: false,
            asked_word: false,
            wants_more: false,
            waiting: Waiting::default(),
        }
    }

    /// Reads once. A short read means that the socket is empty: the next bytes raise a new event, but the end does
    /// not, if it came together with the last bytes.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Received {
        match self.stream.read(room) {
            Ok(0) => Received::End,
            Ok(count) => {
                self.readable = count == room.len() || self.read_closed;
                Received::Bytes(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Received::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    pub(super) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// What the socket is asked for, as Java's selectors say it: 1 to read, 4 to write.
    pub(super) fn interest(&self) -> u8 {
        let reads = self.core.may_take() && !self.ended && !self.closing;
        if self.asked_word { 0 } else { u8::from(reads) | u8::from(0 < self.unsent()) << 2 }
    }

    pub(super) fn now_writable(&mut self) {
        self.writable = true;
    }

    /// Writes as much as the socket takes. `Err` means that it is dead.
    pub(super) fn flush(&mut self, pool: &mut Pool) -> Result<(), ()> {
        while self.writable && 0 < self.unsent() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => {
                    self.sent += count;
                    // A short write means that the socket is full: the next room raises a new event.
                    self.writable = self.unsent() == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(_) => return Err(()),
            }
        }
        if self.unsent() == 0 {
            self.output.clear();
            self.sent = 0;
            pool.take_back(&mut self.output);
        } else if self.output.len() / 2 < self.sent {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}
