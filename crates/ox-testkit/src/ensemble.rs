//! The members of an ensemble as processes.

use crate::failover_client::FailoverClient;
use crate::ports::free_port;
use crate::process::Process;
use crate::server::{Program, ServerSpec, ServerUnderTest, four_letter};
use crate::tree_walk::{CONFIG, Tree, differences};
use crate::wait::wait_for;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Differences to quote in an error message.
const DIFFERENCES_SHOWN: usize = 5;

/// The addresses of a member for other members.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddresses {
    pub quorum: SocketAddr,
    pub election: SocketAddr,
}

impl PeerAddresses {
    fn free_at(host: Ipv4Addr) -> Self {
        Self { quorum: (host, free_port()).into(), election: (host, free_port()).into() }
    }

    /// Changes both addresses in the same way.
    pub fn map(self, change: impl Fn(SocketAddr) -> SocketAddr) -> Self {
        Self { quorum: change(self.quorum), election: change(self.election) }
    }
}

impl std::fmt::Display for PeerAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.quorum, self.election.port())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    Participant,
    Observer,
}

impl std::fmt::Display for MemberRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Participant { "participant" } else { "observer" })
    }
}

/// The members, numbered from 0 here and from 1 in their files. Each has a directory named by its id.
#[derive(Debug)]
pub struct TestEnsemble {
    home: PathBuf,
    settings: String,
    properties: Vec<String>,
    members: Vec<(PeerAddresses, MemberRole)>,
    /// Whether members have different addresses for the same member.
    is_routed: bool,
    pub servers: Vec<ServerUnderTest>,
    /// The addresses for clients.
    pub addresses: Vec<SocketAddr>,
    /// The home, unless the caller provides it. Removed after the servers have ended.
    _temporary: Option<TempDir>,
}

impl TestEnsemble {
    /// Prepares an ensemble with `zoo.cfg` lines and system properties, without starting it. Each member has its own
    /// address: some ports are the same on all servers.
    pub fn new(home: &Path, members: Vec<(Program, MemberRole)>, settings: &str, properties: &[&str]) -> Self {
        let host = |at: usize| Ipv4Addr::new(127, 0, 0, u8::try_from(at + 1).unwrap());
        let mut ensemble = Self {
            home: home.to_owned(),
            settings: format!("tickTime=500\ninitLimit=20\nsyncLimit=4\nmaxSessionTimeout=60000\n{settings}\n"),
            properties: properties.iter().map(|property| (*property).to_owned()).collect(),
            members: members
                .iter()
                .enumerate()
                .map(|(at, (_, role))| (PeerAddresses::free_at(host(at)), *role))
                .collect(),
            is_routed: false,
            servers: Vec::new(),
            addresses: Vec::new(),
            _temporary: None,
        };
        members.into_iter().for_each(|(program, _)| ensemble.add(program));
        ensemble.write_configs(|_, _, target| target);
        ensemble
    }

    /// The same in a temporary directory.
    pub fn temporary(members: Vec<(Program, MemberRole)>, settings: &str, properties: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut ensemble = Self::new(directory.path(), members, settings, properties);
        ensemble._temporary = Some(directory);
        ensemble
    }

    fn add(&mut self, program: Program) {
        let (id, port) = (self.servers.len() + 1, free_port());
        let spec = ServerSpec { properties: self.properties.clone(), keeps_config: true, ..ServerSpec::new(program) };
        let mut server = ServerUnderTest::new(spec, &self.home.join(id.to_string()), port);
        server.log_file = self.home.join(format!("{id}.log")); // not in its directory, which may be a small disk
        fs::create_dir_all(server.data_dir()).unwrap();
        self.addresses.push(server.address());
        self.servers.push(server);
        self.write_id(id - 1);
    }

    /// Writes `myid` of a member.
    pub fn write_id(&self, at: usize) {
        fs::write(self.servers[at].data_dir().join("myid"), format!("{}\n", at + 1)).unwrap();
    }

    /// Sets the addresses at which members reach each other, before the first start: `way(from, to, target)` returns
    /// those at which `from` reaches `to`, and those at which a member itself listens.
    pub fn route(&mut self, way: impl Fn(usize, usize, PeerAddresses) -> PeerAddresses) {
        self.is_routed = true;
        self.servers.iter().for_each(|server| fs::remove_file(server.dir.join("zoo.cfg")).unwrap());
        self.write_configs(way);
    }

    fn write_configs(&mut self, way: impl Fn(usize, usize, PeerAddresses) -> PeerAddresses) {
        for (from, server) in self.servers.iter_mut().enumerate() {
            server.spec.settings.clone_from(&self.settings);
            for (to, (target, role)) in self.members.iter().enumerate() {
                let line = format!("server.{}={}:{role}\n", to + 1, way(from, to, *target));
                server.spec.settings += &line;
            }
            server.write_config().unwrap();
        }
    }

    /// The addresses of the members for each other.
    pub fn peer_addresses(&self) -> Vec<PeerAddresses> {
        self.members.iter().map(|(addresses, _)| *addresses).collect()
    }

    /// Starts all members and waits until they serve.
    pub fn start(mut self) -> Self {
        let all: Vec<usize> = (0..self.len()).collect();
        self.start_members(&all);
        self
    }

    /// Prepares a server that no other member's configuration contains. Returns its index, and its addresses for a
    /// `server.N` line without a role.
    pub fn join(&mut self, program: Program, role: MemberRole) -> (usize, PeerAddresses) {
        let (at, addresses) = (self.len(), PeerAddresses::free_at(Ipv4Addr::LOCALHOST));
        self.members.push((addresses, role));
        self.add(program);
        let lines = self.members.iter().enumerate();
        let lines = lines.map(|(to, (target, role))| format!("server.{}={target}:{role}\n", to + 1));
        self.servers[at].spec.settings = self.settings.clone() + &lines.collect::<String>();
        self.servers[at].write_config().unwrap();
        (at, addresses)
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The directory that contains those of the members.
    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn directory(&self, at: usize) -> &Path {
        &self.servers[at].dir
    }

    /// The process of a member that runs.
    pub fn process(&self, at: usize) -> &Process {
        self.servers[at].process()
    }

    pub fn process_mut(&mut self, at: usize) -> &mut Process {
        self.servers[at].process.as_mut().expect("the member runs")
    }

    /// Takes the process of a member that ends by itself, or that the caller ends.
    pub fn take(&mut self, at: usize) -> Process {
        self.servers[at].process.take().expect("the member runs")
    }

    /// Starts a member without waiting.
    pub fn launch(&mut self, at: usize) {
        self.servers[at].launch().unwrap();
    }

    /// Waits until a member that was just started serves clients.
    pub fn wait_until_serving(&mut self, at: usize) {
        self.servers[at].wait_until_serving().unwrap();
    }

    /// Starts members together and waits until they serve.
    pub fn start_members(&mut self, all: &[usize]) {
        all.iter().for_each(|at| self.launch(*at));
        for at in all {
            if let Err(error) = self.servers[*at].wait_until_serving() {
                panic!("server {}: {error:#}\nstarted together with\n{}", at + 1, self.log_tails(all));
            }
        }
    }

    /// The last log lines of several members: a member that does not serve may wait for one that has failed.
    fn log_tails(&mut self, all: &[usize]) -> String {
        let mut text = String::new();
        for at in all {
            let state = if self.servers[*at].is_running() { "is running" } else { "has ended" };
            text += &format!("server {} {state}:\n{}\n", at + 1, self.servers[*at].log_tail());
        }
        text
    }

    pub fn kill(&mut self, at: usize) {
        self.take(at).kill();
    }

    /// Starts a member that has ended, and waits until it serves.
    pub fn restart(&mut self, at: usize) {
        self.start_members(&[at]);
    }

    /// The index of the leader.
    pub fn leader(&self) -> usize {
        self.leader_but(&[])
    }

    /// The index of the leader among the members that are not left out.
    pub fn leader_but(&self, left_out: &[usize]) -> usize {
        let leads = |at: &usize| !left_out.contains(at) && self.mode(*at).as_deref() == Some("leader");
        wait_for(|| (0..self.len()).find(leads)).expect("a member leads")
    }

    /// The mode in the reply to `srvr`; `None` if the member does not serve.
    pub fn mode(&self, at: usize) -> Option<String> {
        self.line(at, "srvr", "Mode: ")
    }

    /// A metric in the reply to `mntr`, named without its prefix `zk_`.
    pub fn metric(&self, at: usize, name: &str) -> Option<String> {
        self.line(at, "mntr", &format!("zk_{name}\t"))
    }

    /// The rest of the line with this prefix in the reply to a four-letter command.
    fn line(&self, at: usize, command: &str, prefix: &str) -> Option<String> {
        self.four_letter(at, command).lines().find_map(|line| line.strip_prefix(prefix).map(str::to_owned))
    }

    pub fn wait_for_mode(&self, at: usize, mode: &str) {
        self.wait_for_value(at, "mode", mode, || self.mode(at));
    }

    /// Waits for the value of a metric.
    pub fn wait_for_metric(&self, at: usize, name: &str, expected: &str) {
        self.wait_for_value(at, name, expected, || self.metric(at, name));
    }

    /// Waits for the reply to a four-letter command.
    pub fn wait_for_reply(&self, at: usize, command: &str, expected: &str) {
        self.wait_for_value(at, command, expected, || Some(self.four_letter(at, command)));
    }

    fn wait_for_value(&self, at: usize, name: &str, expected: &str, read: impl Fn() -> Option<String>) {
        let is_so = wait_for(|| read().filter(|value| value == expected)).is_some();
        assert!(is_so, "{name} of server {} is {:?}, not {expected}", at + 1, read());
    }

    /// Waits until all members report the same zxid. No client may write meanwhile.
    pub fn wait_until_in_sync(&self) {
        let zxids = || (0..self.len()).map(|at| self.line(at, "srvr", "Zxid: ")).collect::<Vec<_>>();
        let are_equal = |zxids: &Vec<Option<String>>| zxids[0].is_some() && zxids.iter().all(|zxid| *zxid == zxids[0]);
        assert!(
            wait_for(|| Some(zxids()).filter(are_equal)).is_some(),
            "the zxids of the members differ: {:?}",
            zxids()
        );
    }

    /// The reply to a four-letter command; empty if the member does not run.
    pub fn four_letter(&self, at: usize, command: &str) -> String {
        four_letter(self.addresses[at], command).unwrap_or_default()
    }

    /// A client that may use all members.
    pub fn client(&self) -> FailoverClient {
        FailoverClient::new(self.addresses.clone())
    }

    /// A client of one member.
    pub fn client_of(&self, at: usize) -> FailoverClient {
        FailoverClient::new(vec![self.addresses[at]])
    }

    /// The configuration that a member shows.
    pub fn config_of(&self, at: usize) -> String {
        let mut client = self.client_of(at);
        let data = client.ask(|packet, xid| packet.get(xid, CONFIG)).data();
        client.close();
        String::from_utf8(data.unwrap_or_default()).unwrap()
    }

    /// The content of a file of a member; `None` if it cannot be read.
    pub fn file(&self, at: usize, name: &str) -> Option<String> {
        fs::read_to_string(self.directory(at).join(name)).ok()
    }

    /// Checks that all members have equal nodes, and returns them.
    pub fn check_equal(&self) -> Tree {
        let mut first: Option<Tree> = None;
        for at in 0..self.len() {
            let mut client = self.client_of(at);
            let mut tree = client.walk();
            client.close();
            if self.is_routed {
                tree.remove(CONFIG); // contains addresses of proxies
            }
            let different = first.as_ref().map_or_else(Vec::new, |first| differences(first, &tree));
            let shown = different[..different.len().min(DIFFERENCES_SHOWN)].join("\n");
            assert!(different.is_empty(), "servers 1 and {} differ in {} nodes\n{shown}", at + 1, different.len());
            first = first.or(Some(tree));
        }
        first.expect("an ensemble has members")
    }
}
