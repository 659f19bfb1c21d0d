//! The replica as a member of an ensemble: input for the [`QuorumPeer`], its effects on log, state and clients, and the
//! changes of the role.
//!
//! ```text
//! packets, disk, time ──> QuorumPeer ──Effect──> perform ──> log, commits, roles, clients
//!                                                  └──────> take_effects: sockets, disk jobs, files (for the driver)
//! ```
//! A learner forwards writes and syncs to its leader from here, and reports touched sessions in its replies to pings.
//! What the leader does with packets of learners needs the state, so it waits for [`Replica::settle`]: requests are
//! handled in `forwarded_requests.rs`, revalidations here. An observer master passes both on (`observer_relay.rs`).

#![expect(clippy::wildcard_enum_match_arm, reason = "only a few of the messages concern clients")]

use super::observer_relay::ObserverSessions;
use super::pending_requests::{PendingWrite, Reply};
use super::proposals::{Proposal, Proposer};
use super::revalidations::Revalidations;
use super::session_txns::Granted;
use super::syncs::SyncWaiter;
use super::{Replica, Role, Zab};
use crate::ConnId;
use crate::clock::Now;
use crate::limits::{BODIES_BYTES, ENTRY_BYTES};
use crate::outbox::Outboxes;
use crate::sessions::{LastSeen, Sessions};
use crate::submission::{ClientInput, Submission};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::quorum::identities::RawIds;
use ox_proto::txn::Record;
use ox_proto::{ErrorCode, Jute, OpCode, SessionId, Zxid};
use ox_tree::{PendingChanges, State};
use ox_zab::{
    DiskDone, DiskJob, Effect, Effects, ElectionConnection, EncodedTxn, Input as PeerInput, Learner, LinkId, Message,
    PeerState, QuorumPeer, Reason, Request, ServerId, Traffic, VoteNotification,
};
use std::sync::Arc;

/// Identities of requests that the server makes itself.
pub(super) const NO_IDS: Bytes = Bytes::from_static(RawIds::NULL.bytes());

/// Work that needs the state, which the caller passes to [`Replica::settle`].
#[derive(Debug)]
pub(super) enum Todo {
    Request(LinkId, Request),
    Revalidate(LinkId, SessionId, i32),
    /// A learner's link was closed. Its earlier requests remain valid.
    Gone(LinkId),
    /// The leader's reply to a revalidation.
    Revalidated(SessionId, bool),
    /// This server has proven that it leads, and the client's session has expired.
    Refuse(ConnId, Option<bool>),
    /// This server has proven that it leads, and the client's session is committed.
    Resume(ConnId, Granted),
    /// The reply to a reconfiguration may be sent.
    ConfigReply,
    /// Clients are served again, or the state is newer: process handshakes that waited for it.
    Handshakes,
    /// The role has ended: close all client connections.
    CloseAll,
    Close(ConnId),
}

impl Replica {
    pub(super) fn is_member(&self) -> bool {
        matches!(self.zab, Zab::Member(_))
    }

    pub fn start(&mut self, now: Now) {
        self.peer(now, PeerInput::Start);
    }

    pub fn as_peer(&self) -> Option<&QuorumPeer> {
        if let Zab::Member(peer) = &self.zab { Some(peer) } else { None }
    }

    fn learner(&self) -> Option<&Learner> {
        self.as_peer().and_then(|peer| peer.role().learner())
    }

    /// None for a standalone server.
    pub fn peer_state(&self) -> Option<PeerState> {
        self.as_peer().map(|peer| peer.status().state)
    }

    /// Whether clients are served with reads and writes.
    pub fn is_serving(&self) -> bool {
        matches!(self.role, Role::Leader | Role::Learner(_))
    }

    /// The same, but false for a leader with `leaderServes=no`.
    pub fn takes_clients(&self) -> bool {
        self.is_serving() && (self.leader_serves || self.role != Role::Leader)
    }

    pub fn on_notification(&mut self, now: Now, from: ServerId, note: VoteNotification) {
        self.peer(now, PeerInput::Notification(from, note));
    }

    pub fn on_config(&mut self, now: Now, from: ServerId, ensemble: Arc<Ensemble>) {
        self.peer(now, PeerInput::Config(from, ensemble));
    }

    pub fn on_election_link(&mut self, now: Now, server: ServerId, link: ElectionConnection) {
        self.peer(now, PeerInput::ElectionLink(server, link));
    }

    pub fn on_dialed(&mut self, now: Now, leader: ServerId, link: Option<LinkId>) {
        self.peer(now, PeerInput::Dialed(leader, link));
    }

    pub fn on_link(&mut self, now: Now, link: LinkId) {
        self.peer(now, PeerInput::LinkOpened(link));
    }

    /// The link to a peer was closed. [`Self::settle`] follows.
    pub fn on_link_gone(&mut self, now: Now, link: LinkId) {
        self.todo.push_back(Todo::Gone(link));
        self.peer(now, PeerInput::LinkClosed(link));
    }

    pub fn on_traffic(&mut self, now: Now, link: LinkId, moved: Traffic) {
        self.peer(now, PeerInput::Traffic(link, moved));
    }

    /// The socket of a link accepted packets; `bytes` is the sum of their [`Message::flow_bytes`].
    pub fn on_sent(&mut self, now: Now, link: LinkId, bytes: usize) {
        self.peer(now, PeerInput::Sent(link, bytes));
    }

    /// Whether packets of a link are accepted now; otherwise they have to wait.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        self.as_peer().is_none_or(|peer| peer.takes_packets(link))
    }

    /// A packet of a peer arrived. [`Self::settle`] follows.
    pub fn on_message(&mut self, now: Now, link: LinkId, message: Message) {
        if let Message::Proposal(txn) | Message::Inform(txn) | Message::InformAndActivate(txn, _) = &message
            && !is_readable(txn)
        {
            // A logged transaction has to be applied later, here and after every restart.
            let reason = Reason::Violation(format!("transaction {} cannot be decoded", txn.zxid));
            return self.peer(now, PeerInput::Violation(link, reason));
        }
        self.peer(now, PeerInput::Packet(link, message));
    }

    /// The on-disk log contains what a learner lacks before `below`, or does not.
    pub fn on_log_read(&mut self, now: Now, link: LinkId, below: Option<Zxid>) {
        self.peer(now, PeerInput::LogRead(link, below));
    }

    /// The leader's snapshot was received completely.
    pub fn on_snapshot_received(&mut self, now: Now, state: State) {
        self.snapshot = Some(Box::new(state));
        self.peer(now, PeerInput::SnapshotReceived);
    }

    pub fn on_done(&mut self, now: Now, done: DiskDone) {
        if let DiskDone::Installed(zxid) | DiskDone::Truncated(Some(zxid)) = done {
            (self.durable, self.committed) = (zxid, zxid);
            self.proposals.clear(); // the state was recovered again
        }
        self.peer(now, PeerInput::Done(done));
    }

    /// The leader's snapshot, which replaces the state.
    pub fn take_snapshot(&mut self) -> Option<State> {
        self.installing.take().map(|snapshot| *snapshot)
    }

    /// Effects for the driver, in order.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    pub fn has_orders(&self) -> bool {
        !self.effects.is_empty() || self.is_unsettled()
    }

    /// Whether the link carries a snapshot now.
    pub fn is_receiving_snapshot(&self, link: LinkId) -> bool {
        self.learner().is_some_and(|learner| learner.link() == link && learner.is_receiving_snapshot())
    }

    pub fn step_down(&mut self, now: Now, reason: Reason) {
        self.peer(now, PeerInput::StepDown(reason));
    }

    /// Whether [`Self::settle`] has something to do.
    pub fn is_unsettled(&self) -> bool {
        !self.todo.is_empty() && self.begins_at.is_none()
    }

    /// Handles what peers have requested. While a role is about to begin, requests wait: learners may be faster than
    /// their leader.
    pub fn settle(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        if self.begins_at.is_some() {
            return;
        }
        for todo in std::mem::take(&mut self.todo) {
            match todo {
                Todo::Request(link, request) => match self.role {
                    Role::Learner(leader) => self.relay_request(now, leader, link, request),
                    _ => self.on_learner_request(now, link, &request, state),
                },
                Todo::Revalidate(link, session, timeout_ms) => {
                    if let Role::Learner(leader) = self.role {
                        self.relay_revalidate(now, leader, link, session, timeout_ms, out);
                        continue;
                    }
                    let old = self.sessions.conn(session);
                    let valid =
                        self.role == Role::Leader && self.sessions.move_to(session, timeout_ms, now.mono_ms, link);
                    // As between connections of one server, the last handshake takes the session.
                    old.filter(|_| valid).into_iter().for_each(|old| self.close(old, out));
                    // Compat: Apache's observer masters expect replies to revalidations in order.
                    let waits = !valid || !state.has_session(session) || self.syncs.has_revalidation_of(link);
                    if self.role == Role::Leader && waits {
                        self.confirm_leadership(SyncWaiter::Revalidation(link, session, valid));
                    } else {
                        self.send(link, Message::Revalidated(session, valid));
                    }
                }
                Todo::Gone(link) => self.observer_sessions.forget(link),
                Todo::Refuse(conn, read_only) => self.refuse(conn, read_only, out),
                Todo::Resume(conn, granted) => self.resume(conn, granted, out),
                Todo::Revalidated(session, valid) => self.on_revalidated(now, session, valid, out),
                Todo::Close(conn) => self.close(conn, out),
                Todo::ConfigReply => self.release_reply(now, state, out),
                Todo::Handshakes => self.take_handshakes(now, state, out),
                Todo::CloseAll => {
                    // Their watches are removed when they are closed, and may be read until then.
                    for conn in self.served_conns() {
                        self.close(conn, out);
                    }
                }
            }
        }
    }

    pub(super) fn peer(&mut self, now: Now, input: PeerInput) {
        self.now_ms = now.mono_ms;
        let Zab::Member(peer) = &mut self.zab else { return };
        let mut effects = std::mem::take(&mut self.spare_effects);
        peer.step(now.mono_ms, input, &mut effects);
        for effect in effects.drain(..) {
            self.perform(now, effect);
        }
        self.spare_effects = effects;
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Append(txn) => self.append(&txn),
            Effect::Commit(zxid) => self.committed = zxid.max(self.committed),
            Effect::ApplyToSnapshot(txn) => self.apply_to_snapshot(&txn),
            Effect::Established(epoch) => {
                self.last_proposed_zxid = epoch.start();
                self.begins_at = Some((Role::Leader, self.committed));
            }
            Effect::UpToDate(_) => {
                let link = self.learner().map(Learner::link);
                self.begins_at = link.map(|link| (Role::Learner(link), self.committed));
                self.pinged_ms = now.mono_ms;
            }
            Effect::StepDown(_) => {
                self.leave(now);
                self.effects.push(effect);
            }
            Effect::FromLearner(link, _, message) => self.on_learner(now, link, message),
            Effect::FromLeader(message) => self.on_leader(now, message),
            Effect::Synced(_) => match self.syncs.confirm(self.committed) {
                Some(SyncWaiter::Link(link)) => self.send(link, Message::Sync),
                Some(SyncWaiter::Revalidation(link, session, valid)) => {
                    self.send(link, Message::Revalidated(session, valid))
                }
                Some(SyncWaiter::ExpiredConn(conn, read_only)) => self.todo.push_back(Todo::Refuse(conn, read_only)),
                Some(SyncWaiter::ResumedConn(conn, granted)) => self.todo.push_back(Todo::Resume(conn, granted)),
                Some(SyncWaiter::Conn(..)) | None => (),
            },
            Effect::Disk(job) => {
                // Transactions that are to be truncated stay until they are: if truncation fails, they remain in the
                // log.
                if let DiskJob::Install(_) = job {
                    self.proposals.clear();
                    self.installing = self.snapshot.take();
                }
                self.effects.push(effect);
            }
            Effect::Looking => {
                self.on_looking(now);
                self.effects.push(effect);
            }
            Effect::ServeObservers => self.effects.push(effect),
            Effect::Dial(_) | Effect::Listen => {
                self.end_read_only();
                self.effects.push(effect);
            }
            Effect::Notify(..)
            | Effect::Send(..)
            | Effect::SendSnapshot(_)
            | Effect::ReadLog(..)
            | Effect::SendLogDiff(_)
            | Effect::Close(_)
            | Effect::ConfigProposed(_) => self.effects.push(effect),
            Effect::ActivateConfig(ref ensemble, _) => {
                self.config_reply.on_activate(ensemble.version());
                self.effects.push(effect);
            }
        }
    }

    pub(super) fn send(&mut self, link: LinkId, message: Message) {
        if let Zab::Member(peer) = &mut self.zab {
            peer.step(self.now_ms, PeerInput::Send(link, message), &mut self.effects);
        }
    }

    fn append(&mut self, txn: &EncodedTxn) {
        let span = self.proposals.log_mut().foreign(txn.zxid, &txn.record);
        self.last_proposed_zxid = txn.zxid;
        self.log_space.spend(span.len());
        self.proposals.push(Proposal::new(txn.zxid, span, Proposer::Leader));
    }

    fn apply_to_snapshot(&mut self, txn: &EncodedTxn) {
        if let (Some(snapshot), Ok(record)) = (&mut self.snapshot, Record::decode(&txn.record)) {
            snapshot.replay(&record);
        }
    }

    /// Drops all requests of the role that ends.
    fn leave(&mut self, now: Now) {
        if self.is_serving() {
            self.keep_handshakes(now);
        }
        (self.begins_at, self.snapshot) = (None, None);
        self.reconfigures_at = None;
        self.log_space.forget_leader();
        if self.role == Role::Leader {
            // These proposals were not sent. What a leader has sent is part of the history, and is logged.
            self.proposals.drop_open_batch();
        }
        self.end_read_only();
        self.role = Role::None;
        self.pending = PendingChanges::default();
        self.sessions = Sessions::new(self.tick_ms);
        self.pending_writes.clear();
        self.syncs.clear();
        self.revalidations = Revalidations::default();
        self.observer_sessions = ObserverSessions::default();
        self.todo.clear();
        if self.config_reply.on_leave() {
            self.todo.push_back(Todo::ConfigReply);
        }
        self.todo.push_back(Todo::CloseAll);
    }

    fn on_learner(&mut self, now: Now, link: LinkId, message: Message) {
        match message {
            Message::Request(request) => self.todo.push_back(Todo::Request(link, request)),
            Message::Revalidate(session, timeout_ms) => {
                self.todo.push_back(Todo::Revalidate(link, session, timeout_ms));
            }
            Message::Pong(_, touched) if self.role == Role::Leader => self.on_touched(now, link, &touched),
            Message::Pong(_, touched) => self.relay_touched(&touched),
            _ => (),
        }
    }

    fn on_leader(&mut self, now: Now, message: Message) {
        match message {
            Message::Ping(zxid) => self.reply_to_ping(now, zxid),
            Message::Revalidated(session, valid) => self.todo.push_back(Todo::Revalidated(session, valid)),
            Message::Sync => {
                if let Some(SyncWaiter::Link(link)) = self.syncs.confirm(self.committed) {
                    self.send(link, Message::Sync);
                }
            }
            _ => (),
        }
    }

    /// Reports the sessions that were touched since the last ping.
    fn reply_to_ping(&mut self, now: Now, zxid: Zxid) {
        let Some(link) = self.learner().map(Learner::link) else { return };
        let mut data = Vec::new();
        let mut heard = std::mem::take(&mut self.observer_sessions.touched);
        heard.extend(self.sessions.touched_since(self.pinged_ms));
        for (session, timeout_ms) in heard {
            session.put(&mut data);
            timeout_ms.put(&mut data);
        }
        self.pinged_ms = now.mono_ms;
        self.send(link, Message::Pong(zxid, data.into()));
    }

    /// Sends a write to the leader. It is replied to when its transaction is applied.
    pub(super) fn forward(&mut self, link: LinkId, op: OpCode, body: &[u8], ids: Bytes, own: PendingWrite) {
        let (session, cxid) = (own.session, own.cxid);
        self.wait_for(own, body.len() + ENTRY_BYTES);
        self.send_request(link, session, cxid, op, body, ids);
    }

    fn send_request(&mut self, link: LinkId, session: SessionId, cxid: i32, op: OpCode, body: &[u8], ids: Bytes) {
        // The bodies of a batch share one allocation.
        if self.bodies.capacity() < body.len() {
            self.bodies.reserve(BODIES_BYTES.max(body.len()));
        }
        self.bodies.extend_from_slice(body);
        let body = self.bodies.split().freeze();
        self.send(link, Message::Request(Request { session, cxid, op: op.code(), body, ids }));
    }

    /// Requests a proof of leadership, with all proposals committed, before a reply. Otherwise a client could learn
    /// that its session has expired although the expiry is only proposed or another server leads, or that it is alive
    /// although its creation is only proposed (P44).
    pub(super) fn confirm_leadership(&mut self, waiter: SyncWaiter) {
        let id = self.syncs.push(waiter);
        self.sync_peer(id);
    }

    fn sync_peer(&mut self, id: u64) {
        if let Zab::Member(peer) = &mut self.zab {
            peer.step(self.now_ms, PeerInput::Sync(id, self.last_proposed_zxid), &mut self.effects);
        }
    }

    pub(super) fn on_sync(
        &mut self,
        conn: ConnId,
        submission: Arc<Submission>,
        at: usize,
        state: &State,
        out: &mut Outboxes,
    ) {
        let Some(requester) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let (session, ids) = (requester.session, requester.encoded_ids());
        let ClientInput::Request { xid, op } = submission.entries[at].input else { return };
        if self.role == Role::ReadOnly {
            return self.reply_in_order(conn, Reply::Refused(xid, ErrorCode::NotReadOnly), state, out);
        }
        let body = Bytes::copy_from_slice(&submission.bytes[submission.entries[at].span.clone()]);
        let id = self.syncs.push(SyncWaiter::Conn(conn, (submission, at)));
        match self.role {
            Role::Leader => self.sync_peer(id),
            Role::Learner(link) => self.send_request(link, session, xid, op, &body, ids),
            _ => (),
        }
    }

    /// After transactions were applied: starts roles and replies to syncs.
    pub(super) fn on_applied(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        if !self.is_member() {
            return;
        }
        let reached = self.reached();
        if let Some((role, _)) = self.begins_at.take_if(|(_, from)| *from <= reached) {
            self.begin(now, role, state);
        } else if self.is_serving() && self.handshakes.are_due(state.last_zxid()) {
            self.todo.push_back(Todo::Handshakes);
        }
        self.peer(now, PeerInput::Applied(state.last_zxid()));
        while let Some((conn, (submission, at), behind)) = self.syncs.pop(reached) {
            self.reply_in_order(conn, Reply::Entry(submission, at), state, out);
            for (submission, at) in behind {
                self.take(now, &submission, at, state, out);
            }
        }
    }

    /// Every transaction up to this zxid that this server knows of is applied.
    fn reached(&self) -> Zxid {
        self.proposals.first_zxid().map_or(Zxid(i64::MAX), |first| Zxid(first.0 - 1))
    }

    /// Whether a role or a sync waits for a transaction that is applied already.
    pub(super) fn has_due_wait(&self) -> bool {
        let reached = self.reached();
        self.begins_at.is_some_and(|(_, from)| from <= reached) || self.syncs.is_due(reached)
    }

    fn begin(&mut self, now: Now, role: Role, state: &State) {
        self.role = role;
        self.todo.push_back(Todo::Handshakes);
        self.local.sessions.touch_all(now.mono_ms);
        if role == Role::Leader {
            for (session, timeout_ms) in state.sessions() {
                self.sessions.add(session, timeout_ms, now.mono_ms, LastSeen::default(), None);
            }
            for session in state.dead_owners() {
                self.propose_close(now, session, 0, Proposer::Server, state);
            }
        }
    }
}

/// Whether the record can be decoded and has the zxid of its proposal.
fn is_readable(txn: &EncodedTxn) -> bool {
    Record::decode(&txn.record).is_ok_and(|record| record.header.zxid == txn.zxid)
}
