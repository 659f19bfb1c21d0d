//! The server's end of a link, with its buffers.

use crate::link::LinkId;
use ox_proto::frame::split_frame;
use ox_replica::Conn;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    pub(crate) core: Conn,
    /// Bytes received and not served.
    pub(crate) input: Vec<u8>,
    /// Bytes for the client.
    pub(crate) output: Vec<u8>,
    /// Bytes of events in `output` since it was last empty.
    event_bytes: usize,
    /// The client has closed its side.
    pub(crate) ended: bool,
    /// Close when everything is sent.
    pub(crate) closing: bool,
    /// It is in the list of connections to serve or flush this turn.
    pub(crate) listed: bool,
    /// Its next request waits until the server has room.
    pub(crate) stalled: bool,
    /// Since when complete frames have been lying in `input`.
    pub(crate) held_since_ms: Option<i64>,
    /// When the client last took something of what it is owed; `None` when it is owed nothing.
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

    /// Whether a frame can be served from `input`, or refused for its length.
    pub(crate) fn has_frame(&self) -> bool {
        !matches!(split_frame(&self.input, usize::MAX), Ok(None))
    }

    /// Appends an event. False when too many wait already: the client must not miss one, so it has to go.
    pub(crate) fn put_event(&mut self, bytes: &[u8], bytes_max: usize) -> bool {
        self.event_bytes += bytes.len();
        self.output.extend_from_slice(bytes);
        self.event_bytes.min(self.output.len()) <= bytes_max
    }

    /// Ends it without what it is owed.
    pub(crate) fn give_up(&mut self) {
        self.closing = true;
        self.output.clear();
    }

    /// Takes what the client has room for.
    pub(crate) fn take_output(&mut self, room: usize, now_ms: i64) -> Vec<u8> {
        let count = room.min(self.output.len());
        let sent: Vec<u8> = self.output.drain(..count).collect();
        if self.output.is_empty() {
            (self.event_bytes, self.stuck_since_ms) = (0, None);
        } else if 0 < count || self.stuck_since_ms.is_none() {
            self.stuck_since_ms = Some(now_ms);
        }
        sent
    }
}
