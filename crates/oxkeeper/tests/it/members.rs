//! Three members of an ensemble as processes, and clients that find their way among them.

use crate::process::Process;
use crate::raw::{Hello, Packet, Reply};
use ox_proto::connect::ConnectResponse;
use ox_proto::{OpCode, SessionId};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than any election takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// A server that says nothing for so long is left for another.
const REPLY_PATIENCE: Duration = Duration::from_secs(4);
/// Between two looks at something that takes its time.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const SESSION_MS: i32 = 40_000;

/// A port that neither another test nor an outgoing connection takes.
pub(crate) fn free_port() -> u16 {
    ox_bench::ports::free_port().unwrap()
}

/// The members; a process that runs is in its place.
pub(crate) struct Ensemble {
    home: PathBuf,
    settings: String,
    servers: Vec<String>,
    properties: &'static [&'static str],
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) processes: Vec<Option<Process>>,
}

impl Ensemble {
    /// Writes the files of voters and observers, and starts them all.
    pub(crate) fn start(home: &Path, voters: usize, observers: usize, settings: &str) -> Self {
        Self::start_with(home, voters, observers, settings, &[])
    }

    /// The same, with system properties.
    pub(crate) fn start_with(
        home: &Path,
        voters: usize,
        observers: usize,
        settings: &str,
        properties: &'static [&'static str],
    ) -> Self {
        // Each has an address of its own: some ports are the same on all servers.
        Self::start_at(home, (voters, observers), settings, properties, |_, to, port| (to + 1, port))
    }

    /// The same where the ports of other members are found at other ports: `way(from, to, port)`.
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

    /// The same; also the last number of each address is told.
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

    /// Prepares a server that is in nobody's configuration but its own. Returns where it is, and how it is described.
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

    /// Starts a member without waiting for anything.
    pub(crate) fn launch(&mut self, at: usize) {
        let arguments = [&["server", "zoo.cfg"], self.properties].concat();
        self.processes[at] = Some(Process::start(&arguments, &self.directory(at)));
    }

    /// Waits until a member that has just been started serves clients.
    pub(crate) fn wait_until_serving(&mut self, at: usize) {
        self.processes[at].as_mut().unwrap().wait_for("Peer state changed");
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.processes[at].take().unwrap().kill();
    }

    pub(crate) fn restart(&mut self, at: usize) {
        self.launch(at);
        self.wait_until_serving(at);
    }

    /// Where the leader is, among those who are not left out.
    pub(crate) fn leader_but(&self, left_out: &[usize]) -> usize {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut others = (0..self.addresses.len()).filter(|at| !left_out.contains(at));
            if let Some(at) = others.find(|at| self.mode(*at).as_deref() == Some("leader")) {
                return at;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        panic!("nobody leads");
    }

    /// As `srvr` tells it; none if nobody is served.
    pub(crate) fn mode(&self, at: usize) -> Option<String> {
        self.word(at, "srvr").lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// A figure of `mntr`.
    pub(crate) fn figure(&self, at: usize, name: &str) -> Option<String> {
        let prefix = format!("zk_{name}\t");
        self.word(at, "mntr").lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    }

    /// Waits for something that takes its time.
    pub(crate) fn wait_until(&self, mut is_so: impl FnMut() -> bool, otherwise: &str) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{otherwise}");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits for a figure of `mntr`.
    pub(crate) fn wait_for_figure(&self, at: usize, name: &str, expected: &str) {
        let until = Instant::now() + PATIENCE;
        while self.figure(at, name).as_deref() != Some(expected) {
            let figure = self.figure(at, name);
            assert!(Instant::now() < until, "{name} of server {} is {figure:?}, not {expected}", at + 1);
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// What a member answers to a four-letter word; nothing if it does not run.
    pub(crate) fn word(&self, at: usize, word: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.addresses[at]) {
            stream.set_read_timeout(Some(REPLY_PATIENCE)).unwrap();
            let _ = stream.write_all(word.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        }
        answer
    }

    /// A client that goes from server to server.
    pub(crate) fn client(&self) -> Roamer {
        Roamer::new(self.addresses.clone())
    }

    /// A client of one server.
    pub(crate) fn client_of(&self, at: usize) -> Roamer {
        Roamer::new(vec![self.addresses[at]])
    }

    /// Checks that every member has the same nodes with the same stats, and returns them.
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

/// A client with a session that it keeps wherever it goes.
pub(crate) struct Roamer {
    addresses: Vec<SocketAddr>,
    at: usize,
    stream: Option<TcpStream>,
    hello: Hello,
    xid: i32,
}

impl Roamer {
    /// Opens a session with any of these.
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Self {
        let mut roamer = Self { addresses, at: 0, stream: None, hello: Hello::new(SESSION_MS), xid: 0 };
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
        panic!("nobody takes the session {}", self.session());
    }

    fn try_connect(&mut self) -> Option<()> {
        let mut stream = TcpStream::connect(self.addresses[self.at]).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(REPLY_PATIENCE)).ok()?;
        stream.write_all(&self.hello.frame()).ok()?;
        let answer = ConnectResponse::decode(&frame(&mut stream)?).expect("an answer to a handshake");
        assert_ne!(answer.session, SessionId::NONE, "the session {} is lost", self.session());
        self.hello = Hello { last_zxid_seen: self.hello.last_zxid_seen, ..Hello::again(&answer) };
        self.stream = Some(stream);
        Some(())
    }

    /// Asks once; none if the connection is lost.
    fn try_ask(&mut self, request: &dyn Fn(Packet, i32) -> Packet) -> Option<Reply> {
        self.xid += 1;
        let stream = self.stream.as_mut()?;
        stream.write_all(&request(Packet::default(), self.xid).0).ok()?;
        let reply = Reply::decode(&frame(stream)?);
        assert_eq!(reply.xid, self.xid, "{reply:?}");
        self.hello.last_zxid_seen = self.hello.last_zxid_seen.max(reply.zxid);
        Some(reply)
    }

    /// Asks until somebody answers.
    pub(crate) fn ask(&mut self, request: impl Fn(Packet, i32) -> Packet) -> Reply {
        loop {
            if let Some(reply) = self.try_ask(&request) {
                return reply;
            }
            self.stream = None;
            self.connect();
        }
    }

    /// Creates a node; that it is there already may be because an earlier attempt was not answered.
    pub(crate) fn create(&mut self, path: &str, flags: i32) {
        let reply = self.ask(|packet, xid| packet.create(xid, path, b"data", flags));
        assert!([0, -110].contains(&reply.err), "{path}: {reply:?}");
    }

    pub(crate) fn children(&mut self, path: &str) -> Vec<String> {
        self.ask(|packet, xid| packet.read(xid, OpCode::GetChildren, path, false)).names()
    }

    /// Every node with its data and stat, but for the configuration.
    fn walk(&mut self) -> BTreeMap<String, Vec<u8>> {
        assert_eq!(self.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).err, 0);
        let (mut tree, mut found) = (BTreeMap::new(), vec!["/".to_owned()]);
        while let Some(path) = found.pop() {
            let prefix = if path == "/" { "" } else { &path };
            found.extend(self.children(&path).into_iter().map(|name| format!("{prefix}/{name}")));
            let reply = self.ask(|packet, xid| packet.get(xid, &path));
            // Each server sets this for itself; behind proxies each has other addresses.
            if path != "/zookeeper/config" {
                tree.insert(path, reply.body);
            }
        }
        tree
    }

    /// Ends the session.
    pub(crate) fn close(mut self) {
        self.ask(Packet::close);
    }
}

fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).ok()?;
    let mut payload = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}
