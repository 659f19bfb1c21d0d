//! Members of an ensemble as processes, and clients that move between them.

use crate::process::Process;
use ox_proto::connect::ConnectResponse;
use ox_proto::{OpCode, SessionId};
use ox_testkit::{RawConnection, RawHandshake, RawPacket, RawReply};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than any election takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// A client leaves a server that does not reply within this time.
const REPLY_PATIENCE: Duration = Duration::from_secs(4);
/// Interval between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const SESSION_MS: i32 = 40_000;

/// A port that no other test and no outgoing connection uses.
pub(crate) fn free_port() -> u16 {
    ox_bench::ports::free_port().unwrap()
}

/// The members; `processes` contains those that run.
pub(crate) struct Ensemble {
    home: PathBuf,
    settings: String,
    servers: Vec<String>,
    properties: &'static [&'static str],
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) processes: Vec<Option<Process>>,
}

impl Ensemble {
    /// Writes the files of voters and observers, and starts all.
    pub(crate) fn start(home: &Path, voters: usize, observers: usize, settings: &str) -> Self {
        Self::start_with(home, voters, observers, settings, &[])
    }

    /// As `start`, with system properties.
    pub(crate) fn start_with(
        home: &Path,
        voters: usize,
        observers: usize,
        settings: &str,
        properties: &'static [&'static str],
    ) -> Self {
        // Each member has its own address: some ports are the same on all servers.
        Self::start_at(home, (voters, observers), settings, properties, |_, to, port| (to + 1, port))
    }

    /// As `start_with`, with proxies between members: `way(from, to, port)` returns the port that `from` dials.
    pub(crate) fn start_on(
        home: &Path,
        (voters, observers): (usize, usize),
        settings: &str,
        properties: &'static [&'static str],
        way: impl Fn(usize, usize, u16) -> u16,
    ) -> Self {
        let way = |from, to, port| (1, if from == to { port } else { way(from, to, port) });
        Self::start_at(home, (voters, observers), settings, properties, way)
    }

    /// As `start_on`, with the last number of each address.
    pub(crate) fn start_at(
        home: &Path,
        (voters, observers): (usize, usize),
        settings: &str,
        properties: &'static [&'static str],
        way: impl Fn(usize, usize, u16) -> (usize, u16),
    ) -> Self {
        let count = voters + observers;
        let ports: Vec<[u16; 2]> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let lines = |from: usize| -> Vec<String> {
            let line = |(to, ports): (usize, &[u16; 2])| {
                let [(host, quorum), (_, election)] = ports.map(|port| way(from, to, port));
                let role = if to < voters { "participant" } else { "observer" };
                format!("server.{}=127.0.0.{host}:{quorum}:{election}:{role}\n", to + 1)
            };
            ports.iter().enumerate().map(line).collect()
        };
        let (home, settings, servers) = (home.to_owned(), settings.to_owned(), lines(0));
        let (addresses, processes) = (Vec::new(), Vec::new());
        let mut ensemble = Self { home, settings, servers, properties, addresses, processes };
        (0..count).for_each(|at| ensemble.prepare(&lines(at).concat()));
        (0..count).for_each(|at| ensemble.launch(at));
        (0..count).for_each(|at| ensemble.wait_until_serving(at));
        ensemble
    }

    /// Prepares a server that no other member's configuration contains. Returns its index and its `server.N` line.
    pub(crate) fn join(&mut self, role: &str) -> (usize, String) {
        let (at, id) = (self.addresses.len(), self.addresses.len() + 1);
        let addresses = format!("127.0.0.1:{}:{}", free_port(), free_port());
        self.servers.push(format!("server.{id}={addresses}:{role}\n"));
        self.prepare(&self.servers.concat());
        (at, addresses)
    }

    /// Writes the files of the next server.
    fn prepare(&mut self, servers: &str) {
        let id = self.addresses.len() + 1;
        let (directory, port) = (self.directory(id - 1), free_port());
        std::fs::create_dir_all(directory.join("data")).unwrap();
        std::fs::write(directory.join("data/myid"), format!("{id}\n")).unwrap();
        let text = format!(
            "dataDir=data\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=500\ninitLimit=20\n\
                 syncLimit=4\nmaxSessionTimeout=60000\nmaxClientCnxns=0\npreAllocSize=1024\n\
                 4lw.commands.whitelist=*\n{}\n{servers}",
            self.settings
        );
        std::fs::write(directory.join("zoo.cfg"), text).unwrap();
        self.addresses.push((Ipv4Addr::LOCALHOST, port).into());
        self.processes.push(None);
    }

    pub(crate) fn directory(&self, at: usize) -> PathBuf {
        self.home.join((at + 1).to_string())
    }

    /// Starts a member without waiting.
    pub(crate) fn launch(&mut self, at: usize) {
        let arguments = [&["server", "zoo.cfg"], self.properties].concat();
        self.processes[at] = Some(Process::start(&arguments, &self.directory(at)));
    }

    /// Waits until a member that was just started serves clients.
    pub(crate) fn wait_until_serving(&mut self, at: usize) {
        self.processes[at].as_mut().unwrap().wait_for(" - broadcast");
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.processes[at].take().unwrap().kill();
    }

    pub(crate) fn restart(&mut self, at: usize) {
        self.launch(at);
        self.wait_until_serving(at);
    }

    /// The index of the leader among the members that are not left out.
    pub(crate) fn leader_but(&self, left_out: &[usize]) -> usize {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut others = (0..self.addresses.len()).filter(|at| !left_out.contains(at));
            if let Some(at) = others.find(|at| self.mode(*at).as_deref() == Some("leader")) {
                return at;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        panic!("no member leads");
    }

    /// The mode in the reply to `srvr`; `None` if the member does not serve.
    pub(crate) fn mode(&self, at: usize) -> Option<String> {
        self.four_letter(at, "srvr").lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// A metric in the reply to `mntr`.
    pub(crate) fn metric(&self, at: usize, name: &str) -> Option<String> {
        let prefix = format!("zk_{name}\t");
        self.four_letter(at, "mntr").lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(&self, mut is_so: impl FnMut() -> bool, otherwise: &str) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{otherwise}");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits for the value of a metric.
    pub(crate) fn wait_for_metric(&self, at: usize, name: &str, expected: &str) {
        let until = Instant::now() + PATIENCE;
        while self.metric(at, name).as_deref() != Some(expected) {
            let metric = self.metric(at, name);
            assert!(Instant::now() < until, "{name} of server {} is {metric:?}, not {expected}", at + 1);
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The reply to a four-letter command; empty if the member does not run.
    pub(crate) fn four_letter(&self, at: usize, four_letter: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.addresses[at]) {
            stream.set_read_timeout(Some(REPLY_PATIENCE)).unwrap();
            let _ = stream.write_all(four_letter.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        }
        answer
    }

    /// A client that may use all members.
    pub(crate) fn client(&self) -> ReconnectingClient {
        ReconnectingClient::new(self.addresses.clone())
    }

    /// A client of one member.
    pub(crate) fn client_of(&self, at: usize) -> ReconnectingClient {
        ReconnectingClient::new(vec![self.addresses[at]])
    }

    /// Checks that all members have equal nodes and stats, and returns the nodes.
    pub(crate) fn check_equal(&self) -> BTreeMap<String, Vec<u8>> {
        let mut trees: Vec<_> = (0..self.addresses.len()).map(|at| self.client_of(at).walk()).collect();
        let first = trees.swap_remove(0);
        for (number, tree) in trees.into_iter().enumerate() {
            let differ: Vec<_> = first.iter().filter(|(path, node)| tree.get(*path) != Some(*node)).collect();
            assert!(differ.is_empty() && tree.len() == first.len(), "{number}: {differ:?}");
        }
        first
    }
}

/// A client that keeps its session when it changes servers.
pub(crate) struct ReconnectingClient {
    addresses: Vec<SocketAddr>,
    at: usize,
    stream: Option<RawConnection>,
    hello: RawHandshake,
    xid: i32,
}

impl ReconnectingClient {
    /// Opens a session with any of these servers.
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Self {
        let mut roamer = Self { addresses, at: 0, stream: None, hello: RawHandshake::new(SESSION_MS), xid: 0 };
        roamer.connect();
        roamer
    }

    pub(crate) fn session(&self) -> SessionId {
        self.hello.session
    }

    fn connect(&mut self) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.at = (self.at + 1) % self.addresses.len();
            if self.try_connect().is_some() {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        panic!("no server accepts the session {}", self.session());
    }

    fn try_connect(&mut self) -> Option<()> {
        let mut stream = RawConnection::try_connect(self.addresses[self.at]).ok()?.with_timeout(REPLY_PATIENCE);
        stream.try_send(&self.hello.frame());
        let answer = ConnectResponse::decode(&stream.try_frame()?).expect("an answer to a handshake");
        assert_ne!(answer.session, SessionId::NONE, "the session {} is lost", self.session());
        self.hello = RawHandshake { last_zxid_seen: self.hello.last_zxid_seen, ..RawHandshake::resume(&answer) };
        self.stream = Some(stream);
        Some(())
    }

    /// Sends a request once; `None` if the connection is lost.
    fn try_ask(&mut self, request: &dyn Fn(RawPacket, i32) -> RawPacket) -> Option<RawReply> {
        self.xid += 1;
        let stream = self.stream.as_mut()?;
        stream.try_send(&request(RawPacket::default(), self.xid).0);
        let reply = RawReply::decode(&stream.try_frame()?);
        assert_eq!(reply.xid, self.xid, "{reply:?}");
        self.hello.last_zxid_seen = self.hello.last_zxid_seen.max(reply.zxid);
        Some(reply)
    }

    /// Repeats a request until a reply arrives.
    pub(crate) fn ask(&mut self, request: impl Fn(RawPacket, i32) -> RawPacket) -> RawReply {
        loop {
            if let Some(reply) = self.try_ask(&request) {
                return reply;
            }
            self.stream = None;
            self.connect();
        }
    }

    /// Creates a node; NodeExists may be the result of an earlier attempt without a reply.
    pub(crate) fn create(&mut self, path: &str, flags: i32) {
        let reply = self.ask(|packet, xid| packet.create(xid, path, b"data", flags));
        assert!([0, -110].contains(&reply.err), "{path}: {reply:?}");
    }

    pub(crate) fn children(&mut self, path: &str) -> Vec<String> {
        self.ask(|packet, xid| packet.read(xid, OpCode::GetChildren, path, false)).names()
    }

    /// Every node with its data and stat, except the configuration.
    fn walk(&mut self) -> BTreeMap<String, Vec<u8>> {
        assert_eq!(self.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).err, 0);
        let (mut tree, mut found) = (BTreeMap::new(), vec!["/".to_owned()]);
        while let Some(path) = found.pop() {
            let prefix = if path == "/" { "" } else { &path };
            found.extend(self.children(&path).into_iter().map(|name| format!("{prefix}/{name}")));
            let reply = self.ask(|packet, xid| packet.get(xid, &path));
            // Each server has its own configuration node, because addresses differ behind proxies.
            if path != "/zookeeper/config" {
                tree.insert(path, reply.body);
            }
        }
        tree
    }

    pub(crate) fn close(mut self) {
        self.ask(RawPacket::close);
    }
}
