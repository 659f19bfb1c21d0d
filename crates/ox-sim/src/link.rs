//! A client's connection: two byte streams with delays, which may break at any byte.

use ox_history::Time;
use std::collections::VecDeque;

/// The index of a link in `Env::links`.
pub(crate) type LinkId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug)]
enum Chunk {
    Bytes(Vec<u8>),
    End,
}

/// The stream in one direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    in_flight: VecDeque<Chunk>,
    unread: VecDeque<u8>,
    /// When the last of the bytes arrived.
    pub(crate) arrived: Time,
    /// When the last chunk in flight arrives.
    pub(crate) last: Time,
    is_closed: bool,
    has_ended: bool,
}

impl Pipe {
    /// Queues bytes, unless the stream is closed. Returns whether to schedule an arrival.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        if self.is_closed || bytes.is_empty() {
            return false;
        }
        self.in_flight.push_back(Chunk::Bytes(bytes.to_vec()));
        true
    }

    /// Ends the stream after the bytes in flight. Returns whether to schedule an arrival.
    pub(crate) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.is_closed, true) {
            return false;
        }
        self.in_flight.push_back(Chunk::End);
        true
    }

    /// Breaks the stream after `keep` more bytes.
    pub(crate) fn cut(&mut self, keep: usize) -> bool {
        if self.has_ended {
            return false;
        }
        let mut rest = keep;
        let mut kept = VecDeque::new();
        for chunk in self.in_flight.drain(..) {
            if let Chunk::Bytes(mut bytes) = chunk {
                bytes.truncate(rest);
                rest -= bytes.len();
                kept.push_back(Chunk::Bytes(bytes));
            }
        }
        kept.push_back(Chunk::End);
        self.in_flight = kept;
        self.is_closed = true;
        true
    }

    /// The next chunk in flight arrives.
    pub(crate) fn arrive(&mut self, now: Time) {
        match self.in_flight.pop_front() {
            Some(Chunk::Bytes(bytes)) => {
                self.unread.extend(bytes);
                self.arrived = now;
            }
            Some(Chunk::End) => self.has_ended = true,
            None => (), // it was cut
        }
    }

    /// Bytes that have arrived and are not read.
    pub(crate) fn arrived_bytes(&self) -> usize {
        self.unread.len()
    }

    /// Fills a buffer, which must not be longer than what has arrived.
    pub(crate) fn read_into(&mut self, buffer: &mut [u8]) {
        for (byte, place) in self.unread.drain(..buffer.len()).zip(buffer) {
            *place = byte;
        }
    }

    /// Takes up to `limit` bytes that have arrived.
    pub(crate) fn read(&mut self, limit: usize) -> Vec<u8> {
        let count = self.unread.len().min(limit);
        self.unread.drain(..count).collect()
    }

    pub(crate) fn has_bytes(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether the end of the stream has arrived; bytes before it may be unread.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether everything was read and the stream has ended.
    pub(crate) fn is_at_end(&self) -> bool {
        self.has_ended && self.unread.is_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn bytes_in_flight(&self) -> usize {
        let size = |chunk: &Chunk| if let Chunk::Bytes(bytes) = chunk { bytes.len() } else { 0 };
        self.in_flight.iter().map(size).sum()
    }

    /// Bytes that were sent and not read yet.
    pub(crate) fn unread(&self) -> usize {
        self.bytes_in_flight() + self.unread.len()
    }
}

/// Where the events of the server's end go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) thread: usize,
    /// The slot of the connection, or the index of the lingering socket.
    pub(crate) slot: usize,
    pub(crate) is_lingering: bool,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// From accept to close.
    pub(crate) place: Option<Place>,
    /// The server could not send everything.
    pub(crate) is_full: bool,
    /// The process that accepted it.
    pub(crate) boot: u64,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
}

impl Link {
    pub(crate) fn new(client: usize, server: usize) -> Self {
        Self { client, server, place: None, is_full: false, boot: 0, up: Pipe::default(), down: Pipe::default() }
    }

    pub(crate) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::ToServer => &mut self.up,
            Direction::ToClient => &mut self.down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_keeps_a_prefix_and_ends() {
        let mut pipe = Pipe::default();
        assert!(pipe.send(b"abc") && pipe.send(b"def"));
        assert!(pipe.cut(4));
        assert!(!pipe.send(b"x"));
        (0..3).for_each(|_| pipe.arrive(Time(1)));
        assert_eq!(pipe.read(10), b"abcd");
        assert!(pipe.is_at_end());
    }
}
