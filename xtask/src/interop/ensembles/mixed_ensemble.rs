//! Starts, stops and inspects the members of a mixed ensemble.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ox_proto::Zxid;
use ox_testkit::{Network, SmallDisk};

use super::failover_client::{CONFIG, FailoverClient};
use super::network::{PeerAddresses, PeerProxies};
use crate::interop::servers::{ServerSpec, ServerUnderTest, Software, free_port};
use crate::interop::tool;
use crate::interop::tree_walk::{Tree, differences};
use crate::interop::workspace::Workspace;

/// Longer than any election takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Sufficient for the writes of a test, and soon full.
const DISK_MEGABYTES: usize = 64;
/// Transactions between the digests that `hash` reports.
const DIGEST_EVERY: i64 = 128;
/// Differences to quote in an error message.
const DIFFERENCES_SHOWN: usize = 5;

/// Roles in `server.N` lines.
const PARTICIPANT: &str = "participant";
const OBSERVER: &str = "observer";

struct Member {
    software: Software,
    dir: PathBuf,
    port: u16,
    process: Option<ServerUnderTest>,
}

pub(super) struct MixedEnsemble {
    workspace: Workspace,
    lines: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    members: Vec<Member>,
    peer_addresses: Vec<PeerAddresses>,
    /// Present if the network between the members can fail.
    proxies: Option<PeerProxies>,
    /// One disk per member if disks can be full. Declared after the members, so that it is unmounted after they ended.
    disks: Vec<SmallDisk>,
}

fn software(letter: char) -> Software {
    match letter.to_ascii_lowercase() {
        'a' => Software::Apache,
        'e' => Software::Apache38,
        _ => Software::Oxkeeper,
    }
}

impl MixedEnsemble {
    /// Starts the members that `letters` describes, numbered from 1. The last voter leads, because it starts together
    /// with a bare quorum before the others.
    pub(super) fn start(workspace: &Workspace, home: &Path, letters: &str) -> Result<Self> {
        Self::start_with(workspace, home, letters, &[], &[])
    }

    /// The same, with additional `zoo.cfg` lines and system properties.
    pub(super) fn start_with(
        workspace: &Workspace,
        home: &Path,
        letters: &str,
        settings: &[(&str, &str)],
        properties: &[(&str, &str)],
    ) -> Result<Self> {
        let mut ensemble = Self::new(workspace, home, letters, settings, properties)?;
        ensemble.start_all()?;
        Ok(ensemble)
    }

    /// The same, with a network that can fail.
    pub(super) fn start_with_network(workspace: &Workspace, home: &Path, letters: &str) -> Result<(Self, Network)> {
        let mut ensemble = Self::new(workspace, home, letters, &[], &[])?;
        let (proxies, network) = PeerProxies::between(&ensemble.peer_addresses);
        ensemble.proxies = Some(proxies);
        ensemble.start_all()?;
        Ok((ensemble, network))
    }

    /// The same, with disks that can be full. `None` if mounting is not permitted.
    pub(super) fn start_on_small_disks(workspace: &Workspace, home: &Path, letters: &str) -> Result<Option<Self>> {
        let mut ensemble = Self::new(workspace, home, letters, &[], &[("zookeeper.preAllocSize", "1024")])?;
        for (id, member) in (1..).zip(&ensemble.members) {
            let data = member.dir.join("data");
            let Some(disk) = SmallDisk::mount_at(&data, DISK_MEGABYTES) else { return Ok(None) };
            ensemble.disks.push(disk);
            fs::write(data.join("myid"), format!("{id}\n"))?;
        }
        ensemble.start_all()?;
        Ok(Some(ensemble))
    }

    fn new(
        workspace: &Workspace,
        home: &Path,
        letters: &str,
        settings: &[(&str, &str)],
        properties: &[(&str, &str)],
    ) -> Result<Self> {
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let (mut lines, properties, mut members) = (owned(settings), owned(properties), Vec::new());
        let mut peer_addresses = Vec::new();
        for (id, letter) in (1..).zip(letters.chars()) {
            let ip = Ipv4Addr::new(127, 0, 0, id);
            let (quorum, election) = (free_port()?, free_port()?);
            peer_addresses.push(PeerAddresses { quorum: (ip, quorum).into(), election: (ip, election).into() });
            let role = if letter.is_lowercase() { PARTICIPANT } else { OBSERVER };
            lines.push((format!("server.{id}"), format!("{ip}:{quorum}:{election}:{role}")));
            let dir = home.join(id.to_string());
            fs::create_dir_all(dir.join("data"))?;
            fs::write(dir.join("data/myid"), format!("{id}\n"))?;
            members.push(Member { software: software(letter), dir, port: free_port()?, process: None });
        }
        let (proxies, disks) = (None, Vec::new());
        Ok(Self { workspace: workspace.clone(), lines, properties, members, peer_addresses, proxies, disks })
    }

    /// Starts all members, first the quorum that elects the last voter.
    fn start_all(&mut self) -> Result<()> {
        let voters = self.lines.iter().filter(|(_, value)| value.ends_with(PARTICIPANT)).count();
        let first: Vec<usize> = (0..voters / 2).chain([voters - 1]).collect();
        let others: Vec<usize> = (0..self.members.len()).filter(|index| !first.contains(index)).collect();
        self.start_members(&first)?;
        self.start_members(&others)?;
        ensure!(self.leader()? == voters - 1, "the last voter does not lead");
        let mut client = FailoverClient::new(self.addresses())?;
        client.create("/n", 0)?;
        client.close()
    }

    /// The value of a `zoo.cfg` line of a member. With a network that can fail, other members have proxy addresses.
    fn server_line(&self, index: usize, key: &str, value: &str) -> String {
        let id: Option<usize> = key.strip_prefix("server.").and_then(|id| id.parse().ok());
        let other = id.map(|id| id - 1).filter(|other| *other != index);
        let (Some(proxies), Some(other)) = (&self.proxies, other) else { return value.to_owned() };
        let (address, role) =
            (proxies.address(index, other), if value.ends_with(OBSERVER) { OBSERVER } else { PARTICIPANT });
        format!("{}:{}:{role}", address.quorum, address.election.port())
    }

    fn spec(&self, index: usize) -> ServerSpec {
        let software = self.members[index].software;
        let mut spec = ServerSpec::new(&self.workspace, software)
            .setting("tickTime", 500)
            .setting("initLimit", 20)
            .setting("syncLimit", 6)
            .setting("maxSessionTimeout", crate::interop::wire::SESSION_TIMEOUT_MS);
        for (key, value) in &self.lines {
            spec = spec.setting(key, self.server_line(index, key, value));
        }
        for (name, value) in &self.properties {
            spec = spec.property(name, value);
        }
        spec.keeping_config()
    }

    /// Starts another server, which is a participant in its own configuration only. Returns its index, and its
    /// addresses for a `server.N` line without a role.
    pub(super) fn add_server(&mut self, home: &Path, letter: char) -> Result<(usize, String)> {
        let (index, id) = (self.len(), self.len() + 1);
        let address = format!("127.0.0.1:{}:{}", free_port()?, free_port()?);
        self.lines.push((format!("server.{id}"), format!("{address}:participant")));
        let dir = home.join(id.to_string());
        fs::create_dir_all(dir.join("data"))?;
        fs::write(dir.join("data/myid"), format!("{id}\n"))?;
        self.members.push(Member { software: software(letter), dir, port: free_port()?, process: None });
        self.start_members(&[index])?;
        Ok((index, address))
    }

    /// The content of a file of a member. `None` if it cannot be read.
    pub(super) fn file(&self, index: usize, name: &str) -> Option<String> {
        fs::read_to_string(self.members[index].dir.join(name)).ok()
    }

    /// Starts members together and waits until they serve.
    pub(super) fn start_members(&mut self, all: &[usize]) -> Result<()> {
        for index in all {
            let spec = self.spec(*index);
            let member = &mut self.members[*index];
            member.process = Some(spec.launch_in(&member.dir, member.port)?);
        }
        let done = all.iter().try_for_each(|index| self.process(*index)?.wait_until_serving());
        done.with_context(|| self.log_tails(all))
    }

    /// The last log lines of several members: a member that does not serve may wait for one that has failed.
    fn log_tails(&mut self, all: &[usize]) -> String {
        let mut text = "servers that were started together".to_owned();
        for index in all {
            let Some(process) = &mut self.members[*index].process else { continue };
            let state = if process.is_running() { "is running" } else { "has ended" };
            text += &format!("\nserver {} {state}:\n{}", index + 1, process.log_tail());
        }
        text
    }

    fn process(&mut self, index: usize) -> Result<&mut ServerUnderTest> {
        self.members[index].process.as_mut().context("the member does not run")
    }

    pub(super) fn kill(&mut self, index: usize) -> Result<()> {
        self.process(index)?.kill()?;
        self.members[index].process = None;
        Ok(())
    }

    /// The disk of a member in an ensemble with small disks.
    pub(super) fn disk(&self, index: usize) -> Result<&SmallDisk> {
        self.disks.get(index).context("the ensemble has no small disks")
    }

    /// Waits until a member serves. Starts it again if it has ended.
    pub(super) fn wait_until_back(&mut self, index: usize) -> Result<()> {
        if self.process(index)?.is_running() {
            self.process(index)?.wait_until_serving()
        } else {
            self.start_members(&[index])
        }
    }

    /// Stops a member with SIGTERM and starts another implementation on its files.
    pub(super) fn replace(&mut self, index: usize, letter: char) -> Result<()> {
        self.process(index)?.terminate().context("stop the old member")?;
        self.members[index].process = None;
        self.members[index].software = software(letter);
        self.start_members(&[index])
    }

    /// Kills all members and starts another implementation on their files, with other system properties.
    pub(super) fn restart_all_as(&mut self, letter: char, properties: &[(&str, &str)]) -> Result<()> {
        let all: Vec<usize> = (0..self.len()).collect();
        for index in &all {
            self.kill(*index)?;
            self.members[*index].software = software(letter);
        }
        self.properties = properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.start_members(&all)
    }

    /// Deletes the data of a stopped member, except for `myid`.
    pub(super) fn wipe(&self, index: usize) -> Result<()> {
        fs::remove_dir_all(self.members[index].dir.join("data/version-2")).context("remove the member's data")
    }

    /// Stops the threads of a member with SIGSTOP, and waits until all of them have stopped: on a busy machine some run
    /// on for a while after `kill` has returned.
    pub(super) fn freeze(&mut self, index: usize) -> Result<()> {
        let pid = self.process(index)?.pid().to_string();
        tool::run(Command::new("kill").arg("-STOP").arg(&pid))?;
        let threads = Path::new("/proc").join(pid).join("task");
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let states = fs::read_dir(&threads)?.map(|thread| fs::read_to_string(thread?.path().join("stat")));
            // The state follows the name of the thread, which stands in brackets.
            let is_stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
            if states.flatten().all(is_stopped) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        bail!("server {} does not stop at SIGSTOP", index + 1)
    }

    pub(super) fn software(&self, index: usize) -> Software {
        self.members[index].software
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn address(&self, index: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.members[index].port).into()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.len()).map(|index| self.address(index)).collect()
    }

    /// The mode that `srvr` reports. `None` if the member does not serve.
    pub(super) fn mode(&self, index: usize) -> Option<String> {
        self.srvr(index, "Mode: ")
    }

    /// The reply of a member to a four-letter command.
    pub(super) fn four_letter_command(&self, index: usize, command: &str) -> Result<String> {
        self.members[index].process.as_ref().context("the member does not run")?.four_letter_command(command)
    }

    /// A metric of `mntr`, named without its prefix `zk_`.
    pub(super) fn metric(&self, index: usize, name: &str) -> Result<String> {
        let (text, prefix) = (self.four_letter_command(index, "mntr")?, format!("zk_{name}\t"));
        let found = text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned));
        found.with_context(|| format!("server {} does not report {name}", index + 1))
    }

    /// Waits until a metric of `mntr` has a value.
    pub(super) fn wait_for_metric(&self, index: usize, name: &str, expected: &str) -> Result<()> {
        wait_for_value(&format!("{name} of server {}", index + 1), expected, || self.metric(index, name))
    }

    /// Waits until the reply to a four-letter command has a value.
    pub(super) fn wait_for_reply(&self, index: usize, command: &str, expected: &str) -> Result<()> {
        let what = format!("the reply to {command} of server {}", index + 1);
        wait_for_value(&what, expected, || self.four_letter_command(index, command))
    }

    fn srvr(&self, index: usize, line: &str) -> Option<String> {
        let reply = self.members[index].process.as_ref()?.four_letter_command("srvr").ok()?;
        reply.lines().find_map(|result| result.strip_prefix(line).map(str::to_owned))
    }

    /// Waits until all members report the same zxid. No client may write meanwhile.
    pub(super) fn wait_until_in_sync(&self) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let zxids: Option<Vec<String>> = (0..self.len()).map(|index| self.srvr(index, "Zxid: ")).collect();
            if zxids.is_some_and(|zxids| zxids.windows(2).all(|pair| pair[0] == pair[1])) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        bail!("the members do not reach the same zxid")
    }

    /// Waits until a member leads. Returns its index.
    pub(super) fn leader(&self) -> Result<usize> {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            if let Some(index) = (0..self.len()).find(|index| self.mode(*index).as_deref() == Some("leader")) {
                return Ok(index);
            }
            std::thread::sleep(POLL);
        }
        bail!("no member leads")
    }

    /// Length of a member's server log in bytes, for [`Self::log_since`].
    pub(super) fn log_length(&self, index: usize) -> usize {
        self.log(index).len()
    }

    /// The part of a member's server log after its first `length` bytes.
    pub(super) fn log_since(&self, index: usize, length: usize) -> String {
        self.log(index).split_off(length)
    }

    fn log(&self, index: usize) -> String {
        let bytes = fs::read(self.members[index].dir.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Checks that a member has counted no digest mismatch. Not for an Apache member that has lost its leader under
    /// load, because it may count mismatches of its own making: it replays its log while it still applies commits, and
    /// 3.8 may log transactions twice.
    pub(super) fn check_no_digest_mismatch(&self, index: usize) -> Result<()> {
        let process = self.members[index].process.as_ref().context("the member does not run")?;
        let mntr = process.four_letter_command("mntr")?;
        ensure!(mntr.contains("zk_digest_mismatches_count\t0\n"), "server {} reports digest mismatches", index + 1);
        Ok(())
    }

    /// Checks that all members show the same tree, and that our members have no digest mismatch. Returns the tree.
    pub(super) fn check_trees_equal(&self) -> Result<Tree> {
        let mut first: Option<Tree> = None;
        for index in 0..self.len() {
            let mut client = FailoverClient::new(vec![self.address(index)])?;
            let mut tree = client.walk().with_context(|| format!("walk server {}", index + 1))?;
            client.close()?;
            if self.proxies.is_some() {
                tree.remove(CONFIG); // contains proxy addresses, which differ
            }
            if self.software(index) == Software::Oxkeeper {
                self.check_no_digest_mismatch(index)?;
            }
            let different = first.as_ref().map_or_else(Vec::new, |first| differences(first, &tree));
            if !different.is_empty() {
                let shown = different[..different.len().min(DIFFERENCES_SHOWN)].join("\n");
                bail!("servers 1 and {} differ in {} nodes\n{shown}", index + 1, different.len());
            }
            first = first.or(Some(tree));
        }
        first.context("the ensemble has no members")
    }

    /// Writes until the members record a digest of their tree, and compares these digests.
    pub(super) fn check_digests(&self) -> Result<()> {
        let mut client = FailoverClient::new(self.addresses())?;
        let mut zxid = client.set("/n", b"digest")?;
        while zxid.0 % DIGEST_EVERY != 0 {
            zxid = client.set("/n", b"digest")?;
        }
        client.close()?;
        let first = self.digest_at(0, zxid)?;
        for index in 1..self.len() {
            let other = self.digest_at(index, zxid)?;
            ensure!(first == other, "at {zxid}, server 1 has digest {first}, server {} {other}", index + 1);
        }
        Ok(())
    }

    /// Waits until a member has recorded its digest at a zxid, and returns it.
    fn digest_at(&self, index: usize, zxid: Zxid) -> Result<i64> {
        let until = Instant::now() + TIMEOUT;
        let process = self.members[index].process.as_ref().context("the member does not run")?;
        let prefix = format!("{:x}: ", zxid.0);
        while Instant::now() < until {
            let hashes = process.four_letter_command("hash")?;
            if let Some(digest) = hashes.lines().find_map(|line| line.strip_prefix(&prefix)) {
                return digest.trim().parse().with_context(|| format!("digest `{digest}` of server {}", index + 1));
            }
            std::thread::sleep(POLL);
        }
        bail!("server {} records no digest at {zxid}", index + 1)
    }
}

fn wait_for_value(what: &str, expected: &str, read: impl Fn() -> Result<String>) -> Result<()> {
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        if read().is_ok_and(|value| value == expected) {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
    bail!("{what} is {} instead of {expected}", read()?)
}
