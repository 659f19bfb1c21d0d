//! The list of mixed ensembles.
//!
//! A name such as `aoaO` describes the servers, numbered from 1: `a` is Apache 3.9, `e` Apache 3.8, `o` Oxkeeper,
//! `p` an earlier Oxkeeper, and an upper-case letter an observer. The last voter is the first leader.

use std::path::Path;

use anyhow::Result;

use super::lifecycle::{
    SyncMode, kills, migrates, restarts_without_trust_empty, rolls_over, serves, synchronises, synchronises_from_log,
};
use crate::interop::workspace::Workspace;

/// Runs a case with its files in a directory. Returns figures for the line of the result.
pub(super) type Run = Box<dyn Fn(&Workspace, &Path) -> Result<String>>;

pub(super) struct Case {
    pub(super) name: String,
    /// Whether the case runs without `--full`, too.
    pub(super) is_short: bool,
    pub(super) run: Run,
}

/// The cases of every run, and those of `--full` only.
const SERVE: [&[&str]; 2] = [
    &["aoa", "aao", "oao", "ooa", "aoaO", "oooA", "eoe", "eao"],
    &[
        "aaoA", "ooaA", "ooaO", "aaoO", "aaaO", "eeo", "oeo", "ooe", "oae", "eoeO", "oooE", "eeoE", "eeeO", "aaooo",
        "oooaa", "ooaaa", "aaaoo", "aaoooA", "oooaaO", "eeooo", "oooee", "ooeee", "eeeoo",
    ],
];

const KILL: [&[&str]; 2] = [
    &["aao", "ooa"],
    &["aoa", "oao", "aoaO", "eeo", "ooe", "aaooo", "oooaa", "ooaaa", "aaaoo", "aaoooA", "oooaaO", "eeooo", "ooeee"],
];

/// The first server is the learner to synchronise; for `Trunc` it is the last voter, the former leader, and the voter
/// before it becomes the leader.
const SYNCHRONISE: [&[(&str, SyncMode)]; 2] = [
    &[
        ("oaa", SyncMode::Diff),
        ("oaa", SyncMode::Snap),
        ("oao", SyncMode::Trunc),
        ("aoo", SyncMode::Diff),
        ("aoo", SyncMode::Snap),
        ("aoa", SyncMode::Trunc),
        ("oeo", SyncMode::Trunc),
        ("eoo", SyncMode::Snap),
    ],
    &[
        ("oee", SyncMode::Diff),
        ("oee", SyncMode::Snap),
        ("eoo", SyncMode::Diff),
        ("eoe", SyncMode::Trunc),
        ("oooaa", SyncMode::Diff),
        ("oooaa", SyncMode::Snap),
        ("aaoao", SyncMode::Trunc),
        ("aaooo", SyncMode::Diff),
        ("aaooo", SyncMode::Snap),
        ("ooaoa", SyncMode::Trunc),
        ("ooaaa", SyncMode::Snap),
        ("aaaoo", SyncMode::Snap),
    ],
];

/// The first server is the learner, and has missed more than the leader keeps in memory.
const SYNCHRONISE_FROM_LOG: [&[&str]; 2] = [&["oaa", "aoo"], &["oee", "eoo"]];

/// The number of servers, and the implementations through which each server is migrated.
const MIGRATE: [&[(usize, &str)]; 2] = [&[(3, "aoa")], &[(3, "oao"), (3, "eoe"), (3, "eoa"), (5, "aoa")]];

/// Zxid rollover. If Apache leads, enough Apache servers follow (see [`rolls_over`]).
const ROLL_OVER: [&[&str]; 2] = [&[], &["aao", "aoa", "oao", "aoaO"]];

pub(super) fn all(workspace: &Workspace) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, is_short, run: Run| {
        cases.push(Case { name, is_short, run });
    };
    for (is_short, selection) in [(true, 0), (false, 1)] {
        for letters in SERVE[selection] {
            let run = |workspace: &_, home: &_| serves(workspace, home, letters);
            add(format!("{letters}: serves"), is_short, Box::new(run));
        }
        for letters in KILL[selection] {
            let run = |workspace: &_, home: &_| kills(workspace, home, letters);
            add(format!("{letters}: each server is killed"), is_short, Box::new(run));
        }
        for (letters, sync_mode) in SYNCHRONISE[selection] {
            let run = |workspace: &_, home: &_| synchronises(workspace, home, letters, *sync_mode);
            add(format!("{letters}: learner is synchronised by {sync_mode}"), is_short, Box::new(run));
        }
        for letters in SYNCHRONISE_FROM_LOG[selection] {
            let run = |workspace: &_, home: &_| synchronises_from_log(workspace, home, letters);
            add(format!("{letters}: learner is synchronised from the on-disk log"), is_short, Box::new(run));
        }
        for letters in ROLL_OVER[selection] {
            let run = |workspace: &_, home: &_| rolls_over(workspace, home, letters);
            add(format!("{letters}: zxid rolls over"), is_short, Box::new(run));
        }
        for (count, path) in MIGRATE[selection] {
            let steps: Vec<String> = path.chars().map(String::from).collect();
            let run = |workspace: &_, home: &_| migrates(workspace, home, *count, path);
            add(format!("rolling migration {} of {count} servers", steps.join(" -> ")), is_short, Box::new(run));
        }
    }
    if workspace.previous().is_ok() {
        for count in [3, 5] {
            let run = move |workspace: &_, home: &_| migrates(workspace, home, count, "pop");
            add(format!("rolling upgrade p -> o -> p of {count} servers"), true, Box::new(run));
        }
    }
    let run = |workspace: &_, home: &_| restarts_without_trust_empty(workspace, home, "ooo");
    add("ooo: started with trust.empty, restarted as Apache without".into(), true, Box::new(run));
    super::roles::add_all(&mut cases);
    super::reconfig::add_all(&mut cases);
    super::faults::add_all(&mut cases);
    cases
}
