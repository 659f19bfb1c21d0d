//! Mixed ensembles whose network fails, and whose disks are full.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::cases::Case;
use super::lifecycle::finish;
use super::load::Load;
use super::mixed_ensemble::Mixed;
use super::network::Ways;
use crate::interop::workspace::Workspace;

/// Longer than any election takes.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
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
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        ensure!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn serves(mixed: &Mixed, at: usize) -> bool {
    mixed.mode(at).is_some()
}

/// A member that nobody hears does not serve, and is back when it is heard.
fn cut_off(mixed: &Mixed, ways: &Ways, load: &Load, at: usize) -> Result<()> {
    load.wait_for_more(WRITES)?;
    ways.isolate(at);
    wait_until(&format!("server {} is cut off and notices", at + 1), || !serves(mixed, at))?;
    load.wait_for_more(WRITES)?;
    ways.heal();
    wait_until(&format!("server {} is back", at + 1), || serves(mixed, at))
}

/// A follower and the leader are cut off under load, then everybody from everybody.
fn is_cut_off(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (mixed, ways) = Mixed::start_with_ways(workspace, home, letters)?;
    let load = Load::start_at_a_pace(&mixed.addresses(), "parts", PACE);
    cut_off(&mixed, &ways, &load, 0)?;
    cut_off(&mixed, &ways, &load, mixed.leader()?)?;
    (0..mixed.len()).for_each(|at| ways.isolate(at));
    wait_until("nobody serves", || !(0..mixed.len()).any(|at| serves(&mixed, at)))?;
    ways.heal();
    load.wait_for_more(WRITES)?;
    finish(&mixed, load)
}

/// Ways between some members are cut under load, in both directions or in one.
fn falls_silent(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let (mixed, ways) = Mixed::start_with_ways(workspace, home, letters)?;
    let load = Load::start_at_a_pace(&mixed.addresses(), "ways", PACE);
    let voters = letters.chars().filter(char::is_ascii_lowercase).count();
    for number in 0..5 {
        load.wait_for_more(WRITES)?;
        let leader = mixed.leader()?;
        let other = (leader + 1) % voters;
        match number {
            0 => ways.silence(leader, other),
            1 => ways.silence(other, leader),
            2 => [(leader, other), (other, leader)].iter().for_each(|(from, to)| ways.silence(*from, *to)),
            3 => ways.mute(leader),
            _ => ways.deafen(leader),
        }
        let victim = if number < 3 { other } else { leader };
        wait_until(&format!("server {} notices fault {number}", victim + 1), || !serves(&mixed, victim))?;
        load.wait_for_more(WRITES).with_context(|| format!("fault {number}"))?;
        ways.heal();
        for at in 0..mixed.len() {
            wait_until(&format!("server {} serves after fault {number}", at + 1), || serves(&mixed, at))?;
        }
    }
    finish(&mixed, load)
}

/// The first one's disk is full under load, then the leader's: others go on. With space they are back, ours by itself.
fn is_full(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let Some(mut mixed) = Mixed::start_on_small_disks(workspace, home, letters)? else {
        return Ok("SKIPPED, mounting a file system is not permitted here".to_owned());
    };
    let load = Load::start_at_a_pace(&mixed.addresses(), "full", PACE);
    for at in [0, mixed.leader()?] {
        load.wait_for_more(WRITES)?;
        mixed.disk(at)?.fill_up()?;
        wait_until(&format!("server {} does not lead", at + 1), || mixed.mode(at).as_deref() != Some("leader"))?;
        load.wait_for_more(4 * WRITES)?;
        mixed.disk(at)?.empty()?;
        mixed.bring_back(at)?;
    }
    load.wait_for_more(WRITES)?;
    finish(&mixed, load)
}
