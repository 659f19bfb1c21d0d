//! The replica's state of client connections. The I/O thread's part of a connection is `ox-replica/src/conn.rs`.

use super::parked_handshakes::Handshake;
use super::pending_requests::PendingWrites;
use crate::ConnId;
use crate::clock::Now;
use bytes::Bytes;
use ox_proto::SessionId;
use ox_proto::quorum::identities::put_ids;
use ox_tree::auth::Identities;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ConnState {
    id: ConnId,
    pub(super) ids: Arc<Identities>,
    /// `ids` in the encoding for a leader, once needed.
    encoded_ids: Option<Bytes>,
    pub(super) session: SessionId,
    /// False if its session was closed or has moved: later requests have no effect.
    pub(super) active: bool,
    /// True if its local session was closed: later requests have no effect, earlier ones are still replied to.
    pub(super) is_leaving: bool,
    /// The handshake of a member's connection, until it is replied to.
    pub(super) handshake: Option<Box<Handshake>>,
    /// Number of its last write in [`PendingWrites`].
    pub(super) last_write: Option<u64>,
    /// When the last write was replied to. The socket may not have been read before that.
    pub(super) replied_ms: Option<i64>,
}

impl ConnState {
    pub(super) fn new(id: ConnId, ids: Arc<Identities>, handshake: Option<Box<Handshake>>) -> Self {
        let session = SessionId::NONE;
        Self {
            id,
            ids,
            encoded_ids: None,
            session,
            active: true,
            is_leaving: false,
            handshake,
            last_write: None,
            replied_ms: None,
        }
    }

    pub(super) fn identify(&mut self, ids: Arc<Identities>) {
        (self.ids, self.encoded_ids) = (ids, None);
    }

    pub(super) fn encoded_ids(&mut self) -> Bytes {
        let ids = &self.ids;
        let encoded = self.encoded_ids.get_or_insert_with(|| {
            let list: Vec<_> = ids.iter().map(|identity| (&*identity.scheme, identity.id.as_str())).collect();
            let mut encoded = Vec::new();
            put_ids(&mut encoded, list.into_iter());
            encoded.into()
        });
        encoded.clone()
    }
}

/// Connections by thread and slot.
#[derive(Debug)]
pub(super) struct Conns(Vec<Vec<Option<ConnState>>>);

impl Conns {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Vec::new()).collect())
    }

    pub(super) fn insert(&mut self, conn: ConnState) {
        let (thread, slot) = (&mut self.0[conn.id.thread()], conn.id.slot());
        if thread.len() <= slot {
            thread.resize_with(slot + 1, || None);
        }
        thread[slot] = Some(conn);
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&ConnState> {
        self.0[id.thread()].get(id.slot())?.as_ref().filter(|conn| conn.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut ConnState> {
        self.0[id.thread()].get_mut(id.slot())?.as_mut().filter(|conn| conn.id == id)
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<ConnState> {
        self.0[id.thread()].get_mut(id.slot())?.take_if(|conn| conn.id == id)
    }

    pub(super) fn deactivate(&mut self, id: ConnId) {
        if let Some(conn) = self.get_mut(id) {
            (conn.active, conn.handshake) = (false, None);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (ConnId, Option<&Handshake>)> {
        self.0.iter().flatten().flatten().map(|conn| (conn.id, conn.handshake.as_deref()))
    }
}

/// Until when a connection had to wait for the server. A waiting client counts as alive, because its socket may not be
/// read before it has its replies.
pub(super) fn waited_ms(conns: &Conns, own: &PendingWrites, now: Now) -> impl Fn(ConnId) -> Option<i64> {
    move |conn| {
        let conn = conns.get(conn)?;
        if own.has(conn.last_write?) { Some(now.mono_ms) } else { conn.replied_ms }
    }
}
