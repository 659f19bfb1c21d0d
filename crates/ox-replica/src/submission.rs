//! What connections hand to the replica: requests in the order they were received.

use crate::limits::{ITEM_BYTES, LIKELY_BYTES_MAX, LIKELY_ITEMS_MAX};
use ox_proto::{OpCode, SessionId, Zxid};
use ox_tree::ConnId;
use ox_tree::auth::Identities;
use ox_tree::prefetch::request_path;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// Requests on their way, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub requests: usize,
    /// Their bytes, and what keeping them takes.
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

/// What one item asks for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A request to execute in its turn; the bytes are its body.
    Request {
        /// Echoed in the answer.
        xid: i32,
        /// What to do.
        op: OpCode,
    },
    /// A request that waited too long before it came here: refused in its turn.
    Throttled {
        /// Echoed in the answer.
        xid: i32,
    },
    /// An answer that only waits for its turn; the bytes are its frame.
    Answered,
    /// The last answer of a connection; the bytes are its frame.
    AnsweredAndClose,
    /// A handshake that passed the connection's own checks.
    Connect {
        /// Session to resume, or none.
        session: SessionId,
        /// The last transaction that the client knows of.
        last_zxid_seen: Zxid,
        /// Whether the password fits it.
        proven: bool,
        /// Negotiated timeout.
        timeout_ms: i32,
        /// How long the client may be left without a reply, in milliseconds.
        patience_ms: i64,
        /// Whether the client could do with reads, if it says so.
        read_only: Option<bool>,
        /// Where from.
        address: IpAddr,
        /// Who is there.
        ids: Arc<Identities>,
        /// Where the connection notes that its client is alive.
        touch: crate::Touch,
    },
    /// The connection has proven more.
    Identified(Arc<Identities>),
    /// The connection is gone.
    Gone,
}

/// One item of a submission.
#[derive(Debug)]
pub struct Item {
    /// Whose.
    pub conn: ConnId,
    /// What.
    pub ask: Ask,
    /// Its bytes in [`Submission::bytes`].
    pub span: Range<usize>,
}

/// A batch of items of one I/O thread.
#[derive(Debug, Default)]
pub struct Submission {
    /// Bodies and frames, back to back.
    pub bytes: Vec<u8>,
    /// In the order received.
    pub items: Vec<Item>,
}

impl Submission {
    /// Appends an item with its bytes.
    pub fn push(&mut self, conn: ConnId, ask: Ask, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.items.push(Item { conn, ask, span: start..self.bytes.len() });
    }

    /// The paths in the requests from one item on.
    pub(crate) fn paths_from(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let requests = self.items[at..].iter().filter(|item| matches!(item.ask, Ask::Request { .. }));
        requests.filter_map(|item| request_path(&self.bytes[item.span.clone()]))
    }

    /// An empty one with room for as much: the next turn usually brings about the same.
    pub fn like(&self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len().min(LIKELY_BYTES_MAX));
        Self { bytes, items: Vec::with_capacity(self.items.len().min(LIKELY_ITEMS_MAX)) }
    }

    /// True when there is nothing to hand over.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What it costs until it is done with.
    pub fn load(&self) -> Load {
        Load { requests: self.items.len(), bytes: self.bytes.len() + self.items.len() * ITEM_BYTES }
    }
}
