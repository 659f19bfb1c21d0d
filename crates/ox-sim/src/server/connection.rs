//! The server's end of a link, with its buffers.

use crate::link::LinkId;
use ox_replica::Conn;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    pub(crate) core: Conn,
    /// Bytes received and not served.
    pub(crate) input: Vec<u8>,
    /// Bytes for the client.
    pub(crate) output: Vec<u8>,
    /// The client has closed its side.
    pub(crate) ended: bool,
    /// Close when everything is sent.
    pub(crate) closing: bool,
    /// It is in the list of connections to serve or flush this turn.
    pub(crate) listed: bool,
    pub(crate) last_io_ms: i64,
}

impl Connection {
    pub(crate) fn new(link: LinkId, core: Conn, now_ms: i64) -> Self {
        Self {
            link,
            core,
            input: Vec::new(),
            output: Vec::new(),
            ended: false,
            closing: false,
            listed: false,
            last_io_ms: now_ms,
        }
    }
}
