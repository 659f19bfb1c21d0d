//! One socket with its buffers.
//!
//! Bytes are received and sent by plain system calls: the C library's functions are points where threads can be
//! cancelled, and entering and leaving those costs time.

use super::pool::Pool;
use super::stalled::Stall;
use super::waiting::Waiting;
use crate::limits::{COUNTED_BYTES, DRAIN_SECONDS_MAX, POOLED_BUFFER_BYTES, REPLY_BYTES_PER_SECOND_MIN, SLOW_MS};
use crate::register::ConnFigures;
use crate::totals::Growth;
use mio::event::Event;
use mio::net::TcpStream;
use ox_proto::frame::split_frame;
use ox_replica::{Admission, Conn};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
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
    /// Bytes of events in `output` since it was last empty.
    event_bytes: usize,
    /// Bytes reserved for the frame at the start of `input`, with its length; 0 when none are.
    pub(super) reserved: usize,
    /// It waits for such a reservation.
    pub(super) waits_for_frame: bool,
    /// Bytes of `input` at the last check for slow requests.
    pub(super) checked_input: usize,
    /// Bytes received and unsent that the server's totals know of.
    counted: (usize, usize),
    /// The socket may have more to read.
    pub(super) readable: bool,
    /// The client will send nothing more, or the socket is broken: reading goes on until that shows.
    pub(super) read_closed: bool,
    /// The socket is broken in both directions: no reply reaches the client.
    pub(super) is_broken: bool,
    writable: bool,
    /// The client has closed its side, and everything it sent before is read.
    pub(super) ended: bool,
    /// Close when everything is sent.
    pub(super) closing: bool,
    /// It is in the list of connections to serve or flush this turn.
    pub(super) listed: bool,
    /// It was listed and could not be read: the arena was full.
    pub(super) passed_over: bool,
    /// It waits until the server has memory for the next request or its reply.
    pub(super) stalled: Option<Stall>,
    /// It did so when this iteration began, and is tried again.
    pub(super) was_stalled: Option<Stall>,
    /// Its large write may enter in this iteration although only small ones may.
    pub(super) is_overdue: bool,
    /// A four-letter word is being answered.
    pub(super) asked_word: bool,
    /// Since when complete frames have been lying in `input`.
    pub(super) held_since_ms: Option<i64>,
    /// Since when the frame at the start of `input` has been seen incomplete.
    pub(super) partial_since_ms: Option<i64>,
    /// When the client last took something of what it is owed; `None` when it is owed nothing.
    pub(super) stuck_since_ms: Option<i64>,
    /// Since when the rate is measured at which the client takes what it is owed; `None` when it is owed nothing.
    pub(super) rate_since_ms: Option<i64>,
    /// Bytes that the socket has taken since then.
    taken: usize,
    /// Requests handed over since the beginning.
    pub(super) handed: u64,
    /// Large ones on their way: number and bytes.
    pub(super) large: Vec<(u64, usize)>,
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
            event_bytes: 0,
            reserved: 0,
            waits_for_frame: false,
            checked_input: 0,
            counted: (0, 0),
            readable: false,
            read_closed: false,
            is_broken: false,
            writable: true,
            ended: false,
            closing: false,
            listed: false,
            passed_over: false,
            stalled: None,
            was_stalled: None,
            is_overdue: false,
            asked_word: false,
            wants_more: false,
            waiting: Waiting::default(),
            held_since_ms: None,
            partial_since_ms: None,
            stuck_since_ms: None,
            rate_since_ms: None,
            taken: 0,
            handed: 0,
            large: Vec::new(),
        }
    }

    /// Notes what the system says about the socket. It says everything once.
    pub(super) fn on_event(&mut self, event: &Event) {
        self.read_closed |= event.is_read_closed() || event.is_error();
        self.is_broken |= event.is_error() || event.is_write_closed();
        self.readable |= event.is_readable() || self.read_closed;
        self.writable |= event.is_writable();
    }

    /// Reads once. A short read means that the socket is empty, and that the next bytes raise a new event; the end,
    /// which may have been announced together with the last bytes, does not.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Received {
        match net::recv(&self.stream, &mut *room, RecvFlags::empty()) {
            Ok((0, _)) => Received::End,
            Ok((count, _)) => {
                self.readable = count == room.len() || self.read_closed;
                Received::Bytes(count)
            }
            Err(Errno::WOULDBLOCK) => {
                self.readable = false;
                Received::Nothing
            }
            Err(Errno::INTR) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// Whether a frame can be served from `input`, or refused for its length.
    pub(super) fn has_frame(&self) -> bool {
        !self.input.is_empty() && !matches!(split_frame(&self.input, usize::MAX), Ok(None))
    }

    pub(super) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Appends an event.
    pub(super) fn put_event(&mut self, bytes: &[u8]) {
        self.event_bytes += bytes.len();
        self.output.extend_from_slice(bytes);
    }

    /// Bytes of events that wait for the client, at most.
    pub(super) fn unsent_events(&self) -> usize {
        self.event_bytes.min(self.unsent())
    }

    /// Tries to send even though the socket was full when it was last looked at.
    pub(super) fn flush_again(&mut self, now_ms: i64, pool: &mut Pool) -> Result<(), ()> {
        self.writable = true;
        self.flush(now_ms, pool)
    }

    /// Forgets everything that is not sent.
    pub(super) fn drop_output(&mut self) {
        (self.output, self.sent, self.event_bytes) = (Vec::new(), 0, 0);
    }

    /// Bytes received and unsent that it holds. A large output counts with the memory that it has grown to.
    fn held(&self) -> (usize, usize) {
        let unsent = if COUNTED_BYTES < self.output.len() { self.output.capacity() } else { self.output.len() };
        (self.input.len().max(self.reserved), unsent)
    }

    /// By how much the buffers have grown since the last call.
    pub(super) fn growth(&mut self) -> Growth {
        let held = self.held();
        let counted = std::mem::replace(&mut self.counted, held);
        let growth = |now: usize, before: usize| now.cast_signed() - before.cast_signed();
        Growth { received: growth(held.0, counted.0), unsent: growth(held.1, counted.1) }
    }

    /// Whether so much has come that it is to be counted now.
    pub(super) fn has_grown_much(&self) -> bool {
        let (received, unsent) = self.held();
        self.counted.0 + self.counted.1 + COUNTED_BYTES < received + unsent
    }

    /// Bytes of the frame at the start of `input`, with its length, if that has come.
    pub(super) fn frame_bytes(&self) -> Option<usize> {
        let announced = u32::from_be_bytes(*self.input.first_chunk()?);
        Some(announced as usize + 4)
    }

    /// Notes that memory for the frame is reserved, beyond what was counted before.
    pub(super) fn on_reserved(&mut self, frame_bytes: usize) {
        self.reserved = frame_bytes;
        self.counted.0 = frame_bytes.max(self.counted.0);
    }

    /// Bytes that must be reserved before more of a frame is received.
    pub(super) fn unreserved(&self, frame_bytes: usize) -> usize {
        frame_bytes.saturating_sub(self.counted.0)
    }

    /// Appends received bytes. The buffer doubles, but not beyond the frame that it receives.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let len = self.input.len() + bytes.len();
        if self.input.capacity() < len {
            let doubled = (2 * self.input.capacity()).min(self.reserved);
            self.input.reserve_exact(doubled.max(len) - self.input.len());
        }
        self.input.extend_from_slice(bytes);
    }

    /// So many bytes at the start of `input` are served. The memory of a large request goes with it: only the bytes are counted.
    pub(super) fn on_served(&mut self, bytes: usize) {
        if 0 < bytes {
            self.input.drain(..bytes);
            self.reserved = 0;
            shrink(&mut self.input);
        }
    }

    /// Whether the client took what it is owed too slowly, if that was measured for long enough. Measures again from now on.
    pub(super) fn is_slow_reader(&mut self, now_ms: i64) -> Option<bool> {
        let elapsed_ms = now_ms - self.rate_since_ms?;
        if elapsed_ms < SLOW_MS {
            return None;
        }
        self.rate_since_ms = Some(now_ms);
        let taken = i64::try_from(std::mem::take(&mut self.taken)).unwrap_or(i64::MAX);
        let drained = i64::try_from(self.unsent() / DRAIN_SECONDS_MAX).unwrap_or(i64::MAX);
        let least = REPLY_BYTES_PER_SECOND_MIN.max(drained);
        Some(taken.saturating_mul(1000) < least.saturating_mul(elapsed_ms))
    }

    /// Bytes of large requests that are done by now.
    pub(super) fn done_large(&mut self) -> usize {
        let answered = self.handed - u64::from(self.core.in_flight());
        let done = self.large.iter().take_while(|(number, _)| *number <= answered).count();
        self.large.drain(..done).map(|(_, bytes)| bytes).sum()
    }

    /// What the socket is asked for, as Java's selectors say it: 1 to read, 4 to write.
    pub(super) fn interest(&self) -> u8 {
        let reads = self.core.may_take(Admission::Open) && !self.ended && !self.closing;
        if self.asked_word { 0 } else { u8::from(reads) | u8::from(0 < self.unsent()) << 2 }
    }

    /// Writes as much as the socket takes. `Err` means that it is dead.
    pub(super) fn flush(&mut self, now_ms: i64, pool: &mut Pool) -> Result<(), ()> {
        let before = self.unsent();
        while self.writable && 0 < self.unsent() {
            match net::send(&self.stream, &self.output[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    // A short write means that the socket is full: the next room raises a new event.
                    self.writable = self.unsent() == 0;
                }
                Err(Errno::WOULDBLOCK) => self.writable = false,
                Err(Errno::INTR) => (),
                Err(_) => return Err(()),
            }
        }
        self.event_bytes = self.event_bytes.min(self.unsent());
        let taken = before - self.unsent();
        if self.unsent() == 0 {
            self.output.clear();
            (self.sent, self.event_bytes, self.stuck_since_ms, self.rate_since_ms) = (0, 0, None, None);
            pool.take_back(&mut self.output);
        } else {
            if 0 < taken || self.stuck_since_ms.is_none() {
                self.stuck_since_ms = Some(now_ms);
            }
            // What was taken first only filled the socket.
            self.taken = self.rate_since_ms.map_or(0, |_| self.taken + taken);
            self.rate_since_ms.get_or_insert(now_ms);
            if self.output.len() / 2 < self.sent {
                self.output.drain(..self.sent);
                self.sent = 0;
                shrink(&mut self.output);
            }
        }
        Ok(())
    }
}

/// Returns memory that a buffer was large with and is not.
fn shrink(buffer: &mut Vec<u8>) {
    if POOLED_BUFFER_BYTES.max(4 * buffer.len()) < buffer.capacity() {
        buffer.shrink_to_fit();
    }
}
