//! What a follower does for the clients of its observers: the leader decides, and its answers come back in the order of
//! the questions.

use super::Replica;
use super::revalidations::{AskedBy, Revalidating};
use super::syncs::Asker;
use crate::clock::Now;
use crate::limits::RELAYED_MAX;
use bytes::Bytes;
use ox_proto::quorum::payload::Touches;
use ox_proto::request::PathVersion;
use ox_proto::{Jute, OpCode, Reader, SessionId};
use ox_tree::outbox::Outboxes;
use ox_zab::{LinkId, Message, Reason, Request};
use std::collections::BTreeMap;

/// What a follower knows of the clients of its observers.
#[derive(Debug, Default)]
pub(super) struct Relayed {
    /// Sessions that were heard of since the leader asked, with their timeouts.
    pub(super) heard: BTreeMap<SessionId, i32>,
    /// At which observers sessions are; none for those that have left one. For the leader they are all here.
    pub(super) homes: BTreeMap<SessionId, Option<LinkId>>,
}

impl Relayed {
    /// An observer is gone. Who has lost a session to it has lost it.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.homes.values_mut().filter(|home| **home == Some(link)).for_each(|home| *home = None);
    }
}

impl Replica {
    /// Hands a request on. Its transaction comes to the observer as everything does.
    pub(super) fn relay_request(&mut self, now: Now, leader: LinkId, link: LinkId, mut request: Request) {
        if request.op == OpCode::Sync.code() {
            if RELAYED_MAX <= self.syncs.len() {
                return self.give_up_observer(now, link);
            }
            self.syncs.push(Asker::Link(link));
        } else if request.op == OpCode::CreateSession.code() {
            self.relayed.homes.insert(request.session, Some(link));
        } else if !self.is_home(request.session, link) {
            // The observer waits for a transaction, so there has to be one: the root cannot be deleted.
            (request.op, request.body) = (OpCode::Delete.code(), root_deletion());
        }
        self.send(leader, Message::Request(request));
    }

    /// Asks the leader for a session that an observer's client has come with.
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
            return self.give_up_observer(now, link);
        }
        self.revalidate(leader, Revalidating { session, timeout_ms, by: AskedBy::Observer(link) }, out);
    }

    /// Sessions that an observer has heard of: the leader hears of them with the own ones.
    pub(super) fn relay_touched(&mut self, touched: &[u8]) {
        if let Ok(touches) = Reader::new(touched).get::<Touches<'_>>() {
            self.relayed.heard.extend(touches.iter().map(|touch| (touch.session, touch.timeout_ms)));
        }
    }

    /// Who names a session takes it, from a connection of this server and from an observer alike. They may have lost it
    /// long ago without hearing of it; but as soon as the leader is asked, it is here again, and the leader cannot tell
    /// them from the one that asks (P42).
    pub(super) fn take_away(&mut self, session: SessionId, out: &mut Outboxes) {
        self.relayed.homes.get_mut(&session).into_iter().for_each(|home| *home = None);
        self.sessions.remove(session).into_iter().for_each(|old| self.give_up(old, out));
    }

    /// Whether an observer may write for a session: nobody else has taken it, neither here nor at another observer. The
    /// leader cannot tell them apart (P42).
    fn is_home(&self, session: SessionId, link: LinkId) -> bool {
        !self.sessions.is_known(session) && self.relayed.homes.get(&session).is_none_or(|home| *home == Some(link))
    }

    /// It asks for more than anybody can answer.
    fn give_up_observer(&mut self, now: Now, link: LinkId) {
        let reason = Reason::Violation("an observer asks for too much".to_owned());
        self.peer(now, |peer, now_ms, out| peer.on_violation(now_ms, link, reason, out));
    }
}

/// A request that every leader refuses.
fn root_deletion() -> Bytes {
    let mut body = Vec::new();
    PathVersion { path: Some("/".into()), version: -1 }.put(&mut body);
    body.into()
}
