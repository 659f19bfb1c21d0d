//! Outboxes: encoded replies and watch events for connections, in sending order.
//!
//! There is one outbox per I/O thread. The replica thread fills them: while it applies transactions under the write
//! lock of the state, and with replies that need no transaction. What it applies, it hands over before it releases the
//! lock, so that no connection can read a state whose events it has not received yet.

use crate::ConnId;
use crate::limits::{LIKELY_BYTES_MAX, LIKELY_ENTRIES_MAX};
use ox_proto::SessionId;
use ox_proto::event::put_event;
use ox_tree::AclList;
use ox_tree::watch::{EventSink, FiredEvent, WatcherId};
use std::ops::Range;
use std::sync::Arc;

/// The kind of a part of an outbox.
#[derive(Debug)]
pub enum PartKind {
    /// A watch event. If a list is given, only connections that may read by it receive the event.
    Event(Option<Arc<AclList>>),
    /// Replies to this number of requests of the connection.
    Replies(u32),
    /// The reply to the handshake: the connection now serves this session, with its timeout in ms.
    Attached(SessionId, i32),
    /// The last part of the connection: flush, then close.
    Close,
}

/// Bytes for one connection.
#[derive(Debug)]
pub struct OutboxPart {
    pub conn: ConnId,
    /// The range in [`Outbox::bytes`]. Parts of one event share their range.
    pub span: Range<usize>,
    pub kind: PartKind,
}

/// Replies and events for the connections of one I/O thread.
#[derive(Debug, Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    /// In the order in which they must be sent.
    pub parts: Vec<OutboxPart>,
}

impl Outbox {
    /// Appends a reply that `encode` writes. Consecutive replies to one connection are merged into one part.
    pub fn reply(&mut self, conn: ConnId, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let end = self.bytes.len();
        match self.parts.last_mut() {
            Some(OutboxPart { conn: last, span, kind: PartKind::Replies(count) })
                if *last == conn && span.end == start =>
            {
                span.end = end;
                *count += 1;
            }
            _ => self.parts.push(OutboxPart { conn, span: start..end, kind: PartKind::Replies(1) }),
        }
    }

    /// Appends a part of any other kind.
    pub fn push(&mut self, conn: ConnId, kind: PartKind, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.parts.push(OutboxPart { conn, span: start..self.bytes.len(), kind });
    }

    /// Takes the contents, and reserves the same capacity, which the next batch will probably need.
    pub fn take(&mut self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len().min(LIKELY_BYTES_MAX));
        let parts = Vec::with_capacity(self.parts.len().min(LIKELY_ENTRIES_MAX));
        std::mem::replace(self, Self { bytes, parts })
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// The outboxes of all I/O threads, by thread.
#[derive(Debug)]
pub struct Outboxes(pub Vec<Outbox>);

impl Outboxes {
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Outbox::default()).collect())
    }

    /// The total size of all frames.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|outbox| outbox.bytes.len()).sum()
    }

    /// The outbox of the connection's I/O thread.
    pub fn of(&mut self, conn: ConnId) -> &mut Outbox {
        &mut self.0[conn.thread()]
    }
}

impl EventSink for Outboxes {
    /// Encodes the event once per thread.
    fn event(&mut self, watchers: &[WatcherId], event: &FiredEvent<'_>) {
        for (thread, outbox) in self.0.iter_mut().enumerate() {
            let start = outbox.bytes.len();
            let conns = watchers.iter().map(|watcher| ConnId::from(*watcher));
            for conn in conns.filter(|conn| conn.thread() == thread) {
                if outbox.bytes.len() == start {
                    put_event(&mut outbox.bytes, event.zxid, event.kind, event.path);
                }
                let span = start..outbox.bytes.len();
                outbox.parts.push(OutboxPart { conn, span, kind: PartKind::Event(event.readers.clone()) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Zxid;
    use ox_proto::event::EventType;

    #[test]
    fn event_is_encoded_once_per_thread() {
        let mut outboxes = Outboxes::new(3);
        let conns = [(0, 1), (2, 1), (2, 5)].map(|(thread, slot)| ConnId::new(thread, slot, 7));
        let event = FiredEvent { zxid: Zxid(9), kind: EventType::NodeCreated, path: "/a", readers: None };
        outboxes.event(&conns.map(WatcherId::from), &event);
        let mut frame = Vec::new();
        put_event(&mut frame, Zxid(9), EventType::NodeCreated, "/a");
        for (outbox, receivers) in outboxes.0.iter().zip([&conns[..1], &[], &conns[1..]]) {
            assert!(outbox.parts.iter().map(|part| &part.conn).eq(receivers));
            assert!(outbox.parts.iter().all(|part| outbox.bytes[part.span.clone()] == frame));
            assert_eq!(outbox.bytes.len(), if receivers.is_empty() { 0 } else { frame.len() });
        }
    }
}
