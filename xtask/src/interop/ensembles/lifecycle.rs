//! Mixed ensembles that serve, lose members, synchronise learners, migrate and roll over their zxid.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ox_proto::Zxid;
use ox_testkit::{FailoverClient, RawClient, WriteLoad};

use super::mixed_ensemble::MixedEnsemble;
use crate::interop::security::ProtectedWriter;
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;

/// Attempts to get a leader of the required implementation.
const ATTEMPTS_MAX: usize = 4;

/// How the leader synchronises a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncMode {
    Diff,
    Trunc,
    Snap,
}

impl std::fmt::Display for SyncMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SyncMode::Diff => "DIFF",
            SyncMode::Trunc => "TRUNC",
            SyncMode::Snap => "SNAP",
        })
    }
}

/// Writes through every server, and moves each session with its ephemeral node to the next server.
pub(super) fn serves(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = MixedEnsemble::start(workspace, home, letters)?;
    for (index, letter) in letters.chars().enumerate() {
        let mode = ensemble.mode(index).unwrap_or_default();
        let fits = if letter.is_uppercase() { mode == "observer" } else { mode == "follower" || mode == "leader" };
        ensure!(fits, "server {} is a {mode}", index + 1);
    }
    let mut clients = Vec::new();
    for index in 0..ensemble.len() {
        let mut client = ensemble.client_of(index);
        client.create(&format!("/e-{index}"), 1);
        for number in 0..20 {
            client.create(&format!("/n/{index}-{number}"), 0);
        }
        clients.push(client);
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let next = (index + 1) % ensemble.len();
        client.move_session_to(vec![ensemble.addresses[next]]);
        client.set(&format!("/e-{index}"), b"moved");
    }
    let tree = ensemble.check_trees_equal();
    ensure!(
        tree.keys().filter(|path| path.starts_with("/e-")).count() == ensemble.len(),
        "ephemeral nodes are missing"
    );
    clients.into_iter().for_each(FailoverClient::close);
    let tree = ensemble.check_trees_equal();
    ensure!(!tree.keys().any(|path| path.starts_with("/e-")), "ephemeral nodes outlive their sessions");
    ensemble.check_digests()?;
    (0..ensemble.len()).for_each(|index| ensemble.check_no_digest_mismatch(index));
    Ok(format!("{} nodes", tree.len()))
}

/// Kills and restarts each server under load, the leader last. With five voters, then kills the leader and another
/// voter together.
pub(super) fn kills(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = MixedEnsemble::start(workspace, home, letters)?;
    let load = WriteLoad::start(&ensemble.addresses, "kills");
    let mut victims: Vec<Vec<usize>> = (0..ensemble.len()).map(|index| vec![index]).collect();
    if 5 <= letters.chars().filter(char::is_ascii_lowercase).count() {
        victims.push(Vec::new());
    }
    for mut group in victims {
        load.wait_for_more(50);
        if group.is_empty() {
            let leader = ensemble.leader();
            group = vec![leader, (leader + 1) % 5];
        }
        group.iter().for_each(|index| ensemble.kill(*index));
        load.wait_for_more(50);
        ensemble.start_members(&group);
    }
    load.wait_for_more(50);
    finish(&ensemble, load)
}

/// Checks that no write and no session is lost, and that all servers have the same tree.
pub(super) fn finish(ensemble: &MixedEnsemble, load: WriteLoad) -> Result<String> {
    let (writes, pause) = load.check(|| ensemble.check_trees_equal());
    ensemble.check_digests()?;
    Ok(format!("{writes} writes, longest pause {} ms", pause.as_millis()))
}

/// Restarts a learner whose leader runs the other implementation, and checks how it was synchronised.
pub(super) fn synchronises(workspace: &Workspace, home: &Path, letters: &str, sync_mode: SyncMode) -> Result<String> {
    let (mut ensemble, learner) = match sync_mode {
        SyncMode::Trunc => start_with_uncommitted_write(workspace, home, letters)?,
        SyncMode::Diff | SyncMode::Snap => (MixedEnsemble::start(workspace, home, letters)?, 0),
    };
    if sync_mode != SyncMode::Trunc {
        ensemble.wait_until_in_sync();
        ensemble.kill(learner);
        write_some(&ensemble);
        if sync_mode == SyncMode::Snap {
            ensemble.servers[learner].wipe();
        }
    }
    let leader = ensemble.leader();
    let ours = [learner, leader].into_iter().find(|index| ensemble.software(*index) == Software::Oxkeeper);
    let ours = ours.context("neither leader nor learner is Oxkeeper, whose log shows the mode")?;
    let mark = ensemble.servers[ours].log().len();
    ensemble.start_members(&[learner]);
    ensemble.check_trees_equal();
    let log = ensemble.servers[ours].log().split_off(mark);
    let message = match (sync_mode, ours == leader) {
        (SyncMode::Diff, true) => "Sending DIFF",
        (SyncMode::Diff, false) => "Getting a diff",
        (SyncMode::Snap, true) => "Sending snapshot",
        (SyncMode::Snap, false) => "Getting a snapshot",
        (SyncMode::Trunc, true) => "Sending TRUNC",
        (SyncMode::Trunc, false) => "Truncating log",
    };
    ensure!(log.contains(message), "`{message}` is not in the log of server {}\n{log}", ours + 1);
    write_some(&ensemble);
    ensemble.check_digests()?;
    (0..ensemble.len()).for_each(|index| ensemble.check_no_digest_mismatch(index));
    let tree = ensemble.check_trees_equal();
    Ok(format!("{} led, {} nodes", ensemble.software(leader), tree.len()))
}

pub(super) fn write_some(ensemble: &MixedEnsemble) {
    let mut client = ensemble.client();
    for number in 0..50 {
        client.create(&format!("/n/{}-{number}", client.session()), 0);
    }
    client.close();
}

/// Large nodes make a snapshot larger than the log of the transactions that the learner misses.
const LARGE_BYTES: usize = 4 << 10;
const LARGE_COUNT: usize = 900;
/// More transactions than servers keep in memory for learners.
const MISSED_COUNT: usize = 600;

/// A learner that has missed more than the leader keeps in memory receives a DIFF from the on-disk log; a learner
/// without data receives a snapshot.
// Compat: Apache's largest valid factor is 1; it replaces a larger one by its default.
pub(super) fn synchronises_from_log(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let properties = ["zookeeper.snapshotSizeFactor=1.0", "zookeeper.snapCount=300", "zookeeper.preAllocSize=64"];
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, "", &properties)?;
    let (learner, leader) = (0, ensemble.leader());
    let ours = [learner, leader].into_iter().find(|index| ensemble.software(*index) == Software::Oxkeeper);
    let ours = ours.context("neither leader nor learner is Oxkeeper, whose log shows the mode")?;
    let large = vec![b'x'; LARGE_BYTES];
    let mut client = ensemble.client();
    (0..LARGE_COUNT).for_each(|index| client.create_with(&format!("/n/large-{index}"), &large, 0));
    let mut messages = Vec::new();
    for is_empty in [false, true] {
        ensemble.wait_until_in_sync();
        ensemble.kill(learner);
        (0..MISSED_COUNT).for_each(|index| client.create(&format!("/n/{is_empty}-{index}"), 0));
        if is_empty {
            ensemble.servers[learner].wipe();
        }
        let mark = ensemble.servers[ours].log().len();
        ensemble.start_members(&[learner]);
        ensemble.check_trees_equal();
        let log = ensemble.servers[ours].log().split_off(mark);
        let message = match (is_empty, ours == leader) {
            (false, true) => "Sending DIFF",
            (false, false) => "Getting a diff",
            (true, true) => "Sending snapshot",
            (true, false) => "Getting a snapshot",
        };
        ensure!(log.contains(message), "`{message}` is not in the log of server {}\n{log}", ours + 1);
        messages.push(message);
    }
    client.close();
    ensemble.check_digests()?;
    (0..ensemble.len()).for_each(|index| ensemble.check_no_digest_mismatch(index));
    Ok(format!("{} led, {}", ensemble.software(leader), messages.join(", then ")))
}

/// Starts an ensemble in which one server has logged a write that no other server has. Returns that server.
fn start_with_uncommitted_write(workspace: &Workspace, home: &Path, letters: &str) -> Result<(MixedEnsemble, usize)> {
    for attempt in 0..ATTEMPTS_MAX {
        let home = home.join(attempt.to_string());
        std::fs::create_dir_all(&home)?;
        let mut ensemble = MixedEnsemble::start(workspace, &home, letters)?;
        if let Some(learner) = leave_uncommitted_write(&mut ensemble)? {
            return Ok((ensemble, learner));
        }
    }
    bail!("the new leader had the implementation of the old one in {ATTEMPTS_MAX} attempts")
}

/// The leader logs a write that no other server receives, and is killed. The others elect a leader of the other
/// implementation, which writes nothing: after a transaction of its epoch, only a snapshot could synchronise the old
/// leader. Returns the old leader; `None` if the new leader has the same implementation, which happens because Apache
/// reports a zxid that is not durable yet.
fn leave_uncommitted_write(ensemble: &mut MixedEnsemble) -> Result<Option<usize>> {
    let leader = ensemble.leader();
    let others: Vec<usize> = (0..ensemble.len()).filter(|index| *index != leader).collect();
    let mut client = RawClient::open(ensemble.addresses[leader], 60_000);
    // Otherwise the server with the higher zxid would be elected, regardless of its id.
    ensemble.wait_until_in_sync();
    others.iter().for_each(|index| ensemble.process(*index).pause());
    let zxid = Zxid(client.handshake().last_zxid_seen);
    let acknowledged = std::thread::spawn(move || client.try_ask(|packet, xid| packet.set(xid, "/n", b"lost")).is_ok());
    // Time for the leader to log the write; no command reports that. Shorter than syncLimit, so that it still leads.
    std::thread::sleep(Duration::from_millis(700));
    ensemble.kill(leader);
    ensure!(!acknowledged.join().unwrap_or(true), "a write that only one server has was acknowledged, after {zxid}");
    others.iter().for_each(|index| ensemble.kill(*index));
    ensemble.start_members(&others);
    let new = ensemble.leader();
    Ok((ensemble.software(new) != ensemble.software(leader)).then_some(leader))
}

/// Replaces each member by the next implementation of `path`, one member at a time, while clients write.
pub(super) fn migrates(workspace: &Workspace, home: &Path, count: usize, path: &str) -> Result<String> {
    let mut letters = path.chars();
    let first = letters.next().context("the path is empty")?;
    let mut ensemble = MixedEnsemble::start(workspace, home, &first.to_string().repeat(count))?;
    let load = WriteLoad::start(&ensemble.addresses, "migrates");
    let steps = replace_all(&mut ensemble, letters, &load)?;
    Ok(format!("{}, {steps}", finish(&ensemble, load)?))
}

/// The same for three servers with additional settings, and a client that needs them.
pub(in crate::interop) fn migrates_protected(
    workspace: &Workspace,
    home: &Path,
    path: &str,
    settings: &str,
    properties: &[&str],
    start_writer: impl FnOnce(&[SocketAddr]) -> Result<ProtectedWriter>,
) -> Result<String> {
    let mut letters = path.chars();
    let first = letters.next().context("the path is empty")?.to_string().repeat(3);
    let mut ensemble = MixedEnsemble::start_with(workspace, home, &first, settings, properties)?;
    let writer = start_writer(&ensemble.addresses)?;
    let load = WriteLoad::start(&ensemble.addresses, "migrates");
    let steps = replace_all(&mut ensemble, letters, &load)?;
    let protected = writer.stop()?;
    Ok(format!("{}, {protected} with TLS and SASL, {steps}", finish(&ensemble, load)?))
}

/// Replaces the servers one by one, with the software of each letter in turn.
fn replace_all(ensemble: &mut MixedEnsemble, letters: impl Iterator<Item = char>, load: &WriteLoad) -> Result<String> {
    let (start, mut steps) = (Instant::now(), 0);
    for letter in letters {
        for index in 0..ensemble.len() {
            load.wait_for_more(100);
            ensemble.replace(index, letter).with_context(|| format!("server {} becomes {letter}", index + 1))?;
            steps += 1;
        }
        load.wait_for_more(100);
    }
    Ok(format!("{steps} steps in {} s", start.elapsed().as_secs()))
}

/// Starts members with `snapshot.trust.empty`, then Apache on their directories without that setting. Apache refuses a
/// directory that has a log but no snapshot.
pub(super) fn restarts_without_trust_empty(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble =
        MixedEnsemble::start_with(workspace, home, letters, "", &["zookeeper.snapshot.trust.empty=true"])?;
    write_some(&ensemble);
    let before = ensemble.check_trees_equal();
    ensemble.restart_all_as('a')?;
    let after = ensemble.check_trees_equal();
    ensure!(after.keys().eq(before.keys()), "Apache shows {} nodes instead of {}", after.len(), before.len());
    Ok(format!("{} nodes", after.len()))
}

/// Transactions of an epoch until its counter rolls over. Enough for all writes of the final checks.
const EPOCH_TXNS: u32 = 1000;
/// Number of rollovers to wait for.
const EPOCHS: u32 = 3;

/// Leaders exhaust their zxid counters under load, and the ensemble continues in the next epoch. With this property,
/// Apache's leaders begin an epoch with a gap, after which our learners request a snapshot. Therefore most followers of
/// an Apache leader have to be Apache servers.
pub(super) fn rolls_over(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let initial = format!("zookeeper.testingonly.initialZxid={}", u32::MAX - 1 - EPOCH_TXNS);
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, "", &[&initial])?;
    let load = WriteLoad::start(&ensemble.addresses, "rolls");
    let mut client = ensemble.client();
    let first = Zxid(client.set("/n", b"")).epoch();
    let (mut epoch, mut leaders) = (first, vec![ensemble.software(ensemble.leader()).to_string()]);
    while epoch < first + EPOCHS {
        load.wait_for_more(20);
        let now = Zxid(client.set("/n", b"")).epoch();
        if epoch < now {
            epoch = now;
            leaders.push(ensemble.software(ensemble.leader()).to_string());
        }
    }
    client.close();
    let figures = finish(&ensemble, load)?;
    Ok(format!("{figures}; led by {}", leaders.join(", ")))
}
