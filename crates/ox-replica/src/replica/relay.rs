//! What a follower does for the clients of its observers: the leader decides, and its answers come back in the order of
//! the questions.

use super::Replica;
use super::member::{AskedBy, Revalidating};
use super::syncs::Asker;
use crate::clock::Now;
use crate::limits::RELAYED_MAX;
use ox_proto::quorum::payload::Touches;
use ox_proto::{OpCode, Reader, SessionId};
use ox_zab::{LinkId, Message, Reason, Request};

impl Replica {
    /// Hands a request on. Its transaction comes to the observer as everything does.
    pub(super) fn relay_request(&mut self, now: Now, leader: LinkId, link: LinkId, request: Request) {
        if request.op == OpCode::Sync.code() {
            if RELAYED_MAX <= self.syncs.len() {
                return self.give_up_observer(now, link);
            }
            self.syncs.push(Asker::Link(link));
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
    ) {
        if RELAYED_MAX <= self.revalidating.len() {
            return self.give_up_observer(now, link);
        }
        self.revalidate(leader, Revalidating { session, timeout_ms, by: AskedBy::Observer(link) });
    }

    /// Sessions that an observer has heard of: the leader hears of them with the own ones.
    pub(super) fn relay_touched(&mut self, touched: &[u8]) {
        if let Ok(touches) = Reader::new(touched).get::<Touches<'_>>() {
            self.relayed.extend(touches.iter().map(|touch| (touch.session, touch.timeout_ms)));
        }
    }

    /// It asks for more than anybody can answer.
    fn give_up_observer(&mut self, now: Now, link: LinkId) {
        let reason = Reason::Violation("an observer asks for too much".to_owned());
        self.peer(now, |peer, now_ms, out| peer.on_violation(now_ms, link, reason, out));
    }
}
