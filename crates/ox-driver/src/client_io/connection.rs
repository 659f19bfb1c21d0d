//! A client's socket with its buffers.

use super::buffer_pool::BufferPool;
use super::global_limits::BufferGrowth;
use super::host::Readiness;
use super::limits::{
    DRAIN_SECONDS_MAX, GROWTH_REPORT_BYTES, POOLED_BUFFER_BYTES_MAX, REPLY_BYTES_PER_SECOND_MIN, SLOW_MS,
};
use super::stalled::Stall;
use crate::sockets::{SocketRead, SocketWrite, Sockets};
use ox_proto::frame::split_frame;
use ox_replica::{Admission, Conn};

#[derive(Debug)]
pub struct Connection<S, R> {
    pub(super) socket: S,
    pub(super) record: R,
    pub(super) core: Conn,
    /// When bytes were last sent or received.
    pub(super) last_io_ms: i64,
    /// Received bytes that are not served: an incomplete frame, or frames that must wait.
    pub(super) input: Vec<u8>,
    /// Replies and events for the client.
    pub(super) output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    /// Bytes of events added to `output` since it was last empty.
    event_bytes: usize,
    /// Bytes reserved for the frame at the start of `input`, with its length prefix; 0 without a reservation.
    pub(super) reserved: usize,
    /// The bytes that it had received when it began to wait for that reservation.
    pub(super) waiting_for_frame: Option<usize>,
    /// Bytes of `input` at the last check for slow requests.
    pub(super) checked_input: usize,
    /// Received and unsent bytes that the global limits include.
    counted: (usize, usize),
    /// Whether the socket may have more to read.
    pub(super) readable: bool,
    /// The client has closed its side, or the socket is broken. It is read until a read reports that.
    pub(super) read_closed: bool,
    /// The socket is broken in both directions: no reply can reach the client.
    pub(super) is_broken: bool,
    writable: bool,
    /// The client has closed its side, and everything that it sent before is read.
    pub(super) ended: bool,
    /// The connection closes when all output is sent.
    pub(super) closing: bool,
    /// Whether it is in the thread's list of ready connections.
    pub(super) ready: bool,
    /// It was ready, but the arena was full.
    pub(super) skipped: bool,
    /// It waits until the server has memory for the next request or its reply.
    pub(super) stalled: Option<Stall>,
    /// It was stalled when this iteration began, and is retried.
    pub(super) was_stalled: Option<Stall>,
    /// Its large write is admitted in this iteration although only small ones are.
    pub(super) is_overdue: bool,
    /// The client has sent a four-letter command.
    pub(super) is_command: bool,
    /// Since when complete frames have been in `input`.
    pub(super) held_since_ms: Option<i64>,
    /// Since when the frame at the start of `input` has been incomplete.
    pub(super) partial_since_ms: Option<i64>,
    /// When the client last read something of the unsent output; `None` without unsent output.
    pub(super) stuck_since_ms: Option<i64>,
    /// Since when the client's reading rate is measured; `None` without unsent output.
    pub(super) rate_since_ms: Option<i64>,
    /// Bytes that the socket has accepted since then.
    drained: usize,
    /// Requests submitted to the replica over the lifetime of the connection.
    pub(super) submitted: u64,
    /// Large requests in flight: their number in `submitted`, and their bytes.
    pub(super) large: Vec<(u64, usize)>,
    /// The command's reply continues when all output is sent.
    pub(super) wants_more: bool,
}

impl<S, R> Connection<S, R> {
    pub(super) fn new(socket: S, record: R, core: Conn, now_ms: i64) -> Self {
        Self {
            socket,
            record,
            core,
            last_io_ms: now_ms,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            event_bytes: 0,
            reserved: 0,
            waiting_for_frame: None,
            checked_input: 0,
            counted: (0, 0),
            readable: false,
            read_closed: false,
            is_broken: false,
            writable: true,
            ended: false,
            closing: false,
            ready: false,
            skipped: false,
            stalled: None,
            was_stalled: None,
            is_overdue: false,
            is_command: false,
            wants_more: false,
            held_since_ms: None,
            partial_since_ms: None,
            stuck_since_ms: None,
            rate_since_ms: None,
            drained: 0,
            submitted: 0,
            large: Vec::new(),
        }
    }

    pub fn core(&self) -> &Conn {
        &self.core
    }

    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Bytes that are counted for the request that is being received.
    pub fn received(&self) -> usize {
        self.held().0
    }

    /// Whether nothing more is read from the client: it has ended, or the server closes the connection.
    pub fn is_ending(&self) -> bool {
        self.ended || self.closing
    }

    /// Records readiness. The socket reports each change once (edge-triggered).
    pub(super) fn on_ready(&mut self, readiness: Readiness) {
        self.read_closed |= readiness.read_closed;
        self.is_broken |= readiness.broken;
        self.readable |= readiness.readable || self.read_closed;
        self.writable |= readiness.writable;
    }

    /// Reads once. A short read means that the socket is empty and that further bytes raise a new event. The end of the
    /// stream may have been reported together with the last bytes, and raises no further event.
    pub(super) fn receive(&mut self, buffer: &mut [u8], sockets: &mut impl Sockets<Socket = S>) -> SocketRead {
        let received = sockets.receive(&mut self.socket, buffer);
        match received {
            SocketRead::Bytes(count) => self.readable = count == buffer.len() || self.read_closed,
            SocketRead::Nothing => self.readable = false,
            SocketRead::End => (self.ended, self.readable) = (true, false),
        }
        received
    }

    /// Whether `input` starts with a complete frame, or with one that is refused for its length.
    pub fn has_frame(&self) -> bool {
        !self.input.is_empty() && !matches!(split_frame(&self.input, usize::MAX), Ok(None))
    }

    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    pub(super) fn put_event(&mut self, bytes: &[u8]) {
        self.event_bytes += bytes.len();
        self.output.extend_from_slice(bytes);
    }

    /// Upper bound of the bytes of events that the client has not received.
    pub(super) fn unsent_events(&self) -> usize {
        self.event_bytes.min(self.unsent())
    }

    /// Sends although the socket was full at the last attempt.
    pub(super) fn flush_again<K>(&mut self, now_ms: i64, pool: &mut BufferPool, sockets: &mut K) -> Result<(), ()>
    where
        K: Sockets<Socket = S>,
    {
        self.writable = true;
        self.flush(now_ms, pool, sockets)
    }

    /// Discards all unsent output.
    pub(super) fn drop_output(&mut self) {
        (self.output, self.sent, self.event_bytes) = (Vec::new(), 0, 0);
    }

    /// Received and unsent bytes held. A large output counts with its capacity.
    fn held(&self) -> (usize, usize) {
        let unsent = if GROWTH_REPORT_BYTES < self.output.len() { self.output.capacity() } else { self.output.len() };
        (self.input.len().max(self.reserved), unsent)
    }

    /// Growth of the buffers since the last call.
    pub(super) fn growth(&mut self) -> BufferGrowth {
        let held = self.held();
        let counted = std::mem::replace(&mut self.counted, held);
        let growth = |now: usize, before: usize| now.cast_signed() - before.cast_signed();
        BufferGrowth { received: growth(held.0, counted.0), unsent: growth(held.1, counted.1) }
    }

    /// Whether the buffers have grown so much that the global limits need to know immediately.
    pub(super) fn has_grown_much(&self) -> bool {
        let (received, unsent) = self.held();
        self.counted.0 + self.counted.1 + GROWTH_REPORT_BYTES < received + unsent
    }

    /// Bytes of the frame at the start of `input`, with its length prefix; `None` before that prefix is complete.
    pub(super) fn frame_bytes(&self) -> Option<usize> {
        let announced = u32::from_be_bytes(*self.input.first_chunk()?);
        Some(announced as usize + 4)
    }

    /// Records that memory for the frame is reserved, including what was counted before.
    pub(super) fn on_reserved(&mut self, frame_bytes: usize) {
        self.reserved = frame_bytes;
        self.counted.0 = frame_bytes.max(self.counted.0);
    }

    /// Bytes to reserve before more of a frame is received.
    pub(super) fn unreserved(&self, frame_bytes: usize) -> usize {
        frame_bytes.saturating_sub(self.counted.0)
    }

    /// Appends received bytes. The capacity doubles, but not beyond the frame that is received.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let len = self.input.len() + bytes.len();
        if self.input.capacity() < len {
            let doubled = (2 * self.input.capacity()).min(self.reserved);
            self.input.reserve_exact(doubled.max(len) - self.input.len());
        }
        self.input.extend_from_slice(bytes);
    }

    /// Removes served bytes from the start of `input`, and frees the memory of a large request.
    pub(super) fn on_served(&mut self, bytes: usize) {
        if 0 < bytes {
            self.input.drain(..bytes);
            self.reserved = 0;
            shrink(&mut self.input);
        }
    }

    /// Whether the client reads too slowly; `None` if that was not measured for long enough. Starts the next
    /// measurement.
    pub(super) fn is_slow_reader(&mut self, now_ms: i64) -> Option<bool> {
        let elapsed_ms = now_ms - self.rate_since_ms?;
        if elapsed_ms < SLOW_MS {
            return None;
        }
        self.rate_since_ms = Some(now_ms);
        let drained = i64::try_from(std::mem::take(&mut self.drained)).unwrap_or(i64::MAX);
        let drain_rate = i64::try_from(self.unsent() / DRAIN_SECONDS_MAX).unwrap_or(i64::MAX);
        let least = REPLY_BYTES_PER_SECOND_MIN.max(drain_rate);
        Some(drained.saturating_mul(1000) < least.saturating_mul(elapsed_ms))
    }

    /// Bytes of large requests that have their reply, which are no longer counted afterwards.
    pub(super) fn done_large(&mut self) -> usize {
        let replied = self.submitted - u64::from(self.core.in_flight());
        let done = self.large.iter().take_while(|(number, _)| *number <= replied).count();
        self.large.drain(..done).map(|(_, bytes)| bytes).sum()
    }

    /// Interest bits as Java's selectors use them: 1 to read, 4 to write.
    pub(super) fn interest(&self) -> u8 {
        let reads = self.core.may_take(Admission::Open) && !self.ended && !self.closing;
        if self.is_command { 0 } else { u8::from(reads) | u8::from(0 < self.unsent()) << 2 }
    }

    /// Writes as much as the socket takes. `Err` means that the socket is broken.
    pub(super) fn flush<K>(&mut self, now_ms: i64, pool: &mut BufferPool, sockets: &mut K) -> Result<(), ()>
    where
        K: Sockets<Socket = S>,
    {
        let before = self.unsent();
        while self.writable && 0 < self.unsent() {
            match sockets.send(&mut self.socket, &self.output[self.sent..]) {
                SocketWrite::Bytes(count) => {
                    self.sent += count;
                    // After a short write the socket is full: free space raises a new event.
                    self.writable = self.unsent() == 0;
                }
                SocketWrite::Full => self.writable = false,
                SocketWrite::Broken => return Err(()),
            }
        }
        self.event_bytes = self.event_bytes.min(self.unsent());
        let drained = before - self.unsent();
        if self.unsent() == 0 {
            self.output.clear();
            (self.sent, self.event_bytes, self.stuck_since_ms, self.rate_since_ms) = (0, 0, None, None);
            pool.take_back(&mut self.output);
        } else {
            if 0 < drained || self.stuck_since_ms.is_none() {
                self.stuck_since_ms = Some(now_ms);
            }
            // The first bytes only filled the socket buffer.
            self.drained = self.rate_since_ms.map_or(0, |_| self.drained + drained);
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

/// Frees the memory of a buffer that was much larger than it is now.
fn shrink(buffer: &mut Vec<u8>) {
    if POOLED_BUFFER_BYTES_MAX.max(4 * buffer.len()) < buffer.capacity() {
        buffer.shrink_to_fit();
    }
}
