//! Clients that send typical requests of coordination, and record them.

use ox_history::{Create, Op, RecordedConnection, ReplyBody, Time};
use ox_testkit::{RecordedReply, RecordingClient, Rng, recorded_time, wait_until};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than any run: no session may expire.
const SESSION_MS: i32 = 600_000;
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
        recorded_time(self.begun)
    }

    fn note_write(&self) {
        let now = self.now().0;
        let last = self.last_write_us.swap(now, Ordering::Relaxed);
        self.longest_pause_us.fetch_max(now - last, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct RandomClient {
    scene: Arc<Scene>,
    number: usize,
    rng: Rng,
    client: RecordingClient,
    versions: BTreeMap<String, i32>,
    own: Vec<String>,
}

impl RandomClient {
    pub(crate) fn new(scene: &Arc<Scene>, number: usize, seed: u64) -> Self {
        let client = RecordingClient::new(scene.begun, SESSION_MS);
        let (rng, versions, own) = (Rng::new(seed), BTreeMap::new(), Vec::new());
        Self { scene: Arc::clone(scene), number, rng, client, versions, own }
    }

    /// Creates the nodes that all clients use.
    pub(crate) fn prepare(&mut self) {
        let registers = (0..REGISTERS).map(|number| format!("/r{number}"));
        let paths: Vec<String> = registers.chain(["/s", "/q", "/e"].map(str::to_owned)).collect();
        wait_until("a server serves the first client", || self.connect().is_some());
        for path in paths {
            let made = self.exchange(vec![Op::Create(Create::open(&path, b"", 0))]);
            assert!(made.is_some(), "{path} before anything happens");
        }
    }

    /// Sends requests until it is stopped.
    pub(crate) fn run(mut self) -> Vec<RecordedConnection> {
        while !self.scene.stop.load(Ordering::Relaxed) {
            if !self.client.is_connected() && self.connect().is_none() {
                std::thread::sleep(Duration::from_millis(self.rng.index(30) as u64));
                continue;
            }
            let count = 1 + self.rng.index(4);
            let burst = (0..count).flat_map(|_| self.next_ops()).collect();
            if self.exchange(burst).is_none() || self.rng.index(200) == 0 {
                self.client.disconnect();
            }
            std::thread::sleep(Duration::from_micros(self.rng.index(3000) as u64));
        }
        self.close()
    }

    /// Closes the session, however long it takes.
    pub(crate) fn close(mut self) -> Vec<RecordedConnection> {
        wait_until(&format!("a server serves client {}", self.number), || {
            if !self.client.is_connected() && self.connect().is_none() {
                return false;
            }
            let is_closed = self.exchange(vec![Op::CloseSession]).is_some();
            self.client.disconnect();
            is_closed
        });
        self.client.into_recorded()
    }

    fn connect(&mut self) -> Option<()> {
        let server = self.rng.index(self.scene.addresses.len());
        self.client.connect(&self.scene.addresses, server)
    }

    fn exchange(&mut self, ops: Vec<Op>) -> Option<()> {
        let Self { scene, client, versions, own, .. } = self;
        client.exchange(ops, |RecordedReply { op, err, body }| {
            // Deletes succeed even on a full disk.
            if op.is_write() && *err == 0 && !matches!(op, Op::Delete { .. } | Op::CloseSession) {
                scene.note_write();
            }
            if let (Op::SetData { path, .. } | Op::GetData { path, .. }, Some(stat)) = (op, body.stat()) {
                versions.insert(path.clone(), stat.version);
            }
            if let (Op::Create(create), ReplyBody::Path(path)) = (op, body)
                && create.path != "/s"
            {
                own.push(path.clone());
            }
        })
    }

    /// The next requests of a typical coordination client.
    fn next_ops(&mut self) -> Vec<Op> {
        let register = format!("/r{}", self.rng.index(REGISTERS));
        let other = format!("/r{}", self.rng.index(REGISTERS));
        let sent = self.client.sent();
        let data = Some(format!("{}-{sent}", self.number).into_bytes());
        let (path, watch) = (register.clone(), self.rng.index(3) == 0);
        let name = |kind: &str| format!("/{kind}/{}-{sent}-{}", self.number, self.own.len());
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
