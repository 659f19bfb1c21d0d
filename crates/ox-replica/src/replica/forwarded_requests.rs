//! The leader's handling of what learners send: forwarded requests, revalidations, and touched sessions.

use super::proposals::{Proposal, Proposer, digest, header};
use super::reconfig::ReconfigCheck;
use super::syncs::SyncWaiter;
use super::{Replica, Role};
use crate::clock::Now;
use crate::outbox::Outboxes;
use crate::sessions::LastSeen;
use ox_proto::quorum::identities::RawIds;
use ox_proto::quorum::payload::Touches;
use ox_proto::txn::Txn as Body;
use ox_proto::{ErrorCode, OpCode, Reader, SessionId};
use ox_tree::auth::Identities;
use ox_tree::ops::Prepared;
use ox_tree::{PendingView, State};
use ox_zab::{LinkId, Message, Request};
use std::sync::Arc;

/// The identities of the last request: the next one often has the same.
#[derive(Debug)]
pub(super) struct IdentityCache {
    encoded: Vec<u8>,
    ids: Arc<Identities>,
}

impl Default for IdentityCache {
    fn default() -> Self {
        Self { encoded: RawIds::NULL.bytes().to_vec(), ids: Arc::new(Identities::none()) }
    }
}

impl IdentityCache {
    fn identities(&mut self, encoded: &[u8]) -> Arc<Identities> {
        if self.encoded != encoded {
            let ids = RawIds::from_encoded(encoded).map_or_else(|_| Identities::none(), Identities::forwarded);
            (self.encoded, self.ids) = (encoded.to_vec(), Arc::new(ids));
        }
        Arc::clone(&self.ids)
    }
}

/// What a learner sends for its clients.
#[derive(Debug)]
pub(super) enum LearnerEvent {
    Request(Request),
    Revalidate(SessionId, i32),
    /// Its link was closed. Its earlier requests remain valid.
    Closed,
}

impl Replica {
    /// Replies whether a session that a learner's client names is alive. The learner owns it from then on.
    pub(super) fn on_learner_revalidate(
        &mut self,
        now: Now,
        link: LinkId,
        session: SessionId,
        timeout_ms: i32,
        state: &State,
        out: &mut Outboxes,
    ) {
        let old = self.sessions.conn(session);
        let valid = self.role == Role::Leader && self.sessions.move_to(session, timeout_ms, now.mono_ms, link);
        // As between connections of one server, the last handshake takes the session.
        old.filter(|_| valid).into_iter().for_each(|old| self.close(old, out));
        // Compat: Apache's observer masters expect replies to revalidations in order.
        let waits = !valid || !state.has_session(session) || self.syncs.has_revalidation_of(link);
        if self.role == Role::Leader && waits {
            self.confirm_leadership(now, SyncWaiter::Revalidation(link, session, valid));
        } else {
            self.send(now, link, Message::Revalidated(session, valid));
        }
    }

    /// Proposes what a learner's client requests. Every request becomes a transaction, if only an error, because the
    /// learner waits for it.
    pub(super) fn on_learner_request(&mut self, now: Now, link: LinkId, request: &Request, state: &State) {
        if self.role != Role::Leader {
            return;
        }
        let Request { session, cxid, op, body, ids } = request;
        let (session, cxid, proposer) = (*session, *cxid, Proposer::Learner(link));
        match OpCode::try_from(*op) {
            Ok(OpCode::Sync) => self.confirm_leadership(now, SyncWaiter::Link(link)),
            Ok(OpCode::CreateSession) => {
                let timeout_ms = Reader::new(body).get().unwrap_or_default();
                if self.propose_create_session(now, session, timeout_ms, proposer, state) {
                    // A quorum may commit the session, and its client may write, before the leader's own log is durable.
                    self.sessions.add(session, timeout_ms, now.mono_ms, LastSeen::default(), None);
                    self.sessions.move_to(session, timeout_ms, now.mono_ms, link);
                }
            }
            Ok(OpCode::CloseSession) => {
                if self.sessions.check_owner(session, link) == Err(ErrorCode::SessionMoved) {
                    return self.propose_error(now, session, cxid, ErrorCode::SessionMoved, proposer, state);
                }
                self.sessions.start_closing(session);
                self.propose_close(now, session, cxid, proposer, state);
            }
            Ok(op) => {
                let ids = self.identity_cache.identities(ids);
                let is_local = self.is_local_elsewhere(session);
                let owner = if is_local { Ok(()) } else { self.sessions.check_owner(session, link) };
                if owner.is_ok() && !self.log_space.writes().allow(op, body) {
                    return self.propose_error(now, session, cxid, ErrorCode::ThrottledOp, proposer, state);
                }
                self.prepare_for(now, (session, cxid, owner), (op, body), &ids, proposer, state);
            }
            Err(_) => self.propose_error(now, session, cxid, ErrorCode::Unimplemented, proposer, state),
        }
    }

    /// A learner reports touched sessions.
    pub(super) fn on_touched(&mut self, now: Now, link: LinkId, touched: &[u8]) {
        if let Ok(touches) = Reader::new(touched).get::<Touches<'_>>() {
            for touch in touches.iter() {
                self.sessions.touch_from(link, touch.session, touch.timeout_ms, now.mono_ms);
            }
        }
    }

    fn prepare_for(
        &mut self,
        now: Now,
        (session, cxid, owner): (SessionId, i32, Result<(), ErrorCode>),
        (op, body): (OpCode, &[u8]),
        ids: &Identities,
        proposer: Proposer,
        state: &State,
    ) {
        let Some(stamp) = self.stamp(now, session) else { return };
        let with_digest = state.options().digest_enabled;
        let mut view = PendingView::new(state, &mut self.pending, ids, stamp);
        if let Err(code) = owner {
            view.fail_session(code);
        }
        let change = ReconfigCheck {
            leader: self.peer.role().leader(),
            prepared: self.reconfigures_at,
            rules: self.change_rules,
        };
        let mut made = op;
        let span = self.proposals.log_mut().record(header(stamp, cxid), |out| {
            let kind = match change.prepare(&mut view, op, body, out) {
                Prepared::Txn(kind) => kind,
                Prepared::Refused(code) => {
                    Body::Error { err: code.code() }.put(out);
                    OpCode::Error
                }
            };
            made = kind;
            let digest = (with_digest && kind != OpCode::Error).then(|| digest(view.digest()));
            Some((kind.code(), digest))
        });
        if let Some(span) = span {
            self.note_reconfig(made, stamp.zxid);
            self.enter(Proposal::new(stamp.zxid, span, proposer));
        }
    }

    fn propose_error(
        &mut self,
        now: Now,
        session: SessionId,
        cxid: i32,
        code: ErrorCode,
        proposer: Proposer,
        state: &State,
    ) {
        self.propose(now, session, cxid, proposer, state, |_, out| {
            Body::Error { err: code.code() }.put(out);
            Some((OpCode::Error, None))
        });
    }
}
