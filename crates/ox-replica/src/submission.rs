//! Requests that connections submit to the replica, in the order received.

use crate::ConnId;
use crate::limits::{ENTRY_BYTES, LIKELY_BYTES_MAX, LIKELY_ENTRIES_MAX};
use ox_proto::{OpCode, SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::prefetch::request_path;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// Number and memory of requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub requests: usize,
    /// Bytes of the requests, including the overhead of storing them.
    pub bytes: usize,
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
    }
}

impl std::ops::SubAssign for Load {
    fn sub_assign(&mut self, less: Self) {
        self.requests -= less.requests;
        self.bytes -= less.bytes;
    }
}

/// What an entry of a submission requires.
#[derive(Clone, Debug)]
pub enum ClientInput {
    /// A request to execute in order; its bytes are the request body.
    Request { xid: i32, op: OpCode },
    /// A request that waited too long and is refused, in order.
    Throttled { xid: i32 },
    /// A reply that only waits for its place in the order; its bytes are the frame.
    Reply,
    /// The last reply of a connection; its bytes are the frame.
    ReplyAndClose,
    /// A handshake that passed the checks of its connection.
    Connect {
        /// The session to resume, or none.
        session: SessionId,
        /// The client's last zxid.
        last_zxid_seen: Zxid,
        /// Whether the password matches the session.
        proven: bool,
        timeout_ms: i32,
        /// How long the client may be left without a reply, in milliseconds.
        patience_ms: i64,
        /// Whether the client accepts a read-only server; none if its protocol version has no such field.
        read_only: Option<bool>,
        address: IpAddr,
        ids: Arc<Identities>,
        /// Where the connection records that its client is alive.
        last_seen: crate::LastSeen,
    },
    /// The connection has authenticated further identities.
    Identified(Arc<Identities>),
    /// The connection was closed.
    Gone,
}

#[derive(Debug)]
pub struct Entry {
    pub conn: ConnId,
    pub input: ClientInput,
    /// Range of its bytes in [`Submission::bytes`].
    pub span: Range<usize>,
}

/// A batch of entries of one I/O thread.
#[derive(Debug, Default)]
pub struct Submission {
    /// Bodies and frames, back to back.
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
    /// When the I/O thread handed it over, in milliseconds of the monotonic clock.
    pub submitted_ms: i64,
}

impl Submission {
    pub fn push(&mut self, conn: ConnId, input: ClientInput, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.entries.push(Entry { conn, input, span: start..self.bytes.len() });
    }

    /// The paths of all requests from entry `at` on.
    pub(crate) fn paths_from(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let requests = self.entries[at..].iter().filter(|entry| matches!(entry.input, ClientInput::Request { .. }));
        requests.filter_map(|entry| request_path(&self.bytes[entry.span.clone()]))
    }

    /// An empty submission with the same capacity: the next iteration usually has about as many requests.
    pub fn like(&self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len().min(LIKELY_BYTES_MAX));
        Self { bytes, entries: Vec::with_capacity(self.entries.len().min(LIKELY_ENTRIES_MAX)), submitted_ms: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the submission holds until all its requests are done.
    pub fn load(&self) -> Load {
        Load { requests: self.entries.len(), bytes: self.bytes.len() + self.entries.len() * ENTRY_BYTES }
    }
}
