//! The server's end of a client link, with its buffers.

use crate::link::LinkId;
use ox_proto::frame::split_frame;
use ox_replica::Conn;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    pub(crate) core: Conn,
    /// Received bytes that are not processed yet.
    pub(crate) input: Vec<u8>,
    /// Bytes to be sent to the client.
    pub(crate) output: Vec<u8>,
    /// Bytes of events in `output` since it was last empty.
    event_bytes: usize,
    /// The client has closed its direction.
    pub(crate) ended: bool,
    /// Close the connection after sending `output`.
    pub(crate) closing: bool,
    /// The connection is in `IoThread::listed`, to be served or flushed in this iteration.
    pub(crate) listed: bool,
    /// The next request waits until the server admits more.
    pub(crate) stalled: bool,
    /// Since when `input` has contained complete frames.
    pub(crate) held_since_ms: Option<i64>,
    /// When the client last read from `output`; `None` while `output` is empty.
    pub(crate) stuck_since_ms: Option<i64>,
    pub(crate) last_io_ms: i64,
}

impl Connection {
    pub(crate) fn new(link: LinkId, core: Conn, now_ms: i64) -> Self {
        Self {
            link,
            core,
            input: Vec::new(),
            output: Vec::new(),
            event_bytes: 0,
            ended: false,
            closing: false,
            listed: false,
            stalled: false,
            held_since_ms: None,
            stuck_since_ms: None,
            last_io_ms: now_ms,
        }
    }

    /// Whether `input` contains a complete frame, or a frame that is too long.
    pub(crate) fn has_frame(&self) -> bool {
        !matches!(split_frame(&self.input, usize::MAX), Ok(None))
    }

    /// Appends an event. Returns false if too many events are unsent: no event may be dropped, so the caller closes
    /// the connection.
    pub(crate) fn put_event(&mut self, bytes: &[u8], bytes_max: usize) -> bool {
        self.event_bytes += bytes.len();
        self.output.extend_from_slice(bytes);
        self.event_bytes.min(self.output.len()) <= bytes_max
    }

    /// Closes the connection and discards its output.
    pub(crate) fn abort(&mut self) {
        self.closing = true;
        self.output.clear();
    }

    /// Takes the bytes that fit into the client's socket buffer.
    pub(crate) fn take_output(&mut self, bytes_max: usize, now_ms: i64) -> Vec<u8> {
        let count = bytes_max.min(self.output.len());
        let sent: Vec<u8> = self.output.drain(..count).collect();
        if self.output.is_empty() {
            (self.event_bytes, self.stuck_since_ms) = (0, None);
        } else if 0 < count || self.stuck_since_ms.is_none() {
            self.stuck_since_ms = Some(now_ms);
        }
        sent
    }
}
