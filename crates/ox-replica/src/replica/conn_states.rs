//! What the replica knows of connections.

use super::handshakes::Handshake;
use super::pending_requests::OwnWrites;
use crate::clock::Now;
use bytes::Bytes;
use ox_proto::SessionId;
use ox_proto::quorum::identities::put_ids;
use ox_tree::ConnId;
use ox_tree::auth::Identities;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ConnState {
    id: ConnId,
    pub(super) ids: Arc<Identities>,
    /// The same as they go to a leader, once they have.
    encoded_ids: Option<Bytes>,
    pub(super) session: SessionId,
    /// False when its session is over or has moved on: nothing it still sends has an effect.
    pub(super) active: bool,
    /// True when its local session is over: what it sends has no effect, what it has sent is still answered.
    pub(super) is_leaving: bool,
    /// A member's, until there is a reply.
    pub(super) handshake: Option<Box<Handshake>>,
    /// Number of its last proposal.
    pub(super) last_write: Option<u64>,
    /// When a write of it was last answered. Until then it may not have been read.
    pub(super) answered_ms: Option<i64>,
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
            answered_ms: None,
        }
    }

    /// It has proven more.
    pub(super) fn identify(&mut self, ids: Arc<Identities>) {
        (self.ids, self.encoded_ids) = (ids, None);
    }

    /// What it has proven, for a leader.
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

/// Connections by thread and slot, so that finding one costs two indexings.
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

    /// All that are there, with their handshakes.
    pub(super) fn all(&self) -> impl Iterator<Item = (ConnId, Option<&Handshake>)> {
        self.0.iter().flatten().flatten().map(|conn| (conn.id, conn.handshake.as_deref()))
    }
}

/// Until when a connection had to wait. A client that waits for us is not silent: its connection may not be read until it
/// has its answers.
pub(super) fn waited_ms(conns: &Conns, own: &OwnWrites, now: Now) -> impl Fn(ConnId) -> Option<i64> {
    move |conn| {
        let conn = conns.get(conn)?;
        if own.has(conn.last_write?) { Some(now.mono_ms) } else { conn.answered_ms }
    }
}
