//! The replica orders all writes: prepare, propose, apply, reply.
//!
//! [`Replica::step`] handles requests of clients under a read lock of the state; it prepares writes and assigns zxids.
//! [`Replica::apply`] applies committed transactions under the write lock. Between the two, a write is a [`Proposal`],
//! and later requests of its connection wait for it (`pending_requests.rs`). [`Replica::take_log`] hands proposals over
//! to the log and, on a leader, to the [`QuorumPeer`], which sends them to the followers. A learner forwards writes to
//! its leader instead (`ensemble_member.rs`). [`Replica::on_time`] expires sessions, and deletes containers and TTL
//! nodes.

mod conn_states;
mod container_manager;
mod ensemble_member;
mod forwarded_requests;
mod held_submissions;
mod local_sessions;
mod observer_relay;
mod parked_handshakes;
mod pending_requests;
mod proposals;
mod read_only;
mod reconfig;
mod revalidations;
mod session_txns;
mod syncs;
mod write_admission;

use crate::ConnId;
use crate::clock::Now;
use crate::counters::ReplicaCounters;
use crate::limits::{
    APPLIED_AT_ONCE_BYTES, APPLIED_AT_ONCE_MAX, DELETED_AT_ONCE_MAX, EXPIRED_AT_ONCE_MAX, LOG_BATCH_BYTES,
    REPLIES_BYTES_MAX,
};
use crate::log_batch::LogBatch;
use crate::outbox::{Outboxes, PartKind};
use crate::pause_detector::PauseDetector;
use crate::sessions::{LastSeen, SessionInfo, Sessions};
use crate::sessions_per_address::SessionsPerAddress;
use crate::submission::{ClientInput, Submission};
use bytes::BytesMut;
use conn_states::{ConnState, Conns, waited_ms};
use container_manager::ContainerManager;
use ensemble_member::{NO_IDS, Todo};
use forwarded_requests::IdentityCache;
use held_submissions::HeldSubmissions;
pub use local_sessions::LocalSessions;
use local_sessions::{ConnectParams, Local, LocalWrite};
use observer_relay::ObserverSessions;
use ox_proto::connect::ConnectResponse;
use ox_proto::ensemble::ChangeRules;
use ox_proto::reply::{ReplyHeader, put_bare_reply};
use ox_proto::txn::{Record, TxnHeader};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::ops::{self, Prepared};
use ox_tree::prefetch::BATCH;
use ox_tree::read::{self, AfterReply, ReadRequest, Requester};
use ox_tree::{PendingChanges, PendingView, State, WriteStamp, put_write_reply};
use ox_zab::{Broadcast, Effects, Epoch, Input as PeerInput, LinkId, Quorum, QuorumPeer, Reason, ServerId};
use parked_handshakes::Handshakes;
use pending_requests::{Origin, PendingWrite, PendingWrites, Reply, Waiting};
use proposals::{Proposal, Proposals, Proposer, digest, header};
use read_only::ReadOnly;
use reconfig::{ConfigReply, ReconfigCheck};
use revalidations::{RequestedBy, Revalidating, Revalidations};
use session_txns::Granted;
use std::collections::VecDeque;
use std::sync::Arc;
use syncs::Syncs;
use write_admission::LogSpace;
pub use write_admission::WriteAdmission;

/// Settings of a replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaSettings {
    pub tick_ms: i32,
    /// The server's number in session ids.
    pub server: u8,
    /// The time in new session ids. It must differ between starts of the server.
    pub session_clock_ms: i64,
    pub threads: usize,
    /// How often containers and TTL nodes are checked (`znode.container.checkIntervalMs`).
    pub sweep_interval_ms: i64,
    /// Deletions of containers and TTL nodes per minute.
    pub sweep_per_minute: i64,
    /// How long a container that never had a child is kept; 0 means forever.
    pub sweep_never_used_ms: i64,
    pub change_rules: ChangeRules,
    pub local_sessions: LocalSessions,
    /// Whether a leader serves clients (`leaderServes`).
    pub leader_serves: bool,
    /// How long a member is LOOKING before it serves reads; none means never.
    pub read_only_after_ms: Option<i64>,
    /// How long after the loss of its leader a member lets new connections wait for the next one; 0 means not at all.
    pub park_limit_ms: i64,
}

/// Where transactions are committed.
#[derive(Debug)]
enum Zab {
    Standalone(Broadcast),
    Member(Box<QuorumPeer>),
}

/// The server's role towards its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Serves no clients: it has no leader.
    None,
    ReadOnly,
    /// Proposes writes itself, as leader or standalone.
    Leader,
    Learner(LinkId),
}

/// A server without its sockets and disk.
#[derive(Debug)]
pub struct Replica {
    me: ServerId,
    /// The time of the last input for the quorum peer.
    now_ms: i64,
    tick_ms: i32,
    leader_serves: bool,
    zab: Zab,
    role: Role,
    /// The last transaction that was proposed or logged here.
    last_proposed_zxid: Zxid,
    counter_max: u32,
    reconfigures_at: Option<Zxid>,
    config_reply: ConfigReply,
    change_rules: ChangeRules,
    /// The last committed transaction.
    committed: Zxid,
    durable: Zxid,
    /// The next role, which begins when this transaction is applied.
    begins_at: Option<(Role, Zxid)>,
    /// The snapshot that is being received from a leader.
    snapshot: Option<Box<State>>,
    /// A complete snapshot that the disk is installing. It becomes the state even if the role ends meanwhile.
    installing: Option<Box<State>>,
    effects: Effects,
    spare_effects: Effects,
    /// Reused memory for the bodies of forwarded requests.
    bodies: BytesMut,
    identity_cache: IdentityCache,
    syncs: Syncs,
    revalidations: Revalidations,
    observer_sessions: ObserverSessions,
    todo: VecDeque<Todo>,
    pinged_ms: i64,
    pending: PendingChanges,
    sessions: Sessions,
    local: Local,
    read_only: ReadOnly,
    addresses: SessionsPerAddress,
    conns: Conns,
    handshakes: Handshakes,
    pending_writes: PendingWrites,
    proposals: Proposals,
    held: HeldSubmissions,
    /// Limit of reply bytes of reads in one step or one call of apply, and what is left of it.
    replies_max: usize,
    replies_left: usize,
    next_session: SessionId,
    container_manager: ContainerManager,
    server_ids: Identities,
    log_space: LogSpace,
    pause_detector: PauseDetector,
    digest_mismatches: u64,
    counters: ReplicaCounters,
}

impl Replica {
    /// A standalone server with a recovered state. Every session starts with its full timeout.
    pub fn standalone(settings: ReplicaSettings, state: &State, now: Now) -> Self {
        let me = ServerId(i64::from(settings.server));
        let mut sessions = Sessions::new(settings.tick_ms);
        for (session, timeout_ms) in state.sessions() {
            sessions.add(session, timeout_ms, now.mono_ms, LastSeen::default(), None);
        }
        let last = state.last_zxid();
        let zab = Zab::Standalone(Broadcast::new(Quorum::majority_of([me]), last));
        let settings = ReplicaSettings {
            local_sessions: LocalSessions::Off,
            leader_serves: true,
            read_only_after_ms: None,
            ..settings
        };
        Self { role: Role::Leader, sessions, ..Self::new(settings, zab, last, now) }
    }

    /// A member of an ensemble with a recovered state. It serves no clients before it has a leader.
    pub fn member(settings: ReplicaSettings, peer: QuorumPeer, state: &State, now: Now) -> Self {
        Self::new(settings, Zab::Member(Box::new(peer)), state.last_zxid(), now)
    }

    fn new(settings: ReplicaSettings, zab: Zab, last: Zxid, now: Now) -> Self {
        Self {
            me: ServerId(i64::from(settings.server)),
            now_ms: now.mono_ms,
            tick_ms: settings.tick_ms,
            leader_serves: settings.leader_serves,
            zab,
            role: Role::None,
            last_proposed_zxid: last,
            counter_max: u32::MAX,
            reconfigures_at: None,
            config_reply: ConfigReply::default(),
            change_rules: settings.change_rules,
            committed: last,
            durable: last,
            begins_at: None,
            snapshot: None,
            installing: None,
            effects: Effects::new(),
            spare_effects: Effects::new(),
            bodies: BytesMut::new(),
            identity_cache: IdentityCache::default(),
            syncs: Syncs::default(),
            revalidations: Revalidations::default(),
            observer_sessions: ObserverSessions::default(),
            todo: VecDeque::new(),
            pinged_ms: now.mono_ms,
            pending: PendingChanges::default(),
            sessions: Sessions::new(settings.tick_ms),
            local: Local::new(settings.local_sessions, settings.tick_ms),
            read_only: ReadOnly::new(settings.read_only_after_ms),
            addresses: SessionsPerAddress::default(),
            conns: Conns::new(settings.threads),
            handshakes: Handshakes::new(settings.park_limit_ms),
            pending_writes: PendingWrites::default(),
            proposals: Proposals::default(),
            held: HeldSubmissions::default(),
            replies_max: REPLIES_BYTES_MAX,
            replies_left: REPLIES_BYTES_MAX,
            next_session: SessionId::first(settings.server, settings.session_clock_ms),
            container_manager: ContainerManager::new(&settings, now.mono_ms),
            server_ids: Identities::server(),
            log_space: LogSpace::default(),
            pause_detector: PauseDetector::new(settings.tick_ms, now.mono_ms),
            digest_mismatches: 0,
            counters: ReplicaCounters::default(),
        }
    }

    /// Limits the sessions per client address; 0 means no limit. To be called before the first handshake.
    pub fn limit_sessions_per_address(&mut self, max: usize) {
        self.addresses.limit(max);
    }

    /// For tests: ends every epoch after this many transactions.
    pub fn limit_epochs(&mut self, counter_max: u32) {
        self.counter_max = counter_max;
    }

    /// When the caller has to call [`Self::on_time`].
    pub fn deadline(&self) -> Option<i64> {
        let own = if self.role == Role::Leader {
            [self.sessions.deadline(), self.container_manager.deadline()]
        } else {
            [None; 2]
        };
        let local = self.local.sessions.deadline().filter(|_| self.role != Role::None);
        let peer = if let Zab::Member(peer) = &self.zab { peer.deadline() } else { None };
        let handshakes = self.handshakes.deadline();
        own.into_iter().flatten().chain(local).chain(self.read_only_at_ms()).chain(handshakes).chain(peer).min()
    }

    /// How long the driver may wait before something is due, or a pause could go undetected by [`Self::on_turn`].
    pub fn rest_ms(&self, now: Now) -> Option<i64> {
        let has_sessions = self.sessions.deadline().or(self.local.sessions.deadline()).is_some();
        let judges = has_sessions || matches!(self.zab, Zab::Member(_));
        let until_ms = self.deadline().map(|deadline_ms| (deadline_ms - now.mono_ms).max(0));
        until_ms.into_iter().chain(judges.then(|| self.pause_detector.rest_ms())).min()
    }

    /// Handles the requests that connections have submitted.
    pub fn step(&mut self, now: Now, submission: Submission, state: &State, out: &mut Outboxes) {
        let submission = Arc::new(submission);
        self.replies_left = self.replies_max;
        for at in 0..submission.entries.len() {
            if at.is_multiple_of(BATCH) {
                state.prefetch(submission.paths_from(at));
            }
            self.take(now, &submission, at, state, out);
        }
        self.held.hold(&submission);
    }

    fn take(&mut self, now: Now, submission: &Arc<Submission>, at: usize, state: &State, out: &mut Outboxes) {
        let entry = &submission.entries[at];
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
            ClientInput::Request { op: OpCode::Sync, .. } if self.is_member() => {
                self.on_sync(entry.conn, Arc::clone(submission), at, state, out);
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

    /// Expires sessions, deletes containers and TTL nodes, and runs other timers.
    pub fn on_time(&mut self, now: Now, state: &State) {
        self.peer(now, PeerInput::Time);
        self.begin_read_only(now);
        self.expire_handshakes(now);
        self.expire_local(now);
        if self.role != Role::Leader {
            return;
        }
        let mut expired = Vec::new();
        let waited_ms = waited_ms(&self.conns, &self.pending_writes, now);
        self.sessions.expire(now.mono_ms, EXPIRED_AT_ONCE_MAX, waited_ms, &mut expired);
        for session in expired {
            self.counters.expired(session, self.sessions.timeout_ms(session).unwrap_or_default());
            self.propose_close(now, session, 0, Proposer::Server, state);
        }
        for _ in 0..DELETED_AT_ONCE_MAX {
            let Some(path) = self.container_manager.next(now, state) else { break };
            self.propose_removal(now, &path, state);
        }
    }

    /// Called in each iteration of the driver's loop, which planned to wait for `meant_ms` at most; `worked_ms` returns
    /// the CPU time of its thread. If the process did not run for a while, every session gets its full timeout again,
    /// and peers get time until their packets are read. Returns the length of that pause.
    pub fn on_turn(&mut self, now: Now, meant_ms: i64, worked_ms: impl FnOnce() -> i64) -> Option<i64> {
        let late_ms = self.pause_detector.check(now.mono_ms, meant_ms, worked_ms);
        if late_ms.is_some() {
            self.sessions.touch_all(now.mono_ms);
            self.local.sessions.touch_all(now.mono_ms);
            self.peer(now, PeerInput::Pause);
        }
        late_ms
    }

    /// The log is durable up to `zxid`.
    pub fn on_durable(&mut self, now: Now, zxid: Zxid) {
        self.durable = zxid.max(self.durable);
        match &mut self.zab {
            Zab::Standalone(order) => {
                order.on_ack(self.me, zxid);
                self.committed = order.committed();
            }
            Zab::Member(_) => self.peer(now, PeerInput::Durable(zxid)),
        }
    }

    /// The transactions that were prepared since the last call, to be logged.
    pub fn take_log(&mut self, now: Now) -> Option<Arc<LogBatch>> {
        let batch = self.proposals.take_log();
        if self.is_member() && self.role == Role::Leader {
            // An empty proposal still ends the iteration, so that syncs are replied to.
            let txns: Vec<_> = batch.iter().flat_map(|_| self.proposals.last_handed()).collect();
            self.peer(now, PeerInput::Propose(txns));
        }
        batch
    }

    /// Whether the open log batch is large enough to be handed over.
    pub fn log_is_full(&self) -> bool {
        LOG_BATCH_BYTES <= self.proposals.log_bytes()
    }

    /// Whether [`Self::apply`] has something to do.
    pub fn has_committed(&self) -> bool {
        self.has_applicable() || self.has_due_wait()
    }

    fn has_applicable(&self) -> bool {
        let first = self.proposals.first_zxid().filter(|_| !self.config_reply.is_held());
        first.is_some_and(|zxid| zxid <= self.committed.min(self.durable))
    }

    /// Applies committed transactions in order and replies to them. Returns how many; to be called again while
    /// [`Self::has_committed`].
    pub fn apply(&mut self, now: Now, state: &mut State, out: &mut Outboxes) -> usize {
        let (mut applied, mut bytes) = (0, 0);
        self.replies_left = self.replies_max;
        while self.has_applicable() && applied < APPLIED_AT_ONCE_MAX && bytes < APPLIED_AT_ONCE_BYTES {
            let before = out.bytes();
            let (proposal, log) = self.proposals.pop().expect("there is a first one");
            let record = Record::decode(&log.bytes[proposal.span.clone()]).expect("own records decode");
            let outcome = state.apply(&record, self.pending.applied(proposal.zxid), out);
            self.counters.propagation_ms.note(now.wall_ms.saturating_sub(record.header.time_ms), 1);
            self.counters.writes.note_write(&record.txn);
            self.digest_mismatches += u64::from(outcome.digest_differs);
            let TxnHeader { session, cxid, .. } = record.header;
            let own = match proposal.proposer {
                Proposer::Client => self.pending_writes.pop(),
                Proposer::Leader => self.pending_writes.pop_match(session, cxid),
                Proposer::Server | Proposer::Learner(_) => None,
            };
            if let Some(own) = own {
                if let Some(own) = self.hold_reply(own, &record, &outcome.applied) {
                    self.reply(now, &own, &record, &outcome.applied, out);
                    self.reply_all(own.waiting, state, out);
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

    /// Transactions that are proposed and not applied.
    pub fn outstanding(&self) -> usize {
        self.proposals.len()
    }

    pub fn last_proposed(&self) -> Zxid {
        self.last_proposed_zxid
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions after `after`, at most `max`, for the command `dump`.
    pub fn session_infos_after(&self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        self.sessions.infos_after(after, max)
    }

    pub fn counters_mut(&mut self) -> &mut ReplicaCounters {
        &mut self.counters
    }

    /// Transactions whose digest did not match the tree; 0 unless the state is corrupt.
    pub fn digest_mismatches(&self) -> u64 {
        self.digest_mismatches
    }

    fn on_connect(&mut self, now: Now, conn: ConnId, input: &ClientInput, state: &State, out: &mut Outboxes) {
        let ClientInput::Connect { address, ids, .. } = input else { return };
        state.watches().lock().add_watcher(conn.into(), *address);
        let handshake = self.is_member().then(|| self.handshakes.begin(now, input.clone()));
        self.conns.insert(ConnState::new(conn, Arc::clone(ids), handshake));
        if !self.keep_handshake(now, conn) {
            self.on_handshake(now, conn, input, state, out);
        }
    }

    fn on_handshake(&mut self, now: Now, conn: ConnId, input: &ClientInput, state: &State, out: &mut Outboxes) {
        let ClientInput::Connect { session, last_zxid_seen, proven, timeout_ms, read_only, address, last_seen, .. } =
            input
        else {
            return;
        };
        if state.last_zxid() < *last_zxid_seen && !self.was_never_committed(*last_zxid_seen) {
            if !self.keep_until_applied(now, conn, *last_zxid_seen) {
                self.close(conn, out);
            }
            return;
        }
        if !(self.takes_clients() || self.is_read_only()) || !self.may_connect(*session, *read_only) {
            return self.close(conn, out);
        }
        let params =
            ConnectParams { conn, address: *address, timeout_ms: *timeout_ms, read_only: *read_only, last_seen };
        if *session == SessionId::NONE {
            if self.log_space.writes() == WriteAdmission::None && !self.local.is_on() {
                return self.close(conn, out);
            }
            if !self.addresses.may_create(*address) {
                self.counters.refused_session(*address);
                return self.close(conn, out);
            }
            if self.local.is_on() {
                return self.open_local(now, &params, state, out);
            }
            let id = self.new_session_id(state);
            let (timeout_ms, read_only, address) = (*timeout_ms, *read_only, *address);
            let origin = Origin::Connect { conn, address, timeout_ms, read_only, last_seen: last_seen.clone() };
            let own = PendingWrite::new(id, 0, origin);
            if let Role::Learner(link) = self.role {
                return self.forward(link, OpCode::CreateSession, &timeout_ms.to_be_bytes(), NO_IDS, own);
            }
            if self.propose_create_session(now, id, timeout_ms, Proposer::Client, state) {
                self.wait_for(own, 0);
            }
            return;
        }
        self.counters.resumed += 1;
        // Compat: a handshake takes the session from its old connection before the password is checked.
        let owner = self.sessions.conn(*session).or_else(|| self.local.sessions.conn(*session));
        if let Some(old) = owner.filter(|old| *old != conn) {
            let waited_ms = self.conns.get(old).and_then(|old| old.replied_ms);
            self.sessions.detach(*session, old, waited_ms);
            self.local.sessions.detach(*session, old, waited_ms);
            self.close(old, out);
        }
        if *proven && self.resume_local(now, *session, &params, out) {
            return;
        }
        if let Role::Learner(link) = self.role
            && *proven
        {
            let by = RequestedBy::Conn { conn, address: *address, read_only: *read_only, last_seen: last_seen.clone() };
            return self.revalidate(link, Revalidating { session: *session, timeout_ms: *timeout_ms, by }, out);
        }
        if *proven && self.sessions.attach(*session, *timeout_ms, now.mono_ms, last_seen.clone(), conn) {
            self.addresses.count(*session, *address);
            let granted = Granted { session: *session, timeout_ms: *timeout_ms, read_only: *read_only };
            if self.is_member() && !state.has_session(*session) {
                self.confirm_leadership(syncs::SyncWaiter::ResumedConn(conn, granted));
            } else {
                self.resume(conn, granted, out);
            }
        } else if *proven && self.is_member() && !self.is_read_only() {
            self.confirm_leadership(syncs::SyncWaiter::ExpiredConn(conn, *read_only));
        } else {
            self.refuse(conn, *read_only, out);
        }
    }

    /// Replies to a handshake that its session has expired.
    fn refuse(&mut self, conn: ConnId, read_only: Option<bool>, out: &mut Outboxes) {
        let read_only = self.read_only_field(read_only);
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |bytes| ConnectResponse::refused(read_only).put_frame(bytes));
    }

    /// Closes a connection without a reply. Its session stays.
    fn close(&mut self, conn: ConnId, out: &mut Outboxes) {
        self.conns.deactivate(conn);
        out.of(conn).push(conn, PartKind::Close, |_| ());
    }

    fn on_gone(&mut self, conn: ConnId, state: &State) {
        if let Some(gone) = self.conns.remove(conn) {
            self.sessions.detach(gone.session, conn, gone.replied_ms);
            self.local.sessions.detach(gone.session, conn, gone.replied_ms);
            gone.handshake.into_iter().for_each(|handshake| self.handshakes.forget(&handshake));
        }
        self.syncs.forget(conn);
        state.watches().lock().drop_watcher(conn.into());
    }

    fn on_write(&mut self, now: Now, conn: ConnId, request: (i32, OpCode, &[u8]), state: &State, out: &mut Outboxes) {
        let (xid, op, body) = request;
        let Some(requester) = self.conns.get(conn).filter(|conn| conn.may_write()) else { return };
        let (session, ids) = (requester.session, Arc::clone(&requester.ids));
        let is_local = self.local.sessions.is_known(session);
        if is_local && op == OpCode::CloseSession {
            return self.close_local(conn, xid, state, out);
        }
        let refused = match self.role {
            Role::ReadOnly => Some(ErrorCode::NotReadOnly),
            Role::Learner(_) if self.log_space.leader_refuses(now, op, body) => Some(ErrorCode::ThrottledOp),
            Role::Learner(_) => ops::check_body(op, body).err(),
            Role::Leader if op == OpCode::CloseSession || self.log_space.writes().allow(op, body) => None,
            Role::Leader | Role::None => Some(ErrorCode::ThrottledOp),
        };
        if let Some(code) = refused {
            return self.reply_in_order(conn, Reply::Refused(xid, code), state, out);
        }
        let mut own = PendingWrite::new(session, xid, Origin::Request(conn));
        if is_local {
            match self.before_local_write(now, conn, session, (op, body), state) {
                LocalWrite::Proceed => (),
                LocalWrite::RefuseEphemerals(code) => own.no_ephemerals = Some(code),
                LocalWrite::Drop => return,
            }
        }
        if let Role::Learner(link) = self.role {
            let ids = self.conns.get_mut(conn).map_or(NO_IDS, ConnState::encoded_ids);
            return self.forward(link, op, body, ids, own);
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
        let change = ReconfigCheck { zab: &self.zab, prepared: self.reconfigures_at, rules: self.change_rules };
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
            (None, Some(code)) => self.reply_in_order(conn, Reply::Refused(xid, code), state, out),
            (None, None) => unreachable!("a write is proposed or refused"),
        }
    }

    /// Zxid and time of the next transaction. None if the epoch has no zxid left; the leader then steps down.
    fn stamp(&mut self, now: Now, session: SessionId) -> Option<WriteStamp> {
        let zxid = Zxid(self.last_proposed_zxid.0 + 1);
        let next = Epoch::next_zxid(self.last_proposed_zxid).filter(|next| next.counter() <= self.counter_max);
        if self.is_member() && next != Some(zxid) {
            self.peer(now, PeerInput::StepDown(Reason::ZxidRollover));
            return None;
        }
        Some(WriteStamp { zxid, time_ms: now.wall_ms, session })
    }

    /// Proposes a transaction of the server itself. False if there is nothing to propose.
    fn propose(
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

    fn enter(&mut self, proposal: Proposal) {
        self.last_proposed_zxid = proposal.zxid;
        if let Zab::Standalone(order) = &mut self.zab {
            order.propose(proposal.zxid);
        }
        self.log_space.spend(proposal.span.len());
        self.proposals.push(proposal);
    }

    /// Registers a write that is replied to when it is applied. It holds `bytes` until then.
    fn wait_for(&mut self, own: PendingWrite, bytes: usize) {
        let conn = own.origin.conn();
        let number = self.pending_writes.push(own, bytes);
        if let Some(conn) = self.conns.get_mut(conn) {
            conn.last_write = Some(number);
        }
    }

    /// Replies now, or after the connection's last write in flight.
    fn reply_in_order(&mut self, conn: ConnId, what: Reply, state: &State, out: &mut Outboxes) {
        let Some(requester) = self.conns.get(conn).filter(|conn| conn.active) else { return };
        let waiting = Waiting { conn, ids: Arc::clone(&requester.ids), what };
        let last_write = requester.last_write.and_then(|number| self.pending_writes.get_mut(number));
        match last_write.map(|own| &mut own.waiting).or_else(|| self.config_reply.queue_of(conn)) {
            Some(behind) => behind.push(waiting),
            None => self.reply_waiting(waiting, state, out),
        }
    }

    fn reply_all(&mut self, waiting: Vec<Waiting>, state: &State, out: &mut Outboxes) {
        for waiting in waiting {
            self.reply_waiting(waiting, state, out);
        }
    }

    fn reply_waiting(&mut self, waiting: Waiting, state: &State, out: &mut Outboxes) {
        let Waiting { conn, ids, what } = waiting;
        if let Reply::Resumed(granted) = what {
            return self.attach(conn, granted, out);
        }
        if self.lacks_memory_for(&what, state) {
            return self.close(conn, out);
        }
        let Some(requester) = self.conns.get_mut(conn).filter(|conn| conn.active) else { return };
        let outbox = out.of(conn);
        match what {
            Reply::Refused(xid, code) => outbox.reply(conn, |bytes| {
                put_bare_reply(bytes, ReplyHeader { xid, zxid: state.last_zxid(), err: code.code() });
            }),
            Reply::Resumed(_) => (),
            Reply::Closed(xid) => {
                requester.active = false;
                let header = ReplyHeader { xid, zxid: state.last_zxid(), err: 0 };
                outbox.push(conn, PartKind::Close, |bytes| put_bare_reply(bytes, header));
            }
            Reply::Entry(submission, at) => {
                let entry = &submission.entries[at];
                let body = &submission.bytes[entry.span.clone()];
                match entry.input {
                    ClientInput::Request { xid, op } => {
                        let mut then = AfterReply::Continue;
                        outbox.reply(conn, |bytes| {
                            let start = bytes.len();
                            let requester = Requester { watcher: conn.into(), session: requester.session, ids: &ids };
                            then = read::put_reply(state, requester, ReadRequest { xid, op, body }, bytes);
                            self.counters.reads.note_read(op, body, &bytes[start..]);
                            self.replies_left = self.replies_left.saturating_sub(bytes.len() - start);
                        });
                        if then == AfterReply::Close {
                            self.close(conn, out);
                        }
                    }
                    ClientInput::ReplyAndClose => {
                        requester.active = false;
                        outbox.push(conn, PartKind::Close, |bytes| bytes.extend_from_slice(body));
                    }
                    ClientInput::Reply
                    | ClientInput::Throttled { .. }
                    | ClientInput::Connect { .. }
                    | ClientInput::Identified(_)
                    | ClientInput::Gone => {
                        outbox.reply(conn, |bytes| bytes.extend_from_slice(body));
                    }
                }
            }
        }
    }

    /// Replies to an applied transaction.
    fn reply(
        &mut self,
        now: Now,
        own: &PendingWrite,
        record: &Record<'_>,
        applied: &ox_tree::Applied,
        out: &mut Outboxes,
    ) {
        let session = record.header.session;
        if record.header.kind == OpCode::CloseSession.code() {
            return self.on_closed(session, Some(&own.origin), record, applied, out);
        }
        match &own.origin {
            Origin::Upgrade(_) => (),
            Origin::Connect { conn, address, timeout_ms, read_only, last_seen } => {
                self.addresses.count(session, *address);
                let alive = self.conns.get(*conn).is_some();
                // A learner tracks only sessions with a connection, whose touches it reports to the leader.
                if alive || !matches!(self.role, Role::Learner(_)) {
                    self.sessions.add(session, *timeout_ms, now.mono_ms, last_seen.clone(), alive.then_some(*conn));
                }
                let (timeout_ms, read_only) = (*timeout_ms, *read_only);
                self.attach(*conn, Granted { session, timeout_ms, read_only }, out);
            }
            Origin::Request(conn) => {
                if matches!(self.role, Role::Learner(_)) {
                    self.log_space.on_reply(now, &record.txn);
                }
                // A leader that does not know a local session refuses the write with another error.
                let local_error = own.no_ephemerals.filter(|_| record.header.kind == OpCode::Error.code());
                if local_error.is_none() && record.txn.is_session_moved() {
                    // Compat: no reply, so that the client reconnects; it would keep a connection that replies.
                    return self.close(*conn, out);
                }
                if let Some(requester) = self.conns.get_mut(*conn).filter(|conn| conn.active) {
                    requester.replied_ms = Some(now.mono_ms);
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
