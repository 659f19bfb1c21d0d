//! The members of a mixed ensemble, and the checks that apply to all of them.

use super::network::PeerProxies;
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use ox_proto::Zxid;
use ox_testkit::{MemberRole, Network, SmallDisk, TestEnsemble, Tree, wait_for};
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// Longer than Oxkeeper's own tests need, because a JVM starts slowly.
const SETTINGS: &str = "syncLimit=6\n";
/// Sufficient for the writes of a test, and soon full.
const DISK_MEGABYTES: usize = 64;
/// Transactions between the digests that `hash` reports.
const DIGEST_EVERY: i64 = 128;

/// An ensemble whose members run different implementations.
pub(super) struct MixedEnsemble {
    workspace: Workspace,
    ensemble: TestEnsemble,
    software: Vec<Software>,
    /// One disk per member if disks can be full. Declared after the members, so that it is unmounted after they ended.
    disks: Vec<SmallDisk>,
}

impl Deref for MixedEnsemble {
    type Target = TestEnsemble;

    fn deref(&self) -> &TestEnsemble {
        &self.ensemble
    }
}

impl DerefMut for MixedEnsemble {
    fn deref_mut(&mut self) -> &mut TestEnsemble {
        &mut self.ensemble
    }
}

fn software(letter: char) -> Software {
    match letter.to_ascii_lowercase() {
        'a' => Software::Apache,
        'e' => Software::Apache38,
        'p' => Software::Previous,
        _ => Software::Oxkeeper,
    }
}

fn role(letter: char) -> MemberRole {
    if letter.is_lowercase() { MemberRole::Participant } else { MemberRole::Observer }
}

impl MixedEnsemble {
    /// Starts the members that `letters` describes, numbered from 1. The last voter leads, because it starts together
    /// with a bare quorum before the others.
    pub(super) fn start(workspace: &Workspace, home: &Path, letters: &str) -> Result<Self> {
        Self::start_with(workspace, home, letters, "", &[])
    }

    /// The same, with additional `zoo.cfg` lines and system properties.
    pub(super) fn start_with(
        workspace: &Workspace,
        home: &Path,
        letters: &str,
        settings: &str,
        properties: &[&str],
    ) -> Result<Self> {
        let mut ensemble = Self::new(workspace, home, letters, settings, properties)?;
        ensemble.start_all(letters)?;
        Ok(ensemble)
    }

    /// The same, with a network that can fail.
    pub(super) fn start_with_network(workspace: &Workspace, home: &Path, letters: &str) -> Result<(Self, Network)> {
        let mut ensemble = Self::new(workspace, home, letters, "", &[])?;
        let (proxies, network) = PeerProxies::between(&ensemble.peer_addresses());
        ensemble.route(|from, to, target| if from == to { target } else { proxies.address(from, to) });
        ensemble.start_all(letters)?;
        Ok((ensemble, network))
    }

    /// The same, with disks that can be full. `None` if mounting is not permitted.
    pub(super) fn start_on_small_disks(workspace: &Workspace, home: &Path, letters: &str) -> Result<Option<Self>> {
        let mut ensemble = Self::new(workspace, home, letters, "", &["zookeeper.preAllocSize=1024"])?;
        for index in 0..ensemble.len() {
            let data = ensemble.servers[index].data_dir();
            let Some(disk) = SmallDisk::mount_at(&data, DISK_MEGABYTES) else { return Ok(None) };
            ensemble.disks.push(disk);
            ensemble.write_id(index);
        }
        ensemble.start_all(letters)?;
        Ok(Some(ensemble))
    }

    fn new(workspace: &Workspace, home: &Path, letters: &str, settings: &str, properties: &[&str]) -> Result<Self> {
        let software: Vec<Software> = letters.chars().map(software).collect();
        let member = |letter: char| Ok((self::software(letter).program(workspace)?, role(letter)));
        let members = letters.chars().map(member).collect::<Result<Vec<_>>>()?;
        let ensemble = TestEnsemble::new(home, members, &format!("{SETTINGS}{settings}"), properties);
        Ok(Self { workspace: workspace.clone(), ensemble, software, disks: Vec::new() })
    }

    /// Starts all members, first the quorum that elects the last voter.
    fn start_all(&mut self, letters: &str) -> Result<()> {
        let voters = letters.chars().filter(char::is_ascii_lowercase).count();
        let first: Vec<usize> = (0..voters / 2).chain([voters - 1]).collect();
        let others: Vec<usize> = (0..self.len()).filter(|index| !first.contains(index)).collect();
        self.start_members(&first);
        self.start_members(&others);
        ensure!(self.leader() == voters - 1, "the last voter does not lead");
        let mut client = self.client();
        client.create("/n", 0);
        client.close();
        Ok(())
    }

    /// Starts another server, which is a participant in its own configuration only. Returns its index, and its
    /// addresses for a `server.N` line without a role.
    pub(super) fn add_server(&mut self, letter: char) -> Result<(usize, String)> {
        self.software.push(software(letter));
        let program = software(letter).program(&self.workspace)?;
        let (index, addresses) = self.join(program, MemberRole::Participant);
        self.start_members(&[index]);
        Ok((index, addresses.to_string()))
    }

    /// The disk of a member in an ensemble with small disks.
    pub(super) fn disk(&self, index: usize) -> Result<&SmallDisk> {
        self.disks.get(index).context("the ensemble has no small disks")
    }

    /// Waits until a member serves. Starts it again if it has ended.
    pub(super) fn wait_until_back(&mut self, index: usize) {
        if self.servers[index].is_running() {
            self.wait_until_serving(index);
        } else {
            self.start_members(&[index]);
        }
    }

    /// Stops a member with SIGTERM and starts another implementation on its files.
    pub(super) fn replace(&mut self, index: usize, letter: char) -> Result<()> {
        self.servers[index].terminate().context("stop the old member")?;
        self.become_software(index, letter)?;
        self.start_members(&[index]);
        Ok(())
    }

    fn become_software(&mut self, index: usize, letter: char) -> Result<()> {
        self.software[index] = software(letter);
        self.servers[index].spec.program = software(letter).program(&self.workspace)?;
        Ok(())
    }

    /// Kills all members and starts another implementation on their files, without system properties.
    pub(super) fn restart_all_as(&mut self, letter: char) -> Result<()> {
        let all: Vec<usize> = (0..self.len()).collect();
        for index in &all {
            self.kill(*index);
            self.become_software(*index, letter)?;
            self.servers[*index].spec.properties.clear();
        }
        self.start_members(&all);
        Ok(())
    }

    pub(super) fn software(&self, index: usize) -> Software {
        self.software[index]
    }

    /// Checks that a member has counted no digest mismatch. Not for an Apache member that has lost its leader under
    /// load, because it may count mismatches of its own making: it replays its log while it still applies commits, and
    /// 3.8 may log transactions twice.
    pub(super) fn check_no_digest_mismatch(&self, index: usize) {
        // A member that looks for the next leader reports no metrics.
        let mismatches = wait_for(|| self.metric(index, "digest_mismatches_count"));
        assert_eq!(mismatches.as_deref(), Some("0"), "server {}", index + 1);
    }

    /// Checks that all members show the same tree, and that our members have no digest mismatch. Returns the tree.
    pub(super) fn check_trees_equal(&self) -> Tree {
        let ours = (0..self.len()).filter(|index| self.software(*index) == Software::Oxkeeper);
        ours.for_each(|index| self.check_no_digest_mismatch(index));
        self.check_equal()
    }

    /// Writes until the members record a digest of their tree, and compares these digests.
    pub(super) fn check_digests(&self) -> Result<()> {
        let mut client = self.client();
        let mut zxid = client.set("/n", b"digest");
        while zxid % DIGEST_EVERY != 0 {
            zxid = client.set("/n", b"digest");
        }
        client.close();
        let first = self.digest_at(0, zxid)?;
        for index in 1..self.len() {
            let (other, zxid) = (self.digest_at(index, zxid)?, Zxid(zxid));
            ensure!(first == other, "at {zxid}, server 1 has digest {first}, server {} {other}", index + 1);
        }
        Ok(())
    }

    /// Waits until a member has recorded its digest at a zxid, and returns it.
    fn digest_at(&self, index: usize, zxid: i64) -> Result<i64> {
        let prefix = format!("{zxid:x}: ");
        let digest = wait_for(|| {
            let hashes = self.four_letter(index, "hash");
            hashes.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        });
        let digest = digest.with_context(|| format!("server {} records no digest at {zxid:#x}", index + 1))?;
        digest.trim().parse().with_context(|| format!("digest `{digest}` of server {}", index + 1))
    }
}
