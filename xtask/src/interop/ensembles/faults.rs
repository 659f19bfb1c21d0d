//! Mixed ensembles whose network fails, and whose disks are full.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::cases::Case;
use super::lifecycle::finish;
use super::load::Load;
use super::mixed_ensemble::MixedEnsemble;
use super::network::Network;
use crate::interop::workspace::Workspace;

/// Longer than any election takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Acknowledged before, during and after each fault.
const WRITES: usize = 30;
/// Between two writes of a client.
const PACE: Duration = Duration::from_millis(20);

/// Letters are servers, as in the other cases; the last voter leads.
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
        let run = move |workspace: &_, home: &_| is_cut_off(workspace, home, letters);
        add(format!("{letters}: each is cut off"), is_short, Box::new(run));
        let run = move |workspace: &_, home: &_| falls_silent(workspace, home, letters);
        add(format!("{letters}: ways fall silent"), false, Box::new(run));
    }
    for (letters, is_short) in [("aao", true), ("ooa", true), ("oaa", false), ("aoo", false), ("ooe", false)] {
        let run = move |workspace: &_, home: &_| is_full(workspace, home, letters);
        add(format!("{letters}: disks are full"), is_short, Box::new(run));
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        ensure!(Instant::now() < until, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn serves(ensemble: &MixedEnsemble, index: usize) -> bool {
    ensemble.mode(index).is_some()
}

/// A member that nobody hears does not serve, and is back when it is heard.
fn cut_off(ensemble: &MixedEnsemble, network: &Network, load: &Load, index: usize) -> Result<()> {
    load.wait_for_more(WRITES)?;
    network.isolate(index);
    wait_until(&format!("server {} is cut off and notices", index + 1), || !serves(ensemble, index))?;
    load.wait_for_more(WRITES)?;
    network.heal();
    wait_until(&format!("server {} is back", index + 1), || serves(ensemble, index))
}

/// A follower and the leader are cut off under load, then everybody from everybody.
fn is_cut_off(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (ensemble, network) = MixedEnsemble::start_with_network(workspace, home, letters)?;
    let load = Load::start_paced(&ensemble.addresses(), "parts", PACE);
    cut_off(&ensemble, &network, &load, 0)?;
    cut_off(&ensemble, &network, &load, ensemble.leader()?)?;
    (0..ensemble.len()).for_each(|index| network.isolate(index));
    wait_until("nobody serves", || !(0..ensemble.len()).any(|index| serves(&ensemble, index)))?;
    network.heal();
    load.wait_for_more(WRITES)?;
    finish(&ensemble, load)
}

/// Ways between some members are cut under load, in both directions or in one.
fn falls_silent(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (ensemble, network) = MixedEnsemble::start_with_network(workspace, home, letters)?;
    let load = Load::start_paced(&ensemble.addresses(), "ways", PACE);
    let voters = letters.chars().filter(char::is_ascii_lowercase).count();
    for number in 0..5 {
        load.wait_for_more(WRITES)?;
        let leader = ensemble.leader()?;
        let other = (leader + 1) % voters;
        match number {
            0 => network.silence(leader, other),
            1 => network.silence(other, leader),
            2 => [(leader, other), (other, leader)].iter().for_each(|(from, to)| network.silence(*from, *to)),
            3 => network.mute(leader),
            _ => network.deafen(leader),
        }
        let victim = if number < 3 { other } else { leader };
        wait_until(&format!("server {} notices fault {number}", victim + 1), || !serves(&ensemble, victim))?;
        load.wait_for_more(WRITES).with_context(|| format!("fault {number}"))?;
        network.heal();
        for index in 0..ensemble.len() {
            wait_until(&format!("server {} serves after fault {number}", index + 1), || serves(&ensemble, index))?;
        }
    }
    finish(&ensemble, load)
}

/// The first one's disk is full under load, then the leader's: others go on. With space they are back, ours by itself.
fn is_full(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let Some(mut ensemble) = MixedEnsemble::start_on_small_disks(workspace, home, letters)? else {
        return Ok("SKIPPED, mounting a file system is not permitted here".to_owned());
    };
    let load = Load::start_paced(&ensemble.addresses(), "full", PACE);
    for index in [0, ensemble.leader()?] {
        load.wait_for_more(WRITES)?;
        ensemble.disk(index)?.fill_up()?;
        wait_until(&format!("server {} does not lead", index + 1), || {
            ensemble.mode(index).as_deref() != Some("leader")
        })?;
        load.wait_for_more(4 * WRITES)?;
        ensemble.disk(index)?.empty()?;
        ensemble.bring_back(index)?;
    }
    load.wait_for_more(WRITES)?;
    finish(&ensemble, load)
}
