//! A replica as member of an ensemble: its role comes and goes, and with it everything it has promised its clients.

#![expect(clippy::wildcard_enum_match_arm, reason = "what ox-zab hands on is a few of two dozen messages")]

use super::observer_relay::Relayed;
use super::pending_requests::{Own, What};
use super::proposals::{Maker, Proposal};
use super::revalidations::Revalidations;
use super::session_txns::Granted;
use super::syncs::Asker;
use super::{Replica, Role, Zab};
use crate::clock::Now;
use crate::limits::{BODIES_BYTES, ITEM_BYTES};
use crate::sessions::{Sessions, Touch};
use crate::submission::{Ask, Submission};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::quorum::identities::RawIds;
use ox_proto::txn::Record;
use ox_proto::{ErrorCode, Jute, OpCode, SessionId, Zxid};
use ox_tree::outbox::Outboxes;
use ox_tree::{ConnId, PendingChanges, State};
use ox_zab::{
    DiskDone, DiskJob, Effect, Effects, ElectionConnection, EncodedTxn, LinkId, Message, PeerState, QuorumPeer, Reason,
    Request, ServerId, Traffic, VoteNotification,
};
use std::sync::Arc;

/// What requests of the server itself come with.
pub(super) const NO_IDS: Bytes = Bytes::from_static(RawIds::NULL.bytes());

/// What is left to do with the state at hand.
#[derive(Debug)]
pub(super) enum Todo {
    /// A learner's request.
    Request(LinkId, Request),
    /// A learner asks for a session.
    Revalidate(LinkId, SessionId, i32),
    /// A learner is gone. What it has asked for before that still stands.
    Gone(LinkId),
    /// A session's fate, from the leader.
    Revalidated(SessionId, bool),
    /// A client's session is gone, and this server leads.
    Refuse(ConnId, Option<bool>),
    /// A client's session is agreed on, and this server leads.
    Resume(ConnId, Granted),
    /// The reply to a change of the ensemble need not wait any longer.
    ConfigReply,
    /// Clients are served again, or the state is newer: reply to handshakes that have waited for it.
    Handshakes,
    /// The role is over: all clients are sent away.
    HangUp,
    /// One of them is.
    GiveUp(ConnId),
}

impl Replica {
    pub(super) fn is_member(&self) -> bool {
        matches!(self.zab, Zab::Member(_))
    }

    /// Starts to look for a leader.
    pub fn start(&mut self, now: Now) {
        self.peer(now, |peer, now_ms, out| peer.start(now_ms, out));
    }

    /// As member of an ensemble.
    pub fn as_peer(&self) -> Option<&QuorumPeer> {
        if let Zab::Member(peer) = &self.zab { Some(peer) } else { None }
    }

    /// What this member is doing; none for a server that is alone.
    pub fn peer_state(&self) -> Option<PeerState> {
        self.as_peer().map(QuorumPeer::state)
    }

    /// Whether clients are served, and not only with reads.
    pub fn is_serving(&self) -> bool {
        matches!(self.role, Role::Leader | Role::Learner(_))
    }

    /// The same, unless it leads and is told not to.
    pub fn takes_clients(&self) -> bool {
        self.is_serving() && (self.leader_serves || self.role != Role::Leader)
    }

    /// A server says something on the election port.
    pub fn on_notification(&mut self, now: Now, from: ServerId, note: VoteNotification) {
        self.peer(now, |peer, now_ms, out| peer.on_notification(now_ms, from, note, out));
    }

    /// A server says which configuration is in force.
    pub fn on_config(&mut self, now: Now, from: ServerId, ensemble: Arc<Ensemble>) {
        self.peer(now, |peer, now_ms, out| peer.on_config(now_ms, from, ensemble, out));
    }

    /// An election connection has come up or gone down.
    pub fn on_election_link(&mut self, now: Now, server: ServerId, link: ElectionConnection) {
        self.peer(now, |peer, now_ms, out| peer.on_election_link(now_ms, server, link, out));
    }

    /// A dial to `leader` has succeeded or failed.
    pub fn on_dialed(&mut self, now: Now, leader: ServerId, link: Option<LinkId>) {
        self.peer(now, |peer, now_ms, out| peer.on_dialed(now_ms, leader, link, out));
    }

    /// A learner has connected.
    pub fn on_link(&mut self, now: Now, link: LinkId) {
        self.peer(now, |peer, now_ms, out| peer.on_link(now_ms, link, out));
    }

    /// A connection to a peer is gone. [`Self::settle`] follows.
    pub fn on_link_gone(&mut self, now: Now, link: LinkId) {
        self.todo.push_back(Todo::Gone(link));
        self.peer(now, |peer, now_ms, out| peer.on_link_gone(now_ms, link, out));
    }

    /// Bytes have come from a peer or gone to it.
    pub fn on_progress(&mut self, now: Now, link: LinkId, moved: Traffic) {
        self.peer(now, |peer, now_ms, _| peer.on_traffic(now_ms, link, moved));
    }

    /// The socket of a link has taken packets, so many bytes by [`Message::flow_bytes`].
    pub fn on_sent(&mut self, now: Now, link: LinkId, bytes: usize) {
        self.peer(now, |peer, now_ms, out| peer.on_sent(now_ms, link, bytes, out));
    }

    /// Whether a link's packets are taken now; others wait.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        self.as_peer().is_none_or(|peer| peer.takes_packets(link))
    }

    /// A packet of a peer. [`Self::settle`] follows.
    pub fn on_message(&mut self, now: Now, link: LinkId, message: Message) {
        if let Message::Proposal(txn) | Message::Inform(txn) | Message::InformAndActivate(txn, _) = &message
            && !is_readable(txn)
        {
            // What is logged must be applied one day, here and at every start.
            let reason = Reason::Violation(format!("{} cannot be read", txn.zxid));
            return self.peer(now, |peer, now_ms, out| peer.on_violation(now_ms, link, reason, out));
        }
        self.peer(now, |peer, now_ms, out| peer.on_message(now_ms, link, message, out));
    }

    /// The stored log has what a learner lacks before `below`; none if it has not.
    pub fn on_looked_up(&mut self, now: Now, link: LinkId, below: Option<Zxid>) {
        self.peer(now, |peer, now_ms, out| peer.on_log_read(now_ms, link, below, out));
    }

    /// The leader's whole state has come in.
    pub fn on_loaded(&mut self, now: Now, state: State) {
        self.staged = Some(Box::new(state));
        self.peer(now, |peer, now_ms, _| peer.on_snapshot_received(now_ms));
    }

    /// The disk has finished a job.
    pub fn on_done(&mut self, now: Now, done: DiskDone) {
        if let DiskDone::Installed(zxid) | DiskDone::Truncated(Some(zxid)) = done {
            (self.durable, self.committed) = (zxid, zxid);
            self.proposals.clear(); // the state has been read anew
        }
        self.peer(now, |peer, now_ms, out| peer.on_done(now_ms, done, out));
    }

    /// The state that a leader sent, to be put in the place of the old one.
    pub fn take_staged(&mut self) -> Option<State> {
        self.installing.take().map(|staged| *staged)
    }

    /// What the driver has to do, in order.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// Whether there is something for the driver to do.
    pub fn has_orders(&self) -> bool {
        !self.effects.is_empty() || self.is_unsettled()
    }

    /// Whether a link is the one on which the leader's state comes in.
    pub fn is_loading(&self, link: LinkId) -> bool {
        let learner = self.as_peer().and_then(QuorumPeer::learner);
        learner.is_some_and(|learner| learner.link() == link && learner.is_receiving_snapshot())
    }

    /// Gives up the role.
    pub fn step_down(&mut self, now: Now, reason: Reason) {
        self.peer(now, |peer, now_ms, out| peer.step_down(now_ms, reason, out));
    }

    /// Whether [`Self::settle`] has something to do.
    pub fn is_unsettled(&self) -> bool {
        !self.todo.is_empty() && self.begins.is_none()
    }

    /// Does what peers have asked for. Who is about to serve makes them wait until then: learners may be quicker than
    /// their leader.
    pub fn settle(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        if self.begins.is_some() {
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
                    // As among connections of one server: who names a session takes it.
                    old.filter(|_| valid).into_iter().for_each(|old| self.give_up(old, out));
                    // Compat: Apache's followers expect the answers to their observers' questions in order.
                    let waits = !valid || !state.has_session(session) || self.syncs.has_lives_at(link);
                    if self.role == Role::Leader && waits {
                        self.prove(Asker::LivesAt(link, session, valid));
                    } else {
                        self.send(link, Message::Revalidated(session, valid));
                    }
                }
                Todo::Gone(link) => self.relayed.forget(link),
                Todo::Refuse(conn, read_only) => self.refuse(conn, read_only, out),
                Todo::Resume(conn, granted) => self.resume(conn, granted, out),
                Todo::Revalidated(session, valid) => self.on_revalidated(now, session, valid, out),
                Todo::GiveUp(conn) => self.give_up(conn, out),
                Todo::ConfigReply => self.release_reply(now, state, out),
                Todo::Handshakes => self.take_handshakes(now, state, out),
                Todo::HangUp => {
                    // Their watches go when they do: until then they may be asked for.
                    for conn in self.served_conns() {
                        self.give_up(conn, out);
                    }
                }
            }
        }
    }

    pub(super) fn peer(&mut self, now: Now, step: impl FnOnce(&mut QuorumPeer, i64, &mut Effects)) {
        let Zab::Member(peer) = &mut self.zab else { return };
        let mut effects = std::mem::take(&mut self.spare_effects);
        step(peer, now.mono_ms, &mut effects);
        peer.flush(now.mono_ms, &mut effects);
        for effect in effects.drain(..) {
            self.perform(now, effect);
        }
        self.spare_effects = effects;
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Append(txn) => self.append(&txn),
            Effect::Commit(zxid) => self.committed = zxid.max(self.committed),
            Effect::ApplyToSnapshot(txn) => self.stage(&txn),
            Effect::Established(epoch) => {
                self.last_made = epoch.start();
                self.begins = Some((Role::Leader, self.committed));
            }
            Effect::UpToDate(_) => {
                let link = self.as_peer().and_then(QuorumPeer::learner).map(ox_zab::Learner::link);
                self.begins = link.map(|link| (Role::Learner(link), self.committed));
                self.pinged_ms = now.mono_ms;
            }
            Effect::StepDown(_) => {
                self.leave(now);
                self.effects.push(effect);
            }
            Effect::FromLearner(link, _, message) => self.on_learner(now, link, message),
            Effect::FromLeader(message) => self.on_leader(now, message),
            Effect::Synced(_) => match self.syncs.confirm(self.committed) {
                Some(Asker::Link(link)) => self.send(link, Message::Sync),
                Some(Asker::LivesAt(link, session, valid)) => self.send(link, Message::Revalidated(session, valid)),
                Some(Asker::Gone(conn, read_only)) => self.todo.push_back(Todo::Refuse(conn, read_only)),
                Some(Asker::Lives(conn, granted)) => self.todo.push_back(Todo::Resume(conn, granted)),
                Some(Asker::Conn(..)) | None => (),
            },
            Effect::Disk(job) => {
                // What is to be cut stays until it is: if it cannot be, it is still a part of the history.
                if let DiskJob::Install(_) = job {
                    self.proposals.clear();
                    self.installing = self.staged.take();
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
            peer.send(link, message, &mut self.effects);
        }
    }

    fn append(&mut self, txn: &EncodedTxn) {
        let span = self.proposals.log_mut().foreign(txn.zxid, &txn.record);
        self.last_made = txn.zxid;
        self.log_room.spend(span.len());
        self.proposals.push(Proposal::new(txn.zxid, span, Maker::Leader));
    }

    fn stage(&mut self, txn: &EncodedTxn) {
        if let (Some(staged), Ok(record)) = (&mut self.staged, Record::decode(&txn.record)) {
            staged.replay(&record);
        }
    }

    /// Forgets everything that the role had promised.
    fn leave(&mut self, now: Now) {
        if self.is_serving() {
            self.keep_handshakes(now);
        }
        (self.begins, self.staged) = (None, None);
        self.reconfigures_at = None;
        self.log_room.forget_leader();
        if self.role == Role::Leader {
            // Nobody has heard of it. What a leader has sent is part of the history, and goes to the disk.
            self.proposals.drop_making();
        }
        self.end_read_only();
        self.role = Role::None;
        self.pending = PendingChanges::default();
        self.sessions = Sessions::new(self.tick_ms);
        self.own.clear();
        self.syncs.clear();
        self.revalidations = Revalidations::default();
        self.relayed = Relayed::default();
        self.todo.clear();
        if self.config_reply.on_leave() {
            self.todo.push_back(Todo::ConfigReply);
        }
        self.todo.push_back(Todo::HangUp);
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
            Message::Ping(zxid) => self.answer_ping(now, zxid),
            Message::Revalidated(session, valid) => self.todo.push_back(Todo::Revalidated(session, valid)),
            Message::Sync => {
                if let Some(Asker::Link(link)) = self.syncs.confirm(self.committed) {
                    self.send(link, Message::Sync);
                }
            }
            _ => (),
        }
    }

    /// Tells the leader which sessions were heard of since it last asked.
    fn answer_ping(&mut self, now: Now, zxid: Zxid) {
        let Some(link) = self.as_peer().and_then(QuorumPeer::learner).map(ox_zab::Learner::link) else { return };
        let mut data = Vec::new();
        let mut heard = std::mem::take(&mut self.relayed.heard);
        heard.extend(self.sessions.heard_since(self.pinged_ms));
        for (session, timeout_ms) in heard {
            session.put(&mut data);
            timeout_ms.put(&mut data);
        }
        self.pinged_ms = now.mono_ms;
        self.send(link, Message::Pong(zxid, data.into()));
    }

    /// Sends a write to the leader; it is answered when it comes back.
    pub(super) fn forward(&mut self, link: LinkId, op: OpCode, body: &[u8], ids: Bytes, own: Own) {
        let (session, cxid) = (own.session, own.cxid);
        self.wait_for(own, body.len() + ITEM_BYTES);
        self.send_request(link, session, cxid, op, body, ids);
    }

    fn send_request(&mut self, link: LinkId, session: SessionId, cxid: i32, op: OpCode, body: &[u8], ids: Bytes) {
        // Those of a batch share their memory.
        if self.bodies.capacity() < body.len() {
            self.bodies.reserve(BODIES_BYTES.max(body.len()));
        }
        self.bodies.extend_from_slice(body);
        let body = self.bodies.split().freeze();
        self.send(link, Message::Request(Request { session, cxid, op: op.code(), body, ids }));
    }

    /// Answers when it is proven that this server still leads, and all that it has proposed is committed: nobody is told
    /// that a session is gone because its end was proposed, or because somebody else has led meanwhile; nor that it lives
    /// because its beginning was proposed (P44).
    pub(super) fn prove(&mut self, asker: Asker) {
        let id = self.syncs.push(asker);
        if let Zab::Member(peer) = &mut self.zab {
            peer.on_sync(id, self.last_made);
        }
    }

    /// A client asks for everything that is committed anywhere.
    pub(super) fn on_sync(
        &mut self,
        conn: ConnId,
        submission: Arc<Submission>,
        at: usize,
        state: &State,
        out: &mut Outboxes,
    ) {
        let Some(asker) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let (session, ids) = (asker.session, asker.encoded_ids());
        let Ask::Request { xid, op } = submission.items[at].ask else { return };
        if self.role == Role::ReadOnly {
            return self.in_turn(conn, What::Refused(xid, ErrorCode::NotReadOnly), state, out);
        }
        let body = Bytes::copy_from_slice(&submission.bytes[submission.items[at].span.clone()]);
        let id = self.syncs.push(Asker::Conn(conn, (submission, at)));
        match (&mut self.zab, self.role) {
            (Zab::Member(peer), Role::Leader) => peer.on_sync(id, self.last_made),
            (_, Role::Learner(link)) => self.send_request(link, session, xid, op, &body, ids),
            _ => (),
        }
    }

    /// After transactions were applied: roles begin, syncs are answered.
    pub(super) fn on_applied(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        let Zab::Member(peer) = &mut self.zab else { return };
        peer.on_applied(state.last_zxid());
        let reached = self.reached();
        if let Some((role, _)) = self.begins.take_if(|(_, from)| *from <= reached) {
            self.begin(now, role, state);
        } else if self.is_serving() && self.handshakes.are_due(state.last_zxid()) {
            self.todo.push_back(Todo::Handshakes);
        }
        self.peer(now, |_, _, _| ()); // a role may have waited for this
        while let Some((conn, (submission, at), behind)) = self.syncs.pop(reached) {
            self.in_turn(conn, What::Item(submission, at), state, out);
            for (submission, at) in behind {
                self.take(now, &submission, at, state, out);
            }
        }
    }

    /// Everything up to here that this server knows of is applied.
    fn reached(&self) -> Zxid {
        self.proposals.first_zxid().map_or(Zxid(i64::MAX), |first| Zxid(first.0 - 1))
    }

    /// Whether something waits for the state that has been reached.
    pub(super) fn has_awaited(&self) -> bool {
        let reached = self.reached();
        self.begins.is_some_and(|(_, from)| from <= reached) || self.syncs.is_due(reached)
    }

    fn begin(&mut self, now: Now, role: Role, state: &State) {
        self.role = role;
        self.todo.push_back(Todo::Handshakes);
        self.local.sessions.hear_all(now.mono_ms);
        if role == Role::Leader {
            for (session, timeout_ms) in state.sessions() {
                self.sessions.add(session, timeout_ms, now.mono_ms, Touch::default(), None);
            }
            for session in state.dead_owners() {
                self.propose_close(now, session, 0, Maker::Server, state);
            }
        }
    }
}

/// Whether a leader's transaction is one, and the one that it is said to be.
fn is_readable(txn: &EncodedTxn) -> bool {
    Record::decode(&txn.record).is_ok_and(|record| record.header.zxid == txn.zxid)
}
