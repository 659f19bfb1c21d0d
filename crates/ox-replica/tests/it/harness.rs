//! A replica with its connections, log and network, on one thread.

use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::frame::split_frame;
use ox_proto::password::session_password;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{
    CreateRequest, PathRequest, PathWatch, ReconfigRequest, SetDataRequest, put_bare_request, put_request,
};
use ox_proto::{OpCode, RawAcls, Reader, SessionId, Zxid};
use ox_replica::outbox::{Outbox, PartKind};
use ox_replica::{
    Admission, ClientInput, Conn, ConnAuth, ConnId, ConnSettings, FrameOutcome, LocalSessions, LogBatch, LogJob, Now,
    Replica, ReplicaEffect, ReplicaEffects, ReplicaInput, ReplicaSettings, SaslOutcome, SaslServer, SaslService,
    Service, Submission,
};
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_tree::{State, TreeOptions};
use ox_zab::{DiskDone, LinkId, Message, QuorumPeer, ServerId};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub(crate) const SETTINGS: ConnSettings = ConnSettings {
    min_timeout_ms: 1000,
    max_timeout_ms: 60_000,
    throttled_op_wait_ms: 0,
    drop_late: false,
    syncs_travel: false,
    auth: ConnAuth::NONE,
};

/// A client's end of a connection.
pub(crate) struct Side {
    pub(crate) conn: Conn,
    /// Bytes that were sent and not processed.
    pub(crate) input: Vec<u8>,
    /// Bytes for the client that the test has not read.
    pub(crate) output: Vec<u8>,
    pub(crate) is_closed: bool,
}

/// Xid, zxid, error and body of a reply.
pub(crate) type Reply = (i32, i64, i32, Vec<u8>);

pub(crate) struct Harness {
    pub(crate) state: State,
    pub(crate) replica: Replica,
    pub(crate) sides: Vec<Side>,
    pub(crate) now: Now,
    pub(crate) admission: Admission,
    pub(crate) small_replies_only: bool,
    pub(crate) settings: ConnSettings,
    pub(crate) sasl: Option<SaslServer>,
    pub(crate) sasl_outcomes: Vec<SaslOutcome>,
    replays: ReplayCache,
    submission: Submission,
    /// Submissions that the replica has not processed.
    pub(crate) inbox: VecDeque<Submission>,
    /// Log batches that are not durable.
    pub(crate) log: VecDeque<Arc<LogBatch>>,
    pub(crate) effects: ReplicaEffects,
    /// Outboxes that were not delivered.
    mail: VecDeque<Outbox>,
    /// Disk jobs that are not done.
    jobs: VecDeque<DiskDone>,
    /// Packets that were sent to other servers.
    pub(crate) sent: Vec<(LinkId, Message)>,
}

pub(crate) fn replica_settings(server: u8, session_clock_ms: i64) -> ReplicaSettings {
    ReplicaSettings {
        tick_ms: 1000,
        server,
        session_clock_ms,
        threads: 1,
        sweep_interval_ms: 60_000,
        sweep_per_minute: 10_000,
        sweep_never_used_ms: 0,
        change_rules: ox_proto::ensemble::ChangeRules::default(),
        local_sessions: LocalSessions::Off,
        leader_serves: true,
        read_only_after_ms: None,
        park_limit_ms: 0,
        sessions_per_address: 0,
        audits: false,
        epoch_txns: u32::MAX,
    }
}

/// A standalone server with these settings and this state.
pub(crate) fn standalone(settings: ReplicaSettings, state: &State, now: Now) -> Replica {
    let peer = QuorumPeer::standalone(ServerId(settings.server.into()), state.last_zxid());
    Replica::new(settings, peer, state, now)
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::of_server(1, 5)
    }

    pub(crate) fn of_server(server: u8, wall_ms: i64) -> Self {
        let options = TreeOptions { extended_types: true, ..TreeOptions::default() };
        let now = Now { mono_ms: 0, wall_ms };
        let state = State::new(options);
        Self {
            replica: standalone(replica_settings(server, now.wall_ms), &state, now),
            state,
            sides: Vec::new(),
            now,
            admission: Admission::Open,
            small_replies_only: false,
            settings: SETTINGS,
            sasl: None,
            sasl_outcomes: Vec::new(),
            replays: ReplayCache::default(),
            submission: Submission::default(),
            inbox: VecDeque::new(),
            log: VecDeque::new(),
            effects: ReplicaEffects::new(1),
            jobs: VecDeque::new(),
            mail: VecDeque::new(),
            sent: Vec::new(),
        }
    }

    /// A connection that has sent a handshake.
    pub(crate) fn connect(&mut self, session: SessionId, timeout_ms: i32) -> usize {
        self.connect_as(session, timeout_ms, Some(false))
    }

    /// The same; `read_only` is the field of the handshake.
    pub(crate) fn connect_as(&mut self, session: SessionId, timeout_ms: i32, read_only: Option<bool>) -> usize {
        let number = self.sides.len();
        let id = ConnId::new(0, number, number as u64 + 1);
        let mut input = Vec::new();
        let password = session_password(session);
        ConnectRequest { last_zxid_seen: Zxid::ZERO, timeout_ms, session, password: Some(&password), read_only }
            .put_frame(&mut input);
        let conn = Conn::new(id, IpAddr::V4(Ipv4Addr::LOCALHOST));
        self.sides.push(Side { conn, input, output: Vec::new(), is_closed: false });
        number
    }

    /// A connection whose client has seen this zxid.
    pub(crate) fn connect_after(&mut self, session: SessionId, last_zxid_seen: Zxid) -> usize {
        let side = self.connect(session, 10_000);
        let password = session_password(session);
        let input = &mut self.sides[side].input;
        input.clear();
        ConnectRequest {
            last_zxid_seen,
            timeout_ms: 10_000,
            session,
            password: Some(&password),
            read_only: Some(false),
        }
        .put_frame(input);
        side
    }

    /// A client with a new session.
    pub(crate) fn client(&mut self) -> (usize, SessionId) {
        let side = self.connect(SessionId::NONE, 10_000);
        self.settle();
        (side, self.hello(side).session)
    }

    /// The reply to a handshake.
    pub(crate) fn hello(&mut self, side: usize) -> ConnectResponse {
        ConnectResponse::decode(&self.frame(side).expect("an answer")).expect("to a handshake")
    }

    fn frame(&mut self, side: usize) -> Option<Vec<u8>> {
        let output = &mut self.sides[side].output;
        let (payload, rest) = split_frame(output, usize::MAX).unwrap()?;
        let (payload, used) = (payload.to_vec(), output.len() - rest.len());
        output.drain(..used);
        Some(payload)
    }

    /// Replies and events that were delivered to a client.
    pub(crate) fn replies(&mut self, side: usize) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(payload) = self.frame(side) {
            let mut from = Reader::new(&payload);
            let ReplyHeader { xid, zxid, err } = from.get().unwrap();
            replies.push((xid, zxid.0, err, from.rest().to_vec()));
        }
        replies
    }

    /// An I/O thread serves one connection: outboxes first, then its frames.
    pub(crate) fn serve(&mut self, side: usize) {
        self.deliver();
        let Side { conn, input, output, is_closed } = &mut self.sides[side];
        let mut rest = &input[..];
        while !*is_closed && conn.may_take(self.admission) {
            let Ok(Some((payload, behind))) = split_frame(rest, 1 << 20) else { break };
            let mut service = Service {
                now: self.now,
                state: &self.state,
                settings: self.settings,
                admission: self.admission,
                small_replies_only: self.small_replies_only,
                waited_ms: 0,
                admit: &|_| true,
                out: output,
                submission: &mut self.submission,
            };
            match conn.on_frame(payload, &mut service) {
                FrameOutcome::Continue => rest = behind,
                FrameOutcome::Wait(_) => break,
                FrameOutcome::Close => *is_closed = true,
            }
            if let Some(server) = self.sasl.as_ref().filter(|_| conn.has_sasl_token()) {
                let random: &mut dyn FnMut(&mut [u8]) = &mut |bytes| bytes.fill(7);
                let mut service = SaslService { server, now: self.now, replays: &self.replays, random };
                let outcome = conn.step_sasl(self.settings.auth, &mut service, output, &mut self.submission);
                self.sasl_outcomes.extend(outcome);
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        if *is_closed {
            let id = conn.id();
            input.clear();
            self.submission.push(id, ClientInput::Gone, &[]);
        }
        self.hand_over();
    }

    pub(crate) fn cut(&mut self, side: usize) {
        self.sides[side].is_closed = true;
        self.submission.push(self.sides[side].conn.id(), ClientInput::Gone, &[]);
        self.hand_over();
    }

    fn hand_over(&mut self) {
        if !self.submission.is_empty() {
            self.inbox.push_back(std::mem::take(&mut self.submission));
        }
    }

    /// Passes one input to the replica.
    pub(crate) fn pass(&mut self, input: ReplicaInput) {
        self.replica.step(self.now, input, &self.state, &mut self.effects);
    }

    /// The replica processes one submission, and hands over its log batch.
    pub(crate) fn step(&mut self) {
        if let Some(submission) = self.inbox.pop_front() {
            self.pass(ReplicaInput::Clients(submission));
        }
        self.flush();
        self.post();
    }

    pub(crate) fn on_time(&mut self) {
        self.pass(ReplicaInput::Time);
        self.flush();
    }

    /// Ends a batch of inputs. Log batches and disk jobs are queued, packets are kept.
    fn flush(&mut self) {
        self.pass(ReplicaInput::Flush);
        for effect in self.effects.take() {
            match effect {
                ReplicaEffect::Log(batch) => self.log.push_back(batch),
                ReplicaEffect::Disk(job) => {
                    self.jobs.push_back(done(&job));
                    if let LogJob::Install(snapshot) = job {
                        self.state = *snapshot;
                    }
                }
                ReplicaEffect::Send(link, message) => self.sent.push((link, message)),
                _ => (),
            }
        }
    }

    /// One more log batch is durable.
    pub(crate) fn sync(&mut self) {
        if let Some(batch) = self.log.pop_front() {
            self.pass(ReplicaInput::Durable(batch.last));
        }
    }

    pub(crate) fn apply(&mut self) {
        if self.replica.has_committed() {
            self.replica.apply(self.now, &mut self.state, &mut self.effects);
            self.post();
        }
    }

    pub(crate) fn post(&mut self) {
        if !self.effects.outboxes.0[0].is_empty() {
            self.mail.push_back(std::mem::take(&mut self.effects.outboxes.0[0]));
        }
    }

    fn deliver(&mut self) {
        for outbox in std::mem::take(&mut self.mail) {
            for part in &outbox.parts {
                let side = &mut self.sides[part.conn.slot()];
                if side.is_closed {
                    continue;
                }
                let bytes = &outbox.bytes[part.span.clone()];
                side.output.extend_from_slice(bytes);
                match part.kind {
                    PartKind::Event(_) => (),
                    PartKind::Replies(count) => side.conn.on_replies(count, bytes.len()),
                    PartKind::Attached(session, timeout_ms) => side.conn.on_attached(session, timeout_ms),
                    PartKind::Close => {
                        side.conn.start_closing();
                        side.is_closed = true;
                        side.input.clear();
                        self.submission.push(part.conn, ClientInput::Gone, &[]);
                    }
                }
            }
        }
        self.hand_over();
    }

    /// Runs everything until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        loop {
            let before = self.progress();
            (0..self.sides.len()).for_each(|side| self.serve(side));
            while !self.inbox.is_empty() {
                self.step();
            }
            while !self.log.is_empty() {
                self.sync();
            }
            while self.replica.has_committed() {
                self.apply();
            }
            while let Some(done) = self.jobs.pop_front() {
                self.pass(ReplicaInput::Done(done));
            }
            self.flush();
            self.post();
            let is_idle = self.log.is_empty() && self.jobs.is_empty() && !self.replica.has_committed();
            if self.progress() == before && self.mail.is_empty() && self.inbox.is_empty() && is_idle {
                return;
            }
        }
    }

    fn progress(&self) -> (usize, usize, i64) {
        let input = self.sides.iter().map(|side| side.input.len()).sum();
        let output = self.sides.iter().map(|side| side.output.len()).sum();
        (input, output, self.replica.status().last_proposed().0)
    }

    pub(crate) fn create(&mut self, side: usize, xid: i32, path: &str, flags: i32) {
        let body = CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags };
        put_request(&mut self.sides[side].input, xid, OpCode::Create.code(), &body);
    }

    pub(crate) fn set(&mut self, side: usize, xid: i32, path: &str, data: &[u8]) {
        let body = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        put_request(&mut self.sides[side].input, xid, OpCode::SetData.code(), &body);
    }

    pub(crate) fn get(&mut self, side: usize, xid: i32, path: &str, watch: bool) {
        let body = PathWatch { path: Some(path.into()), watch };
        put_request(&mut self.sides[side].input, xid, OpCode::GetData.code(), &body);
    }

    pub(crate) fn sync_path(&mut self, side: usize, xid: i32, path: &str) {
        let body = PathRequest { path: Some(path.into()) };
        put_request(&mut self.sides[side].input, xid, OpCode::Sync.code(), &body);
    }

    pub(crate) fn reconfig(&mut self, side: usize, xid: i32, joining: &str) {
        let body = ReconfigRequest { joining: Some(joining.into()), leaving: None, members: None, config: -1 };
        put_request(&mut self.sides[side].input, xid, OpCode::Reconfig.code(), &body);
    }

    pub(crate) fn bare(&mut self, side: usize, xid: i32, op: OpCode) {
        put_bare_request(&mut self.sides[side].input, xid, op.code());
    }
}

/// The report of a job's success.
pub(crate) fn done(job: &LogJob) -> DiskDone {
    match job {
        LogJob::AcceptedEpoch(epoch) => DiskDone::AcceptedEpoch(*epoch),
        LogJob::CurrentEpoch(epoch) => DiskDone::CurrentEpoch(*epoch),
        LogJob::Truncate(zxid) => DiskDone::Truncated(Some(*zxid)),
        LogJob::Install(snapshot) => DiskDone::Installed(snapshot.last_zxid()),
        LogJob::InitializeLog => DiskDone::LogInitialized,
    }
}
