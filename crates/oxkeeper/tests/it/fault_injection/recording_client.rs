//! A client that records everything it sends and receives.

use ox_history::{Create, HandshakeReply, Op, ReceivedFrame, RecordedConnection, ReplyBody, SentRequest, Time, wire};
use ox_proto::connect::ConnectResponse;
use ox_proto::event::WatcherEvent;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{Reader, SessionId, Zxid};
use ox_testkit::{RawConnection, RawHandshake, Rng};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than any run: no session may expire.
pub(crate) const SESSION_MS: i32 = 600_000;
/// The client leaves a server that does not reply within this time.
const PATIENCE: Duration = Duration::from_millis(2500);
/// Nodes that all clients write.
const REGISTERS: usize = 4;

/// What all clients of a run share.
pub(crate) struct Scene {
    pub(crate) addresses: Vec<SocketAddr>,
    begun: Instant,
    pub(crate) stop: AtomicBool,
    pub(crate) writes: AtomicUsize,
    last_write_us: AtomicI64,
    pub(crate) longest_pause_us: AtomicI64,
}

impl Scene {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Arc<Self> {
        Arc::new(Self {
            addresses,
            begun: Instant::now(),
            stop: AtomicBool::new(false),
            writes: AtomicUsize::new(0),
            last_write_us: AtomicI64::new(0),
            longest_pause_us: AtomicI64::new(0),
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time(i64::try_from(self.begun.elapsed().as_micros()).unwrap())
    }

    fn note_write(&self) {
        let now = self.now().0;
        let last = self.last_write_us.swap(now, Ordering::Relaxed);
        self.longest_pause_us.fetch_max(now - last, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct RecordingClient {
    scene: Arc<Scene>,
    number: usize,
    rng: Rng,
    hello: RawHandshake,
    xid: i32,
    stream: Option<RawConnection>,
    pending: VecDeque<(i32, Op)>,
    versions: BTreeMap<String, i32>,
    own: Vec<String>,
    pub(crate) seen: Vec<RecordedConnection>,
}

impl RecordingClient {
    pub(crate) fn new(scene: &Arc<Scene>, number: usize, seed: u64) -> Self {
        Self {
            scene: Arc::clone(scene),
            number,
            rng: Rng::new(seed),
            hello: RawHandshake::new(SESSION_MS),
            xid: 0,
            stream: None,
            pending: VecDeque::new(),
            versions: BTreeMap::new(),
            own: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Creates the nodes that all clients use.
    pub(crate) fn prepare(&mut self) {
        let registers = (0..REGISTERS).map(|number| format!("/r{number}"));
        let paths: Vec<String> = registers.chain(["/s", "/q", "/e"].map(str::to_owned)).collect();
        self.until(|client| client.connect());
        for path in paths {
            let made = self.exchange(vec![Op::Create(Create::open(&path, b"", 0))]);
            assert!(made.is_some(), "{path} before anything happens");
        }
    }

    /// Sends requests until it is stopped.
    pub(crate) fn run(mut self) -> Vec<RecordedConnection> {
        while !self.scene.stop.load(Ordering::Relaxed) {
            if self.stream.is_none() && self.connect().is_none() {
                std::thread::sleep(Duration::from_millis(self.rng.index(30) as u64));
                continue;
            }
            let count = 1 + self.rng.index(4);
            let burst = (0..count).flat_map(|_| self.next_ops()).collect();
            if self.exchange(burst).is_none() || self.rng.index(200) == 0 {
                self.disconnect();
            }
            std::thread::sleep(Duration::from_micros(self.rng.index(3000) as u64));
        }
        self.close()
    }

    /// Closes the session, however long it takes.
    pub(crate) fn close(mut self) -> Vec<RecordedConnection> {
        self.until(|client| {
            if client.stream.is_none() {
                client.connect()?;
            }
            let done = client.exchange(vec![Op::CloseSession]);
            client.disconnect();
            done
        });
        self.seen
    }

    fn until(&mut self, step: impl Fn(&mut Self) -> Option<()>) {
        let until = Instant::now() + Duration::from_secs(60);
        while step(self).is_none() {
            assert!(Instant::now() < until, "client {}: no server serves", self.number);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn disconnect(&mut self) {
        self.stream = None;
        self.pending.clear();
        let now = self.scene.now();
        if let Some(last) = self.seen.last_mut() {
            last.closed.get_or_insert(now);
        }
    }

    fn connect(&mut self) -> Option<()> {
        let server = self.rng.index(self.scene.addresses.len());
        let mut stream = RawConnection::try_connect(self.scene.addresses[server]).ok()?.with_timeout(PATIENCE);
        self.seen.push(RecordedConnection {
            server: server as u32,
            address: "127.0.0.1".to_owned(),
            opened: self.scene.now(),
            requested_session: self.hello.session,
            requested_timeout_ms: SESSION_MS,
            has_valid_password: true,
            last_zxid_seen: Zxid(self.hello.last_zxid_seen),
            granted: None,
            is_read_only: false,
            requests: Vec::new(),
            received: Vec::new(),
            closed: None,
        });
        let answer = stream.try_send(&self.hello.frame()).then(|| stream.try_frame()).flatten();
        let (at, last) = (self.scene.now(), self.seen.last_mut()?);
        let Some(payload) = answer else {
            last.closed = Some(at);
            return None;
        };
        let answer = ConnectResponse::decode(&payload).expect("an answer to a handshake");
        let (session, timeout_ms) = (answer.session, answer.timeout_ms);
        if session == SessionId::NONE {
            last.granted = Some(HandshakeReply::Refused { at });
            last.closed = Some(at);
            panic!("client {}: {} says that session {} is gone", self.number, server + 1, self.hello.session);
        }
        last.granted = Some(HandshakeReply::Session { at, session, timeout_ms });
        self.hello = RawHandshake { last_zxid_seen: self.hello.last_zxid_seen, ..RawHandshake::resume(&answer) };
        self.stream = Some(stream);
        Some(())
    }

    /// Sends requests together and waits for all replies; `None` if the connection is lost.
    fn exchange(&mut self, ops: Vec<Op>) -> Option<()> {
        let mut bytes = Vec::new();
        let connection = self.seen.last_mut()?;
        for op in ops {
            self.xid += 1;
            wire::put_request(&mut bytes, self.xid, &op);
            connection.requests.push(SentRequest { at: self.scene.now(), xid: self.xid, op: op.clone() });
            self.pending.push_back((self.xid, op));
        }
        self.stream.as_mut()?.try_send(&bytes).then_some(())?;
        while !self.pending.is_empty() {
            let payload = self.stream.as_mut()?.try_frame()?;
            self.on_frame(&payload);
        }
        Some(())
    }

    fn on_frame(&mut self, payload: &[u8]) {
        let at = self.scene.now();
        let mut from = Reader::new(payload);
        let header: ReplyHeader = from.get().expect("a header");
        let received = if header.xid == xid::NOTIFICATION {
            let event = WatcherEvent::get(&mut from).expect("an event");
            ReceivedFrame::Event { at, zxid: header.zxid, kind: event.kind, path: event.path.into_owned() }
        } else {
            let (_, op) = self.pending.pop_front().expect("an answer to a request");
            let body = wire::decode_body(&op, header.err, from.rest());
            self.hello.last_zxid_seen = self.hello.last_zxid_seen.max(header.zxid.0);
            self.learn(&op, header.err, &body);
            ReceivedFrame::Reply { at, xid: header.xid, zxid: header.zxid, err: header.err, body }
        };
        if let Some(connection) = self.seen.last_mut() {
            connection.received.push(received);
        }
    }

    fn learn(&mut self, op: &Op, err: i32, body: &ReplyBody) {
        // Deletes succeed even on a full disk.
        if op.is_write() && err == 0 && !matches!(op, Op::Delete { .. } | Op::CloseSession) {
            self.scene.note_write();
        }
        if let (Op::SetData { path, .. } | Op::GetData { path, .. }, Some(stat)) = (op, body.stat()) {
            self.versions.insert(path.clone(), stat.version);
        }
        if let (Op::Create(create), ReplyBody::Path(path)) = (op, body)
            && create.path != "/s"
        {
            self.own.push(path.clone());
        }
    }

    /// The next requests of a typical coordination client.
    fn next_ops(&mut self) -> Vec<Op> {
        let register = format!("/r{}", self.rng.index(REGISTERS));
        let other = format!("/r{}", self.rng.index(REGISTERS));
        let data = Some(format!("{}-{}", self.number, self.xid).into_bytes());
        let (path, watch) = (register.clone(), self.rng.index(3) == 0);
        let name = |kind: &str| format!("/{kind}/{}-{}-{}", self.number, self.xid, self.own.len());
        let set = |path: String, version| Op::SetData { path, data: data.clone(), version };
        match self.rng.index(16) {
            0..4 => vec![set(path, self.versions.get(&register).copied().unwrap_or(-1))],
            4 => vec![set(path, -1)],
            5 => vec![Op::Create(Create::open(&name("s"), b"set", 0))],
            6 => vec![Op::Create(Create::open("/q/n-", b"queue", 2))],
            7 => vec![Op::Create(Create::open(&name("e"), b"mine", 1))],
            8 | 9 => match self.own.is_empty() {
                true => vec![Op::Exists { path, watch: true }],
                false => {
                    let at = self.rng.index(self.own.len());
                    vec![Op::Delete { path: self.own.swap_remove(at), version: -1 }]
                }
            },
            10 => vec![Op::Multi(vec![set(path, -1), set(other, -1)])],
            11 | 12 => vec![Op::GetData { path, watch }],
            13 => vec![Op::GetChildren { path: "/q".to_owned(), watch }],
            14 => vec![Op::Exists { path: name("s"), watch }],
            _ => vec![Op::Sync { path: path.clone() }, Op::GetData { path, watch: false }],
        }
    }
}
