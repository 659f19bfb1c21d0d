//! What mixed ensembles go through.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ox_proto::OpCode;
use ox_proto::request::SetDataRequest;

use super::failover_client::FailoverClient;
use super::load::Load;
use super::mixed_ensemble::MixedEnsemble;
use crate::interop::servers::Software;
use crate::interop::wire::WireClient;
use crate::interop::workspace::Workspace;

/// How often chance may have its way before it is no chance.
const TAILS_MAX: usize = 4;

/// How a learner catches up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Catch {
    Diff,
    Trunc,
    Snap,
}

/// Writes through every server; sessions move from each to the next with their nodes.
pub(super) fn serves(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = MixedEnsemble::start(workspace, home, letters)?;
    for (index, letter) in letters.chars().enumerate() {
        let mode = ensemble.mode(index).unwrap_or_default();
        let fits = if letter.is_uppercase() { mode == "observer" } else { mode == "follower" || mode == "leader" };
        ensure!(fits, "server {} is {mode}", index + 1);
    }
    let mut clients = Vec::new();
    for index in 0..ensemble.len() {
        let mut client = FailoverClient::new(vec![ensemble.address(index)])?;
        client.create(&format!("/e-{index}"), 1)?;
        for number in 0..20 {
            client.create(&format!("/n/{index}-{number}"), 0)?;
        }
        clients.push(client);
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let next = (index + 1) % ensemble.len();
        client
            .move_session_to(vec![ensemble.address(next)])
            .with_context(|| format!("move from server {}", index + 1))?;
        client.set(&format!("/e-{index}"), b"moved")?;
    }
    let tree = ensemble.check_trees_equal()?;
    ensure!(
        tree.keys().filter(|path| path.starts_with("/e-")).count() == ensemble.len(),
        "ephemeral nodes are missing"
    );
    clients.into_iter().try_for_each(FailoverClient::close)?;
    let tree = ensemble.check_trees_equal()?;
    ensure!(!tree.keys().any(|path| path.starts_with("/e-")), "ephemeral nodes outlive their sessions");
    ensemble.check_digests()?;
    (0..ensemble.len()).try_for_each(|index| ensemble.check_no_digest_mismatch(index))?;
    Ok(format!("{} nodes", tree.len()))
}

/// Kills and restarts every server in turn under load, the leader last; of five, then the leader with another one.
pub(super) fn kills(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = MixedEnsemble::start(workspace, home, letters)?;
    let load = Load::start(&ensemble.addresses(), "kills");
    let mut victims: Vec<Vec<usize>> = (0..ensemble.len()).map(|index| vec![index]).collect();
    if 5 <= letters.chars().filter(char::is_ascii_lowercase).count() {
        victims.push(Vec::new());
    }
    for mut group in victims {
        load.wait_for_more(50)?;
        if group.is_empty() {
            let leader = ensemble.leader()?;
            group = vec![leader, (leader + 1) % 5];
        }
        group.iter().try_for_each(|index| ensemble.kill(*index))?;
        load.wait_for_more(50)?;
        ensemble.start_members(&group)?;
    }
    load.wait_for_more(50)?;
    finish(&ensemble, load)
}

/// Nothing is lost, and everybody has the same.
pub(super) fn finish(ensemble: &MixedEnsemble, load: Load) -> Result<String> {
    let (writes, pause) = load.check(|| ensemble.check_trees_equal())?;
    ensemble.check_trees_equal()?;
    ensemble.check_digests()?;
    Ok(format!("{writes} writes, longest pause {} ms", pause.as_millis()))
}

/// A learner is away and comes back to a leader of the other software.
pub(super) fn joins(workspace: &Workspace, home: &Path, letters: &str, catch: Catch) -> Result<String> {
    let (mut ensemble, learner) = match catch {
        Catch::Trunc => start_with_a_tail(workspace, home, letters)?,
        Catch::Diff | Catch::Snap => (MixedEnsemble::start(workspace, home, letters)?, 0),
    };
    if catch != Catch::Trunc {
        ensemble.kill(learner)?;
        write_some(&ensemble)?;
        if catch == Catch::Snap {
            ensemble.wipe(learner)?;
        }
    }
    let leader = ensemble.leader()?;
    let ours = [learner, leader].into_iter().find(|index| ensemble.software(*index) == Software::Oxkeeper);
    let ours = ours.context("nobody tells how it went")?;
    let mark = ensemble.log_length(ours);
    ensemble.start_members(&[learner])?;
    ensemble.check_trees_equal()?;
    let said = ensemble.log_since(ours, mark);
    let words = match (catch, ours == leader) {
        (Catch::Diff, true) => "Sending DIFF",
        (Catch::Diff, false) => "Getting a diff",
        (Catch::Snap, true) => "Sending snapshot",
        (Catch::Snap, false) => "Getting a snapshot",
        (Catch::Trunc, true) => "Sending TRUNC",
        (Catch::Trunc, false) => "Truncating log",
    };
    ensure!(said.contains(words), "`{words}` is not in the log of server {}\n{said}", ours + 1);
    write_some(&ensemble)?;
    ensemble.check_digests()?;
    (0..ensemble.len()).try_for_each(|index| ensemble.check_no_digest_mismatch(index))?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} led, {} nodes", ensemble.software(leader), tree.len()))
}

fn write_some(ensemble: &MixedEnsemble) -> Result<()> {
    let mut client = FailoverClient::new(ensemble.addresses())?;
    for number in 0..50 {
        client.create(&format!("/n/{}-{number}", client.session()), 0)?;
    }
    client.close()
}

/// So much in each node that a snapshot is larger than the log of what a learner misses.
const LARGE_BYTES: usize = 4 << 10;
const LARGE_COUNT: usize = 900;
/// More than servers keep in memory for learners.
const MISSED_COUNT: usize = 600;

/// A learner has missed more than its leader keeps in memory, which has all of it in its log, and reads that; one that
/// has nothing at all gets the state.
// Compat: Apache takes 1 for the largest factor, and anything above it for its default.
pub(super) fn joins_from_the_log(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let properties =
        [("zookeeper.snapshotSizeFactor", "1.0"), ("zookeeper.snapCount", "300"), ("zookeeper.preAllocSize", "64")];
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, &[], &properties)?;
    let (learner, leader) = (0, ensemble.leader()?);
    let ours = [learner, leader].into_iter().find(|index| ensemble.software(*index) == Software::Oxkeeper);
    let ours = ours.context("nobody tells how it went")?;
    let large = vec![b'x'; LARGE_BYTES];
    let mut client = FailoverClient::new(ensemble.addresses())?;
    (0..LARGE_COUNT).try_for_each(|index| client.create_with(&format!("/n/large-{index}"), &large, 0))?;
    let mut result = Vec::new();
    for is_empty in [false, true] {
        ensemble.wait_until_in_sync()?;
        ensemble.kill(learner)?;
        (0..MISSED_COUNT).try_for_each(|index| client.create(&format!("/n/{is_empty}-{index}"), 0))?;
        if is_empty {
            ensemble.wipe(learner)?;
        }
        let mark = ensemble.log_length(ours);
        ensemble.start_members(&[learner])?;
        ensemble.check_trees_equal()?;
        let said = ensemble.log_since(ours, mark);
        let words = match (is_empty, ours == leader) {
            (false, true) => "Sending DIFF",
            (false, false) => "Getting a diff",
            (true, true) => "Sending snapshot",
            (true, false) => "Getting a snapshot",
        };
        ensure!(said.contains(words), "`{words}` is not in the log of server {}\n{said}", ours + 1);
        result.push(words);
    }
    client.close()?;
    ensemble.check_digests()?;
    (0..ensemble.len()).try_for_each(|index| ensemble.check_no_digest_mismatch(index))?;
    Ok(format!("{} led, {}", ensemble.software(leader), result.join(", then ")))
}

/// Starts servers of which one has a write that no other has. Returns it.
fn start_with_a_tail(workspace: &Workspace, home: &Path, letters: &str) -> Result<(MixedEnsemble, usize)> {
    for attempt in 0..TAILS_MAX {
        let home = home.join(attempt.to_string());
        std::fs::create_dir_all(&home)?;
        let mut ensemble = MixedEnsemble::start(workspace, &home, letters)?;
        if let Some(learner) = leave_a_tail(&mut ensemble)? {
            return Ok((ensemble, learner));
        }
    }
    bail!("the new leader is of the same software, each time")
}

/// A leader logs a write that nobody else gets, and is stopped; the others elect one of the other software, which writes
/// nothing: behind a transaction of its epoch, only a snapshot would do. Returns the one that was stopped; none if the
/// others elected one of its own software, because Apache shows what has not got to its disk.
fn leave_a_tail(ensemble: &mut MixedEnsemble) -> Result<Option<usize>> {
    let leader = ensemble.leader()?;
    let others: Vec<usize> = (0..ensemble.len()).filter(|index| *index != leader).collect();
    let mut client = WireClient::connect(ensemble.address(leader))?;
    // Whoever of the others had logged more would be elected, whatever its number.
    ensemble.wait_until_in_sync()?;
    others.iter().try_for_each(|index| ensemble.signal(*index, "STOP"))?;
    let zxid = client.session_handle().last_zxid;
    let body = SetDataRequest { path: Some("/n".into()), data: Some(b"lost"), version: -1 };
    let asked = std::thread::spawn(move || client.call(OpCode::SetData, &body).map(drop).is_ok());
    // The leader cannot be asked what it has logged; its disk is given time, less than it takes to give up.
    std::thread::sleep(Duration::from_millis(700));
    ensemble.kill(leader)?;
    ensure!(!asked.join().unwrap_or(true), "a write that one server has is acknowledged, after {zxid}");
    others.iter().try_for_each(|index| ensemble.kill(*index))?;
    ensemble.start_members(&others)?;
    let new = ensemble.leader()?;
    Ok((ensemble.software(new) != ensemble.software(leader)).then_some(leader))
}

/// Replaces every member, one by one, by the next software on the way, while clients write.
pub(super) fn migrates(workspace: &Workspace, home: &Path, count: usize, path: &str) -> Result<String> {
    let start = Instant::now();
    let mut letters = path.chars();
    let first = letters.next().context("a way begins somewhere")?;
    let mut ensemble = MixedEnsemble::start(workspace, home, &first.to_string().repeat(count))?;
    let load = Load::start(&ensemble.addresses(), "migrates");
    let mut steps = 0;
    for letter in letters {
        for index in 0..count {
            load.wait_for_more(100)?;
            ensemble.replace(index, letter).with_context(|| format!("server {} becomes {letter}", index + 1))?;
            steps += 1;
        }
        load.wait_for_more(100)?;
    }
    let result = finish(&ensemble, load)?;
    Ok(format!("{result}, {steps} steps in {} s", start.elapsed().as_secs()))
}

/// Members that were started with `snapshot.trust.empty` are stopped, and the other software starts on their directories
/// without that setting: it refuses a directory that has a log and no snapshot.
pub(super) fn goes_on_without_trust_empty(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble =
        MixedEnsemble::start_with(workspace, home, letters, &[], &[("zookeeper.snapshot.trust.empty", "true")])?;
    write_some(&ensemble)?;
    let before = ensemble.check_trees_equal()?;
    ensemble.restart_all_as('a', &[])?;
    let after = ensemble.check_trees_equal()?;
    ensure!(after.keys().eq(before.keys()), "Apache shows {} nodes, there were {}", after.len(), before.len());
    Ok(format!("{} nodes", after.len()))
}

/// Transactions of an epoch whose counter is used up: so many that all that is checked in the end fits into one.
const EPOCH_TXNS: u32 = 1000;
/// How many epochs end.
const EPOCHS: u32 = 3;

/// Leaders use up their counters under load, and everybody goes on in the next epoch. Apache's leaders begin with a
/// hole, behind which ours ask for the whole state: a majority of the others has to be Apache's.
pub(super) fn rolls_over(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let initial = (u32::MAX - 1 - EPOCH_TXNS).to_string();
    let properties = [("zookeeper.testingonly.initialZxid", &*initial)];
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, &[], &properties)?;
    let load = Load::start(&ensemble.addresses(), "rolls");
    let mut client = FailoverClient::new(ensemble.addresses())?;
    let first = client.set("/n", b"")?.epoch();
    let (mut epoch, mut leaders) = (first, vec![ensemble.software(ensemble.leader()?).to_string()]);
    while epoch < first + EPOCHS {
        load.wait_for_more(20)?;
        let now = client.set("/n", b"")?.epoch();
        if epoch < now {
            epoch = now;
            leaders.push(ensemble.software(ensemble.leader()?).to_string());
        }
    }
    client.close()?;
    let result = finish(&ensemble, load)?;
    Ok(format!("{result}; led by {}", leaders.join(", ")))
}
