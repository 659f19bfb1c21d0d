//! The one place where writes get their order: prepare, propose, apply, answer.
//!
//! [`Replica::step`] takes input while the state may be read; [`Replica::apply`] brings what is committed into the
//! state while nobody else looks. Between the two a write is a [`Proposal`]; what its connection sent after it waits
//! behind. On a learner the proposal is made elsewhere: `member.rs`.

mod conn_states;
mod container_manager;
mod ensemble_member;
mod forwarded_requests;
mod handshakes;
mod held_submissions;
mod local_sessions;
mod observer_relay;
mod pending_requests;
mod proposals;
mod read_only;
mod reconfig;
mod revalidations;
mod session_txns;
mod syncs;
mod write_admission;

use crate::clock::Now;
use crate::counters::Tallies;
use crate::limits::{
    APPLIED_AT_ONCE_BYTES, APPLIED_AT_ONCE_MAX, EXPIRED_AT_ONCE_MAX, LOG_BATCH_BYTES, REPLIES_BYTES_MAX,
    SWEPT_AT_ONCE_MAX,
};
use crate::log_batch::LogBatch;
use crate::pause_detector::Pulse;
use crate::sessions::{SessionInfo, Sessions, Touch};
use crate::sessions_per_address::Addresses;
use crate::submission::{Ask, Submission};
use bytes::BytesMut;
use conn_states::{ConnState, Conns, waited_ms};
use container_manager::Sweep;
use ensemble_member::{NO_IDS, Todo};
use forwarded_requests::Forwarded;
use handshakes::Handshakes;
use held_submissions::HeldSubmissions;
pub use local_sessions::LocalSessions;
use local_sessions::{Local, LocalWrite, Newcomer};
use observer_relay::Relayed;
use ox_proto::connect::ConnectResponse;
use ox_proto::ensemble::ChangeRules;
use ox_proto::reply::{ReplyHeader, put_bare_reply};
use ox_proto::txn::{DIGEST_VERSION, Record, TxnDigest, TxnHeader};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::ops::{self, Prepared};
use ox_tree::outbox::{Outboxes, PartKind};
use ox_tree::prefetch::BATCH;
use ox_tree::read::{self, AfterReply, ReadRequest, Requester};
use ox_tree::{ConnId, PendingChanges, PendingView, State, WriteStamp, put_write_reply};
use ox_zab::{Broadcast, Effects, Epoch, LinkId, Quorum, QuorumPeer, Reason, ServerId};
use pending_requests::{Origin, Own, OwnWrites, Waiting, What};
use proposals::{Maker, Proposal, Proposals};
use read_only::ReadOnly;
use reconfig::{Changes, ConfigReply};
use revalidations::{AskedBy, Revalidating, Revalidations};
use session_txns::Granted;
use std::collections::VecDeque;
use std::sync::Arc;
use syncs::Syncs;
use write_admission::LogRoom;
pub use write_admission::Writes;

/// What the configuration says about a replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaSettings {
    /// Granularity of session expiry.
    pub tick_ms: i32,
    /// The server's number as it stands in session ids.
    pub server: u8,
    /// The time that new session ids begin with: not that of any start before.
    pub session_clock_ms: i64,
    /// I/O threads there are.
    pub threads: usize,
    /// How often containers and TTL nodes are looked at.
    pub sweep_interval_ms: i64,
    /// How many of them may be removed in a minute.
    pub sweep_per_minute: i64,
    /// How long a container that never had a child is kept, 0 for ever.
    pub sweep_never_used_ms: i64,
    /// Which changes of the ensemble are possible.
    pub change_rules: ChangeRules,
    /// Whether a member's sessions are local.
    pub local_sessions: LocalSessions,
    /// Whether a member that leads serves clients.
    pub leader_serves: bool,
    /// How long a member looks for a leader before clients may read; none is for ever.
    pub read_only_after_ms: Option<i64>,
    /// How long after the loss of its leader a member lets new connections wait for the next one; 0 is not at all.
    pub park_limit_ms: i64,
}

/// Who agrees on the order of writes.
#[derive(Debug)]
enum Zab {
    /// This server alone.
    Alone(Broadcast),
    /// An ensemble.
    Member(Box<QuorumPeer>),
}

/// Whom this server serves, and how it gets writes into the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Nobody: it has no leader.
    None,
    /// Clients that only read, for want of a leader.
    ReadOnly,
    /// Orders writes itself.
    Leader,
    /// Sends writes to its leader.
    Learner(LinkId),
}

/// A server without its sockets and disk.
#[derive(Debug)]
pub struct Replica {
    me: ServerId,
    tick_ms: i32,
    leader_serves: bool,
    zab: Zab,
    role: Role,
    /// The last transaction that was made here.
    last_made: Zxid,
    /// The last number that is used in an epoch.
    counter_max: u32,
    /// The last transaction made here that changes the ensemble.
    reconfigures_at: Option<Zxid>,
    config_reply: ConfigReply,
    change_rules: ChangeRules,
    /// Everything up to here is agreed on.
    committed: Zxid,
    /// The disk holds everything up to here.
    durable: Zxid,
    /// Clients are served from here on, when the role is to begin.
    begins: Option<(Role, Zxid)>,
    /// The state that a leader sends.
    staged: Option<Box<State>>,
    /// The same, complete and on its way to the disk: whatever becomes of the role, it is the state from then on.
    installing: Option<Box<State>>,
    /// For the driver.
    effects: Effects,
    /// Memory for those of one step.
    spare_effects: Effects,
    /// Memory for what is forwarded.
    bodies: BytesMut,
    /// Whom learners have forwarded for.
    forwarded: Forwarded,
    syncs: Syncs,
    revalidations: Revalidations,
    relayed: Relayed,
    todo: VecDeque<Todo>,
    pinged_ms: i64,
    pending: PendingChanges,
    sessions: Sessions,
    local: Local,
    read_only: ReadOnly,
    addresses: Addresses,
    conns: Conns,
    handshakes: Handshakes,
    own: OwnWrites,
    proposals: Proposals,
    held: HeldSubmissions,
    /// Bytes of replies that one step or one call of apply may make of reads, and how many are left.
    replies_max: usize,
    replies_left: usize,
    next_session: SessionId,
    sweep: Sweep,
    server_ids: Identities,
    log_room: LogRoom,
    pulse: Pulse,
    digest_mismatches: u64,
    tallies: Tallies,
}

impl Replica {
    /// A standalone replica on a recovered state: every session starts with its full timeout.
    pub fn standalone(settings: ReplicaSettings, state: &State, now: Now) -> Self {
        let me = ServerId(i64::from(settings.server));
        let mut sessions = Sessions::new(settings.tick_ms);
        for (session, timeout_ms) in state.sessions() {
            sessions.add(session, timeout_ms, now.mono_ms, Touch::default(), None);
        }
        let last = state.last_zxid();
        let zab = Zab::Alone(Broadcast::new(Quorum::majority_of([me]), last));
        let settings = ReplicaSettings {
            local_sessions: LocalSessions::Off,
            leader_serves: true,
            read_only_after_ms: None,
            ..settings
        };
        Self { role: Role::Leader, sessions, ..Self::new(settings, zab, last, now) }
    }

    /// A member of an ensemble on a recovered state; it serves nobody before it has a leader.
    pub fn member(settings: ReplicaSettings, peer: QuorumPeer, state: &State, now: Now) -> Self {
        Self::new(settings, Zab::Member(Box::new(peer)), state.last_zxid(), now)
    }

    fn new(settings: ReplicaSettings, zab: Zab, last: Zxid, now: Now) -> Self {
        Self {
            me: ServerId(i64::from(settings.server)),
            tick_ms: settings.tick_ms,
            leader_serves: settings.leader_serves,
            zab,
            role: Role::None,
            last_made: last,
            counter_max: u32::MAX,
            reconfigures_at: None,
            config_reply: ConfigReply::default(),
            change_rules: settings.change_rules,
            committed: last,
            durable: last,
            begins: None,
            staged: None,
            installing: None,
            effects: Effects::new(),
            spare_effects: Effects::new(),
            bodies: BytesMut::new(),
            forwarded: Forwarded::default(),
            syncs: Syncs::default(),
            revalidations: Revalidations::default(),
            relayed: Relayed::default(),
            todo: VecDeque::new(),
            pinged_ms: now.mono_ms,
            pending: PendingChanges::default(),
            sessions: Sessions::new(settings.tick_ms),
            local: Local::new(settings.local_sessions, settings.tick_ms),
            read_only: ReadOnly::new(settings.read_only_after_ms),
            addresses: Addresses::default(),
            conns: Conns::new(settings.threads),
            handshakes: Handshakes::new(settings.park_limit_ms),
            own: OwnWrites::default(),
            proposals: Proposals::default(),
            held: HeldSubmissions::default(),
            replies_max: REPLIES_BYTES_MAX,
            replies_left: REPLIES_BYTES_MAX,
            next_session: SessionId::first(settings.server, settings.session_clock_ms),
            sweep: Sweep::new(&settings, now.mono_ms),
            server_ids: Identities::server(),
            log_room: LogRoom::default(),
            pulse: Pulse::new(settings.tick_ms, now.mono_ms),
            digest_mismatches: 0,
            tallies: Tallies::default(),
        }
    }

    /// Lets the clients of one address have so many sessions and no more; 0 is any number. To be said before the first
    /// of them comes.
    pub fn limit_sessions_per_address(&mut self, max: usize) {
        self.addresses.limit(max);
    }

    /// Ends every epoch after so many transactions, as if it had no more numbers.
    pub fn limit_epochs(&mut self, counter_max: u32) {
        self.counter_max = counter_max;
    }

    /// When [`Self::on_time`] wants to be called next.
    pub fn deadline(&self) -> Option<i64> {
        let own = if self.role == Role::Leader { [self.sessions.deadline(), self.sweep.deadline()] } else { [None; 2] };
        let local = self.local.sessions.deadline().filter(|_| self.role != Role::None);
        let peer = if let Zab::Member(peer) = &self.zab { peer.deadline() } else { None };
        let handshakes = self.handshakes.deadline();
        own.into_iter().flatten().chain(local).chain(self.read_only_at_ms()).chain(handshakes).chain(peer).min()
    }

    /// How long the driver may wait: something may be due then, or a pause could hide from [`Self::on_turn`].
    pub fn rest_ms(&self, now: Now) -> Option<i64> {
        let has_sessions = self.sessions.deadline().or(self.local.sessions.deadline()).is_some();
        let judges = has_sessions || matches!(self.zab, Zab::Member(_));
        let until_ms = self.deadline().map(|deadline_ms| (deadline_ms - now.mono_ms).max(0));
        until_ms.into_iter().chain(judges.then(|| self.pulse.rest_ms())).min()
    }

    /// Takes what connections sent.
    pub fn step(&mut self, now: Now, submission: Submission, state: &State, out: &mut Outboxes) {
        let submission = Arc::new(submission);
        self.replies_left = self.replies_max;
        for at in 0..submission.items.len() {
            if at.is_multiple_of(BATCH) {
                state.prefetch(submission.paths_from(at));
            }
            self.take(now, &submission, at, state, out);
        }
        self.held.hold(&submission);
    }

    fn take(&mut self, now: Now, submission: &Arc<Submission>, at: usize, state: &State, out: &mut Outboxes) {
        let item = &submission.items[at];
        match &item.ask {
            Ask::Connect { .. } => self.on_connect(now, item.conn, &item.ask, state, out),
            Ask::Gone => self.on_gone(item.conn, state),
            // Nobody is served; the connection is about to be told.
            _ if self.role == Role::None => self.give_up(item.conn, out),
            _ if self.syncs.blocks(item.conn) => self.syncs.hold(item.conn, Arc::clone(submission), at),
            Ask::Identified(ids) => {
                if let Some(conn) = self.conns.get_mut(item.conn) {
                    conn.identify(Arc::clone(ids));
                }
            }
            Ask::Request { xid, op } if !read::is_read(*op) => {
                let body = &submission.bytes[item.span.clone()];
                self.on_write(now, item.conn, (*xid, *op, body), state, out);
            }
            Ask::Request { op: OpCode::Sync, .. } if self.is_member() => {
                self.on_sync(item.conn, Arc::clone(submission), at, state, out);
            }
            Ask::Throttled { xid } => {
                self.in_turn(item.conn, What::Refused(*xid, ErrorCode::ThrottledOp), state, out);
            }
            Ask::Request { .. } | Ask::Answered | Ask::AnsweredAndClose => {
                let what = What::Item(Arc::clone(submission), at);
                self.in_turn(item.conn, what, state, out);
            }
        }
    }

    /// Does what is due: ends sessions, removes nodes that go by themselves.
    pub fn on_time(&mut self, now: Now, state: &State) {
        self.peer(now, |peer, now_ms, out| peer.on_time(now_ms, out));
        self.begin_read_only(now);
        self.expire_handshakes(now);
        self.expire_local(now);
        if self.role != Role::Leader {
            return;
        }
        let mut expired = Vec::new();
        let waited_ms = waited_ms(&self.conns, &self.own, now);
        self.sessions.expire(now.mono_ms, EXPIRED_AT_ONCE_MAX, waited_ms, &mut expired);
        for session in expired {
            self.tallies.expired(session, self.sessions.timeout_ms(session).unwrap_or_default());
            self.propose_close(now, session, 0, Maker::Server, state);
        }
        for _ in 0..SWEPT_AT_ONCE_MAX {
            let Some(path) = self.sweep.next(now, state) else { break };
            self.propose_removal(now, &path, state);
        }
    }

    /// The driver's loop has come around, and meant to wait for `meant_ms` at most; `worked_ms` tells how much of the
    /// processor its thread has used. If the server was not running for a while, nobody could be heard: every session
    /// gets its full timeout again, and other servers are not judged before what they have sent is read. Returns how long
    /// that was.
    pub fn on_turn(&mut self, now: Now, meant_ms: i64, worked_ms: impl FnOnce() -> i64) -> Option<i64> {
        let late_ms = self.pulse.beat(now.mono_ms, meant_ms, worked_ms);
        if late_ms.is_some() {
            self.sessions.hear_all(now.mono_ms);
            self.local.sessions.hear_all(now.mono_ms);
            self.peer(now, |peer, now_ms, _| peer.on_pause(now_ms));
        }
        late_ms
    }

    /// The disk holds everything up to `zxid`.
    pub fn on_durable(&mut self, now: Now, zxid: Zxid) {
        self.durable = zxid.max(self.durable);
        match &mut self.zab {
            Zab::Alone(order) => {
                order.on_ack(self.me, zxid);
                self.committed = order.committed();
            }
            Zab::Member(_) => self.peer(now, |peer, now_ms, out| peer.on_durable(now_ms, zxid, out)),
        }
    }

    /// The transactions prepared since the last call, for the disk.
    pub fn take_log(&mut self, now: Now) -> Option<Arc<LogBatch>> {
        let batch = self.proposals.take_log();
        if self.is_member() && self.role == Role::Leader {
            // With nothing to propose, what was asked in this turn still ends with it.
            let txns: Vec<_> = batch.iter().flat_map(|_| self.proposals.last_handed()).collect();
            self.peer(now, |peer, now_ms, out| peer.propose(now_ms, txns, out));
        }
        batch
    }

    /// True when the log batch in the making is large enough to be handed over.
    pub fn log_is_full(&self) -> bool {
        LOG_BATCH_BYTES <= self.proposals.log_bytes()
    }

    /// Whether [`Self::apply`] has something to do.
    pub fn has_committed(&self) -> bool {
        self.has_applicable() || self.has_awaited()
    }

    fn has_applicable(&self) -> bool {
        let first = self.proposals.first_zxid().filter(|_| !self.config_reply.is_held());
        first.is_some_and(|zxid| zxid <= self.committed.min(self.durable))
    }

    /// Brings committed transactions into the state, in order, and answers them. Returns how many; call again
    /// while [`Self::has_committed`].
    pub fn apply(&mut self, now: Now, state: &mut State, out: &mut Outboxes) -> usize {
        let (mut applied, mut bytes) = (0, 0);
        self.replies_left = self.replies_max;
        while self.has_applicable() && applied < APPLIED_AT_ONCE_MAX && bytes < APPLIED_AT_ONCE_BYTES {
            let before = out.bytes();
            let (proposal, log) = self.proposals.pop().expect("there is a first one");
            let record = Record::decode(&log.bytes[proposal.span.clone()]).expect("own records decode");
            let outcome = state.apply(&record, self.pending.applied(proposal.zxid), out);
            self.tallies.propagation_ms.note(now.wall_ms.saturating_sub(record.header.time_ms), 1);
            self.tallies.writes.note_write(&record.txn);
            self.digest_mismatches += u64::from(outcome.digest_differs);
            let TxnHeader { session, cxid, .. } = record.header;
            let own = match proposal.maker {
                Maker::Own => self.own.pop(),
                Maker::Leader => self.own.pop_match(session, cxid),
                Maker::Server | Maker::Learner(_) => None,
            };
            if let Some(own) = own {
                if let Some(own) = self.hold_reply(own, &record, &outcome.applied) {
                    self.answer(now, &own, &record, &outcome.applied, out);
                    self.answer_all(own.waiting, state, out);
                }
            } else if record.header.kind == OpCode::CloseSession.code() {
                self.on_closed(session, None, &record, &outcome.applied, out);
            }
            applied += 1;
            bytes += proposal.span.len() + out.bytes() - before;
        }
        self.on_applied(now, state, out);
        applied
    }

    /// Transactions proposed and not applied yet.
    pub fn outstanding(&self) -> usize {
        self.proposals.len()
    }

    /// The last proposed zxid.
    pub fn last_proposed(&self) -> Zxid {
        self.last_made
    }

    /// Live sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions behind `after`, at most `max`, for `dump`.
    pub fn session_infos_after(&self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        self.sessions.infos_after(after, max)
    }

    /// What has been counted since it was last emptied.
    pub fn tallies_mut(&mut self) -> &mut Tallies {
        &mut self.tallies
    }

    /// Transactions whose digest did not fit the tree: always 0 unless something is broken.
    pub fn digest_mismatches(&self) -> u64 {
        self.digest_mismatches
    }

    fn on_connect(&mut self, now: Now, conn: ConnId, ask: &Ask, state: &State, out: &mut Outboxes) {
        let Ask::Connect { address, ids, .. } = ask else { return };
        state.watches().lock().add_conn(conn, *address);
        let handshake = self.is_member().then(|| self.handshakes.begin(now, ask.clone()));
        self.conns.insert(ConnState::new(conn, Arc::clone(ids), handshake));
        if !self.keep_handshake(now, conn) {
            self.on_handshake(now, conn, ask, state, out);
        }
    }

    fn on_handshake(&mut self, now: Now, conn: ConnId, ask: &Ask, state: &State, out: &mut Outboxes) {
        let Ask::Connect { session, last_zxid_seen, proven, timeout_ms, read_only, address, touch, .. } = ask else {
            return;
        };
        if state.last_zxid() < *last_zxid_seen {
            if !self.keep_until_applied(now, conn, *last_zxid_seen) {
                self.give_up(conn, out);
            }
            return;
        }
        if !(self.takes_clients() || self.is_read_only()) || !self.may_come_in(*session, *read_only) {
            return self.give_up(conn, out);
        }
        let newcomer = Newcomer { conn, address: *address, timeout_ms: *timeout_ms, read_only: *read_only, touch };
        if *session == SessionId::NONE {
            if self.log_room.writes() == Writes::None && !self.local.is_on() {
                return self.give_up(conn, out);
            }
            if !self.addresses.has_room(*address) {
                self.tallies.refused_session(*address);
                return self.give_up(conn, out);
            }
            if self.local.is_on() {
                return self.open_local(now, &newcomer, state, out);
            }
            let id = self.new_session_id(state);
            let (timeout_ms, read_only, address) = (*timeout_ms, *read_only, *address);
            let origin = Origin::Connect { conn, address, timeout_ms, read_only, touch: touch.clone() };
            let own = Own::new(id, 0, origin);
            if let Role::Learner(link) = self.role {
                return self.forward(link, OpCode::CreateSession, &timeout_ms.to_be_bytes(), NO_IDS, own);
            }
            if self.propose_create_session(now, id, timeout_ms, Maker::Own, state) {
                self.wait_for(own, 0);
            }
            return;
        }
        self.tallies.resumed += 1;
        // Compat: whoever names a session takes it from its connection, before the password is looked at.
        let owner = self.sessions.conn(*session).or_else(|| self.local.sessions.conn(*session));
        if let Some(old) = owner.filter(|old| *old != conn) {
            let waited_ms = self.conns.get(old).and_then(|old| old.answered_ms);
            self.sessions.detach(*session, old, waited_ms);
            self.local.sessions.detach(*session, old, waited_ms);
            self.give_up(old, out);
        }
        if *proven && self.resume_local(now, *session, &newcomer, out) {
            return;
        }
        if let Role::Learner(link) = self.role
            && *proven
        {
            let by = AskedBy::Conn { conn, address: *address, read_only: *read_only, touch: touch.clone() };
            return self.revalidate(link, Revalidating { session: *session, timeout_ms: *timeout_ms, by }, out);
        }
        if *proven && self.sessions.attach(*session, *timeout_ms, now.mono_ms, touch.clone(), conn) {
            self.addresses.count(*session, *address);
            let granted = Granted { session: *session, timeout_ms: *timeout_ms, read_only: *read_only };
            if self.is_member() && !state.has_session(*session) {
                self.prove(syncs::Asker::Lives(conn, granted));
            } else {
                self.resume(conn, granted, out);
            }
        } else if *proven && self.is_member() && !self.is_read_only() {
            self.prove(syncs::Asker::Gone(conn, *read_only));
        } else {
            self.refuse(conn, *read_only, out);
        }
    }

    /// Tells a client that its session is over.
    fn refuse(&mut self, conn: ConnId, read_only: Option<bool>, out: &mut Outboxes) {
        let read_only = self.told_read_only(read_only);
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |bytes| ConnectResponse::refused(read_only).put_frame(bytes));
    }

    /// Ends a connection without another word; its session lives on.
    fn give_up(&mut self, conn: ConnId, out: &mut Outboxes) {
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |_| ());
    }

    fn on_gone(&mut self, conn: ConnId, state: &State) {
        if let Some(gone) = self.conns.remove(conn) {
            self.sessions.detach(gone.session, conn, gone.answered_ms);
            self.local.sessions.detach(gone.session, conn, gone.answered_ms);
            gone.handshake.into_iter().for_each(|handshake| self.handshakes.forget(&handshake));
        }
        self.syncs.forget(conn);
        state.watches().lock().drop_conn(conn);
    }

    fn on_write(&mut self, now: Now, conn: ConnId, request: (i32, OpCode, &[u8]), state: &State, out: &mut Outboxes) {
        let (xid, op, body) = request;
        let Some(asker) = self.conns.get(conn).filter(|conn| conn.may_write()) else { return };
        let (session, ids) = (asker.session, Arc::clone(&asker.ids));
        let is_local = self.local.sessions.is_known(session);
        if is_local && op == OpCode::CloseSession {
            return self.close_local(conn, xid, state, out);
        }
        let refused = match self.role {
            Role::ReadOnly => Some(ErrorCode::NotReadOnly),
            Role::Learner(_) if self.log_room.leader_refuses(now, op, body) => Some(ErrorCode::ThrottledOp),
            Role::Learner(_) => ops::check_body(op, body).err(),
            Role::Leader if op == OpCode::CloseSession || self.log_room.writes().allow(op, body) => None,
            Role::Leader | Role::None => Some(ErrorCode::ThrottledOp),
        };
        if let Some(code) = refused {
            return self.in_turn(conn, What::Refused(xid, code), state, out);
        }
        let mut own = Own::new(session, xid, Origin::Request(conn));
        if is_local {
            match self.before_local_write(now, conn, session, (op, body), state) {
                LocalWrite::GoOn => (),
                LocalWrite::Without(code) => own.no_ephemerals = Some(code),
                LocalWrite::Never => return,
            }
        }
        if let Role::Learner(link) = self.role {
            let ids = self.conns.get_mut(conn).map_or(NO_IDS, ConnState::encoded_ids);
            return self.forward(link, op, body, ids, own);
        }
        if op == OpCode::CloseSession {
            self.sessions.start_closing(session);
            if self.propose_close(now, session, xid, Maker::Own, state) {
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
        let change = Changes { zab: &self.zab, prepared: self.reconfigures_at, rules: self.change_rules };
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
            self.tallies.over_quota(over);
        }
        match (span, refused) {
            (Some(span), _) => {
                self.note_reconfig(made, stamp.zxid);
                self.enter(Proposal::new(stamp.zxid, span, Maker::Own));
                self.wait_for(own, 0);
            }
            (None, Some(code)) => self.in_turn(conn, What::Refused(xid, code), state, out),
            (None, None) => unreachable!("a write is proposed or refused"),
        }
    }

    /// What the next transaction is made with; none if there can be no more, and the leader leaves.
    fn stamp(&mut self, now: Now, session: SessionId) -> Option<WriteStamp> {
        let zxid = Zxid(self.last_made.0 + 1);
        let next = Epoch::next_zxid(self.last_made).filter(|next| next.counter() <= self.counter_max);
        if self.is_member() && next != Some(zxid) {
            self.peer(now, |peer, now_ms, out| peer.step_down(now_ms, Reason::ZxidRollover, out));
            return None;
        }
        Some(WriteStamp { zxid, time_ms: now.wall_ms, session })
    }

    /// Proposes a transaction of the server's own making. False if there is none to propose.
    fn propose(
        &mut self,
        now: Now,
        session: SessionId,
        cxid: i32,
        maker: Maker,
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
        self.enter(Proposal::new(stamp.zxid, span, maker));
        true
    }

    fn enter(&mut self, proposal: Proposal) {
        self.last_made = proposal.zxid;
        if let Zab::Alone(order) = &mut self.zab {
            order.propose(proposal.zxid);
        }
        self.log_room.spend(proposal.span.len());
        self.proposals.push(proposal);
    }

    /// Answers a write when it is applied; it holds `bytes` until then.
    fn wait_for(&mut self, own: Own, bytes: usize) {
        let conn = own.origin.conn();
        let number = self.own.push(own, bytes);
        if let Some(conn) = self.conns.get_mut(conn) {
            conn.last_write = Some(number);
        }
    }

    /// Answers now, or behind the connection's last write that is still on its way.
    fn in_turn(&mut self, conn: ConnId, what: What, state: &State, out: &mut Outboxes) {
        let Some(asker) = self.conns.get(conn).filter(|conn| conn.active) else { return };
        let waiting = Waiting { conn, ids: Arc::clone(&asker.ids), what };
        let last_write = asker.last_write.and_then(|number| self.own.get_mut(number));
        match last_write.map(|own| &mut own.waiting).or_else(|| self.config_reply.queue_of(conn)) {
            Some(behind) => behind.push(waiting),
            None => self.answer_waiting(waiting, state, out),
        }
    }

    /// Answers what its connection sent behind one write.
    fn answer_all(&mut self, waiting: Vec<Waiting>, state: &State, out: &mut Outboxes) {
        for waiting in waiting {
            self.answer_waiting(waiting, state, out);
        }
    }

    fn answer_waiting(&mut self, waiting: Waiting, state: &State, out: &mut Outboxes) {
        let Waiting { conn, ids, what } = waiting;
        if let What::Resumed(granted) = what {
            return self.attach(conn, granted, out);
        }
        if self.lacks_memory_for(&what, state) {
            return self.give_up(conn, out);
        }
        let Some(asker) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let outbox = out.of(conn);
        match what {
            What::Refused(xid, code) => outbox.reply(conn, |bytes| {
                put_bare_reply(bytes, ReplyHeader { xid, zxid: state.last_zxid(), err: code.code() });
            }),
            What::Resumed(_) => (),
            What::Closed(xid) => {
                asker.active = false;
                let header = ReplyHeader { xid, zxid: state.last_zxid(), err: 0 };
                outbox.push(conn, PartKind::Close, |bytes| put_bare_reply(bytes, header));
            }
            What::Item(submission, at) => {
                let item = &submission.items[at];
                let body = &submission.bytes[item.span.clone()];
                match item.ask {
                    Ask::Request { xid, op } => {
                        let mut then = AfterReply::Continue;
                        outbox.reply(conn, |bytes| {
                            let (asker, start) = (Requester { conn, session: asker.session, ids: &ids }, bytes.len());
                            then = read::put_reply(state, asker, ReadRequest { xid, op, body }, bytes);
                            self.tallies.reads.note_read(op, body, &bytes[start..]);
                            self.replies_left = self.replies_left.saturating_sub(bytes.len() - start);
                        });
                        if then == AfterReply::Close {
                            self.give_up(conn, out);
                        }
                    }
                    Ask::AnsweredAndClose => {
                        asker.active = false;
                        outbox.push(conn, PartKind::Close, |bytes| bytes.extend_from_slice(body));
                    }
                    Ask::Answered | Ask::Throttled { .. } | Ask::Connect { .. } | Ask::Identified(_) | Ask::Gone => {
                        outbox.reply(conn, |bytes| bytes.extend_from_slice(body));
                    }
                }
            }
        }
    }

    /// Answers an applied transaction to whoever asked for it.
    fn answer(&mut self, now: Now, own: &Own, record: &Record<'_>, applied: &ox_tree::Applied, out: &mut Outboxes) {
        let session = record.header.session;
        if record.header.kind == OpCode::CloseSession.code() {
            return self.on_closed(session, Some(&own.origin), record, applied, out);
        }
        match &own.origin {
            Origin::Upgrade(_) => (),
            Origin::Connect { conn, address, timeout_ms, read_only, touch } => {
                self.addresses.count(session, *address);
                let alive = self.conns.get(*conn).is_some();
                // A learner tells its leader of those that it hears: who has gone is not one of them.
                if alive || !matches!(self.role, Role::Learner(_)) {
                    self.sessions.add(session, *timeout_ms, now.mono_ms, touch.clone(), alive.then_some(*conn));
                }
                let (timeout_ms, read_only) = (*timeout_ms, *read_only);
                self.attach(*conn, Granted { session, timeout_ms, read_only }, out);
            }
            Origin::Request(conn) => {
                if matches!(self.role, Role::Learner(_)) {
                    self.log_room.heard(now, &record.txn);
                }
                // A leader that does not know a local session refuses it for another reason.
                let local_error = own.no_ephemerals.filter(|_| record.header.kind == OpCode::Error.code());
                if local_error.is_none() && record.txn.is_session_moved() {
                    // Compat: no reply, so that the client reconnects; it would keep a connection that replies.
                    return self.give_up(*conn, out);
                }
                if let Some(asker) = self.conns.get_mut(*conn).filter(|conn| conn.active) {
                    asker.answered_ms = Some(now.mono_ms);
                    out.of(*conn).reply(*conn, |bytes| match local_error {
                        Some(code) => {
                            let TxnHeader { cxid: xid, zxid, .. } = record.header;
                            put_bare_reply(bytes, ReplyHeader { xid, zxid, err: code.code() });
                        }
                        None => put_write_reply(bytes, record, applied),
                    });
                }
            }
        }
    }
}

fn header(stamp: WriteStamp, cxid: i32) -> TxnHeader {
    TxnHeader { session: stamp.session, cxid, zxid: stamp.zxid, time_ms: stamp.time_ms, kind: 0 }
}

fn digest(tree_digest: i64) -> TxnDigest {
    TxnDigest { version: DIGEST_VERSION, tree_digest }
}
