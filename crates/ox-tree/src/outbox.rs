//! What the applier has for connections: events and replies, in the order they must leave.
//!
//! One outbox per I/O thread. The applier fills them while it holds the state, and hands them over before it lets
//! go, so that no connection can show a state whose events it has not got yet.

use crate::acl_table::AclList;
use crate::conn::ConnId;
use crate::limits::{LIKELY_BYTES_MAX, LIKELY_PARTS_MAX};
use crate::metric_summary::Tally;
use ox_proto::event::{EventType, put_event};
use ox_proto::{SessionId, Zxid};
use std::ops::Range;
use std::sync::Arc;

/// What a part of an outbox is to its connection.
#[derive(Debug)]
pub enum Note {
    /// A watch event; with a list, only for those who may read by it.
    Event(Option<Arc<AclList>>),
    /// Answers to this many of the connection's requests.
    Answers(u32),
    /// The handshake's answer: the session is the connection's from now on.
    Attached(SessionId, i32),
    /// Nothing more will follow: flush, then close.
    Close,
}

/// Bytes for one connection.
#[derive(Debug)]
pub struct Part {
    /// Whose bytes.
    pub conn: ConnId,
    /// Where they are in [`Outbox::bytes`]; events share theirs.
    pub span: Range<usize>,
    /// What they are.
    pub note: Note,
}

/// Everything for the connections of one I/O thread.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Encoded frames.
    pub bytes: Vec<u8>,
    /// Whose they are, in order.
    pub parts: Vec<Part>,
}

impl Outbox {
    /// Appends answers that `encode` writes. Neighbouring answers to one connection become one part.
    pub fn answer(&mut self, conn: ConnId, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let end = self.bytes.len();
        match self.parts.last_mut() {
            Some(Part { conn: last, span, note: Note::Answers(count) }) if *last == conn && span.end == start => {
                span.end = end;
                *count += 1;
            }
            _ => self.parts.push(Part { conn, span: start..end, note: Note::Answers(1) }),
        }
    }

    /// Appends a part of another kind.
    pub fn push(&mut self, conn: ConnId, note: Note, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.parts.push(Part { conn, span: start..self.bytes.len(), note });
    }

    /// Hands out everything, and makes room for as much: the next time usually brings about the same.
    pub fn take(&mut self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len().min(LIKELY_BYTES_MAX));
        let parts = Vec::with_capacity(self.parts.len().min(LIKELY_PARTS_MAX));
        std::mem::replace(self, Self { bytes, parts })
    }

    /// True when there is nothing to hand over.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// One outbox per I/O thread.
#[derive(Debug)]
pub struct Outboxes(pub Vec<Outbox>);

impl Outboxes {
    /// Empty outboxes for so many threads.
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Outbox::default()).collect())
    }

    /// Bytes in all of them.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|outbox| outbox.bytes.len()).sum()
    }

    /// The outbox that serves `conn`.
    pub fn of(&mut self, conn: ConnId) -> &mut Outbox {
        &mut self.0[conn.thread()]
    }

    /// Appends one event for each of `conns`; it is encoded once per thread.
    pub(crate) fn event(&mut self, conns: &[ConnId], event: Event<'_>) {
        for (thread, outbox) in self.0.iter_mut().enumerate() {
            let start = outbox.bytes.len();
            for &conn in conns.iter().filter(|conn| conn.thread() == thread) {
                if outbox.bytes.len() == start {
                    put_event(&mut outbox.bytes, event.zxid, event.kind, event.path);
                }
                let span = start..outbox.bytes.len();
                outbox.parts.push(Part { conn, span, note: Note::Event(event.readers.clone()) });
            }
        }
    }
}

/// How many connections events went to, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Of created nodes.
    pub created: Tally,
    /// Of deleted nodes.
    pub deleted: Tally,
    /// Of changed data.
    pub changed: Tally,
    /// Of changed lists of children.
    pub children: Tally,
}

impl Fired {
    pub(crate) fn note(&mut self, kind: EventType, connections: usize) {
        let tally = match kind {
            EventType::NodeCreated => &mut self.created,
            EventType::NodeDeleted => &mut self.deleted,
            EventType::NodeDataChanged => &mut self.changed,
            EventType::NodeChildrenChanged => &mut self.children,
        };
        tally.note(i64::try_from(connections).unwrap_or(i64::MAX));
    }
}

/// An event before it is encoded.
pub(crate) struct Event<'a> {
    pub(crate) zxid: Zxid,
    pub(crate) kind: EventType,
    pub(crate) path: &'a str,
    /// Who may see it; `None` for everybody.
    pub(crate) readers: Option<Arc<AclList>>,
}
