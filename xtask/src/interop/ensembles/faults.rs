//! Mixed ensembles with network faults and full disks.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use ox_testkit::{LinkState, Network, WriteLoad, wait_until};

use super::cases::Case;
use super::lifecycle::finish;
use super::mixed_ensemble::MixedEnsemble;
use crate::interop::workspace::Workspace;

/// Writes to wait for before, during and after each fault.
const WRITES: usize = 30;
/// Pause between the writes of a client.
const PACE: Duration = Duration::from_millis(20);

pub(super) fn add_all(cases: &mut Vec<Case>) {
    let mut add = |name: String, is_short, run| cases.push(Case { name, is_short, run });
    for (letters, is_short) in [
        ("aao", true),
        ("ooa", true),
        ("aoa", false),
        ("oao", false),
        ("eeo", false),
        ("ooe", false),
        ("aaooo", false),
        ("oooaa", false),
        ("aoaO", false),
        ("oaoA", false),
    ] {
        let run = move |workspace: &_, home: &_| isolates_members(workspace, home, letters);
        add(format!("{letters}: members are isolated"), is_short, Box::new(run));
        let run = move |workspace: &_, home: &_| blocks_directions(workspace, home, letters);
        add(format!("{letters}: directions of links are blocked"), false, Box::new(run));
    }
    for (letters, is_short) in [("aao", true), ("ooa", true), ("oaa", false), ("aoo", false), ("ooe", false)] {
        let run = move |workspace: &_, home: &_| fills_disks(workspace, home, letters);
        add(format!("{letters}: disks fill up"), is_short, Box::new(run));
    }
}

fn serves(ensemble: &MixedEnsemble, index: usize) -> bool {
    ensemble.mode(index).is_some()
}

/// Isolates a member until it stops serving, and heals the network until it serves again.
fn isolate_member(ensemble: &MixedEnsemble, network: &Network, load: &WriteLoad, index: usize) {
    load.wait_for_more(WRITES);
    network.isolate(index);
    wait_until(&format!("isolated server {} stops serving", index + 1), || !serves(ensemble, index));
    load.wait_for_more(WRITES);
    network.heal();
    wait_until(&format!("server {} serves again", index + 1), || serves(ensemble, index));
}

/// Isolates a follower, then the leader, then all members from each other, under load.
fn isolates_members(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (ensemble, network) = MixedEnsemble::start_with_network(workspace, home, letters)?;
    let load = WriteLoad::start_paced(&ensemble.addresses, "isolated", PACE);
    isolate_member(&ensemble, &network, &load, 0);
    isolate_member(&ensemble, &network, &load, ensemble.leader());
    (0..ensemble.len()).for_each(|index| network.isolate(index));
    wait_until("all servers stop serving", || !(0..ensemble.len()).any(|index| serves(&ensemble, index)));
    network.heal();
    load.wait_for_more(WRITES);
    finish(&ensemble, load)
}

/// Blocks one or both directions between the leader and other members, under load.
fn blocks_directions(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (ensemble, network) = MixedEnsemble::start_with_network(workspace, home, letters)?;
    let load = WriteLoad::start_paced(&ensemble.addresses, "blocked", PACE);
    let voters = letters.chars().filter(char::is_ascii_lowercase).count();
    for fault in 0..5 {
        load.wait_for_more(WRITES);
        let leader = ensemble.leader();
        let other = (leader + 1) % voters;
        match fault {
            0 => network.set(leader, other, LinkState::Silent),
            1 => network.set(other, leader, LinkState::Silent),
            2 => network.part(&[leader], &[other], LinkState::Silent),
            3 => network.mute(leader),
            _ => network.deafen(leader),
        }
        let victim = if fault < 3 { other } else { leader };
        wait_until(&format!("server {} stops serving during fault {fault}", victim + 1), || !serves(&ensemble, victim));
        load.wait_for_more(WRITES);
        network.heal();
        for index in 0..ensemble.len() {
            wait_until(&format!("server {} serves after fault {fault}", index + 1), || serves(&ensemble, index));
        }
    }
    finish(&ensemble, load)
}

/// Fills the disk of the first server, then of the leader, under load. The others continue to serve. With free space
/// the server serves again; Apache has to be restarted, Oxkeeper has not.
fn fills_disks(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let Some(mut ensemble) = MixedEnsemble::start_on_small_disks(workspace, home, letters)? else {
        return Ok("SKIPPED, mounting a file system is not permitted".to_owned());
    };
    let load = WriteLoad::start_paced(&ensemble.addresses, "full", PACE);
    for index in [0, ensemble.leader()] {
        load.wait_for_more(WRITES);
        ensemble.disk(index)?.fill_up();
        wait_until(&format!("server {} is no longer the leader", index + 1), || {
            ensemble.mode(index).as_deref() != Some("leader")
        });
        load.wait_for_more(4 * WRITES);
        ensemble.disk(index)?.empty();
        ensemble.wait_until_back(index);
    }
    load.wait_for_more(WRITES);
    finish(&ensemble, load)
}
