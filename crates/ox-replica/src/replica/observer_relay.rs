//! The observer relay of a follower: passes requests of its observers to the leader, and the replies back in order.

use super::Replica;
use super::revalidations::{RequestedBy, Revalidating};
use super::syncs::SyncWaiter;
use crate::clock::Now;
use crate::limits::RELAYED_MAX;
use crate::outbox::Outboxes;
use bytes::Bytes;
use ox_proto::quorum::payload::Touches;
use ox_proto::request::PathVersion;
use ox_proto::{Jute, OpCode, Reader, SessionId};
use ox_zab::{Input as PeerInput, LinkId, Message, Reason, Request};
use std::collections::BTreeMap;

/// Sessions of the clients of this follower's observers.
#[derive(Debug, Default)]
pub(super) struct ObserverSessions {
    /// Sessions touched since the last ping of the leader, with their timeouts.
    pub(super) touched: BTreeMap<SessionId, i32>,
    /// The observer that owns a session; none after the session has left it. For the leader, this follower owns them
    /// all.
    pub(super) owners: BTreeMap<SessionId, Option<LinkId>>,
}

impl ObserverSessions {
    /// An observer was closed. Sessions moved to this observer do not move back.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.owners.values_mut().filter(|owner| **owner == Some(link)).for_each(|owner| *owner = None);
    }
}

impl Replica {
    /// Forwards a request. The observer receives the transaction like any other.
    pub(super) fn relay_request(&mut self, now: Now, leader: LinkId, link: LinkId, mut request: Request) {
        if request.op == OpCode::Sync.code() {
            if RELAYED_MAX <= self.syncs.len() {
                return self.close_observer(now, link);
            }
            self.syncs.push(SyncWaiter::Link(link));
        } else if request.op == OpCode::CreateSession.code() {
            self.observer_sessions.owners.insert(request.session, Some(link));
        } else if !self.is_owner(request.session, link) {
            // The observer waits for a transaction, so one has to be proposed: a delete of the root always fails.
            (request.op, request.body) = (OpCode::Delete.code(), root_deletion());
        }
        self.send(now, leader, Message::Request(request));
    }

    /// Asks the leader whether a session of an observer's client is alive.
    pub(super) fn relay_revalidate(
        &mut self,
        now: Now,
        leader: LinkId,
        link: LinkId,
        session: SessionId,
        timeout_ms: i32,
        out: &mut Outboxes,
    ) {
        if RELAYED_MAX <= self.revalidations.len() {
            return self.close_observer(now, link);
        }
        self.revalidate(now, leader, Revalidating { session, timeout_ms, by: RequestedBy::Observer(link) }, out);
    }

    /// Sessions that an observer reports as touched are reported with the follower's own. Not those that have left the
    /// observer: it does not know their timeout any more, and the leader cannot tell it from the owner.
    pub(super) fn relay_touched(&mut self, link: LinkId, touched: &[u8]) {
        let Ok(touches) = Reader::new(touched).get::<Touches<'_>>() else { return };
        for touch in touches.iter() {
            if self.is_owner(touch.session, link) {
                self.observer_sessions.touched.insert(touch.session, touch.timeout_ms);
            }
        }
    }

    /// Takes a session from its previous owner, a connection of this server or an observer. The previous owner may have
    /// lost it long ago without being notified. From the revalidation on, the leader considers this follower the owner
    /// again, and cannot tell the previous owner from the new one (P42).
    pub(super) fn evict_owner(&mut self, session: SessionId, out: &mut Outboxes) {
        self.observer_sessions.owners.get_mut(&session).into_iter().for_each(|owner| *owner = None);
        self.observer_sessions.touched.remove(&session);
        self.sessions.remove(session).into_iter().for_each(|old| self.close(old, out));
    }

    /// Whether an observer may write for a session: neither a connection of this server nor another observer has taken
    /// it. The leader cannot tell them apart (P42).
    fn is_owner(&self, session: SessionId, link: LinkId) -> bool {
        !self.sessions.is_known(session)
            && self.observer_sessions.owners.get(&session).is_none_or(|owner| *owner == Some(link))
    }

    /// Closes an observer that has too many requests in flight.
    fn close_observer(&mut self, now: Now, link: LinkId) {
        let reason = Reason::Violation("observer has too many requests in flight".to_owned());
        self.step_peer(now, PeerInput::Violation(link, reason));
    }
}

/// A request that every leader refuses.
fn root_deletion() -> Bytes {
    let mut body = Vec::new();
    PathVersion { path: Some("/".into()), version: -1 }.put(&mut body);
    body.into()
}
