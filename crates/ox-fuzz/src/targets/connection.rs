//! A complete byte stream of a client: framing, handshake and requests, through connection core and replica.

use ox_proto::connect::ConnectRequest;
use ox_proto::frame::split_frame;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_proto::request::{CreateRequest, PathWatch, put_bare_request, put_request, xid};
use ox_proto::{OpCode, RawAcls, SessionId, Zxid};
use ox_replica::outbox::PartKind;
use ox_replica::{
    Admission, Conn, ConnAuth, ConnId, ConnSettings, FrameOutcome, LocalSessions, Now, Replica, ReplicaEffect,
    ReplicaEffects, ReplicaInput, ReplicaSettings, Service, Submission,
};
use ox_tree::{State, TreeOptions};
use ox_zab::{QuorumPeer, ServerId};

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let password = Some(&[0; 16][..]);
    ConnectRequest {
        last_zxid_seen: Zxid(0),
        timeout_ms: 10_000,
        session: SessionId::NONE,
        password,
        read_only: Some(false),
    }
    .put_frame(&mut out);
    let create = CreateRequest { path: Some("/a".into()), data: Some(b"x"), acl: RawAcls::OPEN, flags: 1 };
    put_request(&mut out, 1, OpCode::Create.code(), &create);
    put_request(&mut out, 2, OpCode::GetData.code(), &PathWatch { path: Some("/a".into()), watch: true });
    put_bare_request(&mut out, xid::PING, OpCode::Ping.code());
    put_bare_request(&mut out, 3, OpCode::WhoAmI.code());
    let open = out.clone();
    put_bare_request(&mut out, 4, OpCode::CloseSession.code());
    vec![open, out]
}

pub(super) fn run(input: &[u8]) {
    let mut harness = Harness::new();
    let mut rest = input;
    while let Ok(Some((payload, behind))) = split_frame(rest, FRAME_BYTES_MAX_DEFAULT) {
        rest = behind;
        if !harness.take(payload) {
            return;
        }
    }
}

struct Harness {
    state: State,
    replica: Replica,
    conn: Conn,
    effects: ReplicaEffects,
    now: Now,
}

impl Harness {
    fn new() -> Self {
        let state = State::new(TreeOptions::default());
        let settings = ReplicaSettings {
            tick_ms: 2000,
            server: 1,
            session_clock_ms: 1_700_000_000_000,
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
        };
        let now = Now { mono_ms: 1, wall_ms: 1_700_000_000_000 };
        let replica = Replica::new(settings, QuorumPeer::standalone(ServerId(1), Zxid::ZERO), &state, now);
        let conn = Conn::new(ConnId::new(0, 0, 1), [127, 0, 0, 1].into());
        Self { state, replica, conn, effects: ReplicaEffects::new(1), now }
    }

    /// Serves one frame completely. False if the connection is closed.
    fn take(&mut self, payload: &[u8]) -> bool {
        let (mut out, mut submission) = (Vec::new(), Submission::default());
        let settings = ConnSettings {
            min_timeout_ms: 4000,
            max_timeout_ms: 40_000,
            throttled_op_wait_ms: 0,
            drop_late: false,
            syncs_travel: false,
            auth: ConnAuth::NONE,
        };
        let mut service = Service {
            now: self.now,
            state: &self.state,
            settings,
            admission: Admission::Open,
            small_replies_only: false,
            waited_ms: 0,
            admit: &|_| true,
            out: &mut out,
            submission: &mut submission,
        };
        if self.conn.on_frame(payload, &mut service) == FrameOutcome::Close {
            return false;
        }
        self.pass(ReplicaInput::Clients(submission));
        self.pass(ReplicaInput::Flush);
        for effect in self.effects.take() {
            if let ReplicaEffect::Log(batch) = effect {
                self.pass(ReplicaInput::Durable(batch.last));
            }
        }
        while self.replica.has_committed() {
            self.replica.apply(self.now, &mut self.state, &mut self.effects);
        }
        let outbox = std::mem::take(&mut self.effects.outboxes.0[0]);
        for part in outbox.parts {
            match part.kind {
                PartKind::Attached(session, timeout_ms) => self.conn.on_attached(session, timeout_ms),
                PartKind::Replies(count) => self.conn.on_replies(count, part.span.len()),
                PartKind::Close => return false,
                PartKind::Event(_) => (),
            }
        }
        assert_eq!(self.conn.in_flight(), 0, "every request has a reply");
        true
    }

    fn pass(&mut self, input: ReplicaInput) {
        self.replica.step(self.now, input, &self.state, &mut self.effects);
    }
}
