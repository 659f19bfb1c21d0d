//! The request pipeline: prepare, propose, log, apply.
//!
//! A write is prepared under a read lock of the state: it gets its zxid, and becomes a [`Proposal`] whose record is in
//! the open log batch. A flush hands the batch to the log and, on a leader, to the quorum peer, which sends it to the
//! followers. A committed and durable transaction is applied under the write lock, and replied to. Later requests of
//! its connection wait for it (`pending_requests.rs`). A learner forwards writes to its leader instead
//! (`forwarding.rs`).

use super::conn_states::ConnState;
use super::forwarding::NO_IDS;
use super::local_sessions::LocalWrite;
use super::pending_requests::{Origin, PendingWrite, Reply};
use super::proposals::{Proposal, Proposer, digest, header};
use super::reconfig::ReconfigCheck;
use super::{Replica, Role};
use crate::ConnId;
use crate::audit::{AuditEvent, AuditRequest};
use crate::clock::Now;
use crate::effects::{ReplicaEffect, ReplicaEffects};
use crate::limits::{APPLIED_AT_ONCE_BYTES, APPLIED_AT_ONCE_MAX, LOG_BATCH_BYTES};
use crate::outbox::Outboxes;
use crate::slow_writes::WriteTimes;
use crate::submission::{ClientInput, Submission};
use ox_proto::txn::{Record, TxnHeader};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use ox_tree::ops::{self, Prepared};
use ox_tree::prefetch::BATCH;
use ox_tree::{PendingView, State, WriteStamp, read};
use ox_zab::{Input as PeerInput, Reason};
use std::sync::Arc;

impl Replica {
    /// Handles the requests that connections have submitted.
    pub(super) fn on_submission(&mut self, now: Now, submission: Submission, state: &State, out: &mut ReplicaEffects) {
        let submission = Arc::new(submission);
        for at in 0..submission.entries.len() {
            if at.is_multiple_of(BATCH) {
                state.prefetch(submission.paths_from(at));
            }
            self.take(now, &submission, at, state, &mut out.outboxes);
            self.perform_effects(now, state, out);
        }
        self.held.hold(&submission);
    }

    pub(super) fn take(
        &mut self,
        now: Now,
        submission: &Arc<Submission>,
        at: usize,
        state: &State,
        out: &mut Outboxes,
    ) {
        let entry = &submission.entries[at];
        self.submitted_ms = submission.submitted_ms;
        match &entry.input {
            ClientInput::Connect { .. } => self.on_connect(now, entry.conn, &entry.input, state, out),
            ClientInput::Gone => self.on_gone(entry.conn, state),
            // The connection is about to be closed anyway.
            _ if self.role == Role::None => self.close(entry.conn, out),
            _ if self.syncs.blocks(entry.conn) => self.syncs.hold(entry.conn, Arc::clone(submission), at),
            ClientInput::Identified(ids) => {
                if let Some(conn) = self.conns.get_mut(entry.conn) {
                    conn.identify(Arc::clone(ids));
                }
            }
            ClientInput::Request { xid, op } if !read::is_read(*op) => {
                let body = &submission.bytes[entry.span.clone()];
                self.on_write(now, entry.conn, (*xid, *op, body), state, out);
            }
            ClientInput::Request { op: OpCode::Sync, .. } if self.has_peers => {
                self.on_sync(now, entry.conn, (Arc::clone(submission), at), state, out);
            }
            ClientInput::Throttled { xid } => {
                self.reply_in_order(entry.conn, Reply::Refused(*xid, ErrorCode::ThrottledOp), state, out);
            }
            ClientInput::Request { .. } | ClientInput::Reply | ClientInput::ReplyAndClose => {
                let what = Reply::Entry(Arc::clone(submission), at);
                self.reply_in_order(entry.conn, what, state, out);
            }
        }
    }

    fn on_write(&mut self, now: Now, conn: ConnId, request: (i32, OpCode, &[u8]), state: &State, out: &mut Outboxes) {
        let (xid, op, body) = request;
        let Some(requester) = self.conns.get(conn).filter(|conn| conn.may_write()) else { return };
        let (session, ids) = (requester.session, Arc::clone(&requester.ids));
        let is_local = self.local.sessions.is_known(session);
        if is_local && op == OpCode::CloseSession {
            return self.close_local(conn, xid, state, out);
        }
        let audit = if self.audits { AuditRequest::new(session, &ids, op, body).map(Box::new) } else { None };
        if let Some(code) = self.refusal(now, op, body) {
            self.refused_audit.extend(audit.map(|audit| audit.failed()));
            return self.reply_in_order(conn, Reply::Refused(xid, code), state, out);
        }
        let mut own = PendingWrite::new(session, xid, Origin::Request(conn));
        own.audit = audit;
        own.times = WriteTimes { submitted_ms: self.submitted_ms, prepared_ms: now.mono_ms };
        if is_local {
            match self.before_local_write(now, conn, session, (op, body), state) {
                LocalWrite::Proceed => (),
                LocalWrite::RefuseEphemerals(code) => own.no_ephemerals = Some(code),
                LocalWrite::Drop => return,
            }
        }
        if let Role::Learner(link) = self.role {
            let ids = self.conns.get_mut(conn).map_or(NO_IDS, ConnState::encoded_ids);
            return self.forward(now, link, (op, body, ids), own);
        }
        if op == OpCode::CloseSession {
            self.sessions.start_closing(session);
            if self.propose_close(now, session, xid, Proposer::Client, state) {
                self.wait_for(own, 0);
            }
            return;
        }
        let (mut refused, mut made) = (None, op);
        let Some(stamp) = self.stamp(now, session) else { return };
        let digest_enabled = state.options().digest_enabled;
        let mut view = PendingView::new(state, &mut self.pending, &ids, stamp);
        own.no_ephemerals.into_iter().for_each(|code| view.fail_ephemerals(code));
        let header = header(stamp, xid);
        let change = ReconfigCheck {
            leader: self.peer.role().leader().filter(|_| self.has_peers),
            prepared: self.reconfigures_at,
            rules: self.change_rules,
        };
        let span = self.proposals.log_mut().record(header, |out| match change.prepare(&mut view, op, body, out) {
            Prepared::Txn(kind) => {
                made = kind;
                let digest = (digest_enabled && kind != OpCode::Error).then(|| digest(view.digest()));
                Some((kind.code(), digest))
            }
            Prepared::Refused(code) => {
                refused = Some(code);
                None
            }
        });
        if let Some(over) = view.take_quota_exceeded() {
            self.counters.over_quota(over);
        }
        match (span, refused) {
            (Some(span), _) => {
                self.note_reconfig(made, stamp.zxid);
                self.enter(Proposal::new(stamp.zxid, span, Proposer::Client));
                self.wait_for(own, 0);
            }
            (None, Some(code)) => {
                self.refused_audit.extend(own.audit.map(|audit| audit.failed()));
                self.reply_in_order(conn, Reply::Refused(xid, code), state, out);
            }
            (None, None) => unreachable!("a write is proposed or refused"),
        }
    }

    /// Why this server cannot execute a write now, whatever the state contains.
    fn refusal(&self, now: Now, op: OpCode, body: &[u8]) -> Option<ErrorCode> {
        match self.role {
            Role::ReadOnly => Some(ErrorCode::NotReadOnly),
            Role::Learner(_) if self.log_space.leader_refuses(now, op, body) => Some(ErrorCode::ThrottledOp),
            Role::Learner(_) => ops::check_body(op, body).err(),
            Role::Leader if op == OpCode::CloseSession || self.log_space.writes().allow(op, body) => None,
            Role::Leader | Role::None => Some(ErrorCode::ThrottledOp),
        }
    }

    /// Zxid and time of the next transaction. None if the epoch has no zxid left; the leader then steps down.
    pub(super) fn stamp(&mut self, now: Now, session: SessionId) -> Option<WriteStamp> {
        let next = self.peer.role().leader()?.zxid_after(self.last_proposed_zxid);
        let Some(zxid) = next.filter(|next| next.counter() <= self.counter_max) else {
            self.step_peer(now, PeerInput::StepDown(Reason::ZxidRollover));
            return None;
        };
        Some(WriteStamp { zxid, time_ms: now.wall_ms, session })
    }

    /// Proposes a transaction of the server itself. False if there is nothing to propose.
    pub(super) fn propose(
        &mut self,
        now: Now,
        session: SessionId,
        cxid: i32,
        proposer: Proposer,
        state: &State,
        put_body: impl FnOnce(&mut PendingView<'_>, &mut Vec<u8>) -> Option<(OpCode, Option<i64>)>,
    ) -> bool {
        let Some(stamp) = self.stamp(now, session) else { return false };
        let mut view = PendingView::new(state, &mut self.pending, &self.server_ids, stamp);
        let with_digest = state.options().digest_enabled;
        let span = self.proposals.log_mut().record(header(stamp, cxid), |out| {
            let (kind, tree_digest) = put_body(&mut view, out)?;
            Some((kind.code(), tree_digest.filter(|_| with_digest).map(digest)))
        });
        let Some(span) = span else { return false };
        self.enter(Proposal::new(stamp.zxid, span, proposer));
        true
    }

    pub(super) fn enter(&mut self, proposal: Proposal) {
        self.last_proposed_zxid = proposal.zxid;
        self.log_space.spend(proposal.span.len());
        self.proposals.push(proposal);
    }

    /// Registers a write that is replied to when it is applied. It holds `bytes` until then.
    pub(super) fn wait_for(&mut self, own: PendingWrite, bytes: usize) {
        let conn = own.origin.conn();
        let number = self.pending_writes.push(own, bytes);
        if let Some(conn) = self.conns.get_mut(conn) {
            conn.last_write = Some(number);
        }
    }

    /// Hands prepared transactions over to the log, and proposes them.
    pub(super) fn flush(&mut self, now: Now, out: &mut ReplicaEffects) {
        let is_new = self.hand_over_log(out);
        if self.role != Role::Leader {
            return;
        }
        self.step_peer(
            now,
            match (self.has_peers, is_new) {
                (false, _) => PeerInput::ProposeUpTo(self.last_proposed_zxid),
                (true, true) => PeerInput::Propose(self.proposals.last_handed()),
                // An empty proposal still ends the batch, so that syncs are replied to.
                (true, false) => PeerInput::Propose(Vec::new()),
            },
        );
    }

    /// Hands the open log batch over. False if it is empty.
    pub(super) fn hand_over_log(&mut self, out: &mut ReplicaEffects) -> bool {
        let batch = self.proposals.take_log();
        let is_new = batch.is_some();
        batch.into_iter().for_each(|batch| out.push(ReplicaEffect::Log(batch)));
        is_new
    }

    /// Whether the open log batch is large enough to be handed over.
    pub(super) fn log_is_full(&self) -> bool {
        LOG_BATCH_BYTES <= self.proposals.log_bytes()
    }

    pub(super) fn on_durable(&mut self, now: Now, zxid: Zxid) {
        self.durable = zxid.max(self.durable);
        self.step_peer(now, PeerInput::Durable(zxid));
    }

    pub(super) fn has_applicable(&self) -> bool {
        let first = self.proposals.first_zxid().filter(|_| !self.config_reply.is_held());
        first.is_some_and(|zxid| zxid <= self.committed.min(self.durable))
    }

    /// Applies committed transactions in order and replies to them. Returns how many; to be called again while
    /// [`Self::has_committed`].
    pub fn apply(&mut self, now: Now, state: &mut State, out: &mut ReplicaEffects) -> usize {
        let (mut applied, mut bytes) = (0, 0);
        self.replies_left = out.replies_max;
        while self.has_applicable() && applied < APPLIED_AT_ONCE_MAX && bytes < APPLIED_AT_ONCE_BYTES {
            let before = out.outboxes.bytes();
            let (proposal, log) = self.proposals.pop().expect("there is a first one");
            let record = Record::decode(&log.bytes[proposal.span.clone()]).expect("own records decode");
            if self.audits && record.header.kind == OpCode::CloseSession.code() {
                audit_ephemerals(state, record.header.session, &mut out.audit);
            }
            let outcome = state.apply(&record, self.pending.applied(proposal.zxid), &mut out.outboxes);
            self.counters.propagation_ms.note(now.wall_ms.saturating_sub(record.header.time_ms), 1);
            self.counters.writes.note_write(&record.txn);
            self.digest_mismatches += u64::from(outcome.digest_differs);
            let TxnHeader { session, cxid, .. } = record.header;
            let own = match proposal.proposer {
                Proposer::Client => self.pending_writes.pop(),
                Proposer::Leader => self.pending_writes.pop_match(session, cxid),
                Proposer::Server | Proposer::Learner(_) => None,
            };
            if let Some(mut own) = own {
                self.counters.slow_writes.note(own.times, &record, now.mono_ms);
                if let Some(audit) = own.audit.take() {
                    audit.applied(&record.txn, &mut out.audit);
                }
                if let Some(own) = self.hold_reply(own, &record, &outcome.applied) {
                    self.reply(now, &own, &record, &outcome.applied, &mut out.outboxes);
                    self.reply_all(own.waiting, state, &mut out.outboxes);
                }
            } else if record.header.kind == OpCode::CloseSession.code() {
                self.on_closed(session, None, &record, &outcome.applied, &mut out.outboxes);
            }
            applied += 1;
            bytes += proposal.span.len() + out.outboxes.bytes() - before;
        }
        self.on_applied(now, state, out);
        applied
    }
}

/// Records the ephemeral nodes of a session that is about to be closed.
fn audit_ephemerals(state: &State, session: SessionId, events: &mut Vec<AuditEvent>) {
    let mut paths: Vec<String> = state.ephemerals_of(session).collect();
    paths.sort_unstable();
    events.extend(paths.into_iter().map(|path| AuditEvent::ephemeral(session, path)));
}
