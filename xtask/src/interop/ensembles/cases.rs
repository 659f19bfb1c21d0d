//! The mixed ensembles, by name.
//!
//! Letters are servers, numbered from 1: `a` is Apache 3.9, `e` the elder Apache 3.8, `o` Oxkeeper; in upper case they
//! observe. The last voter leads.

use std::path::Path;

use anyhow::Result;

use super::lifecycle::{
    Catch, goes_on_without_trust_empty, joins, joins_from_the_log, kills, migrates, rolls_over, serves,
};
use crate::interop::workspace::Workspace;

/// Runs a case in a folder, and tells what is worth telling.
pub(super) type Run = Box<dyn Fn(&Workspace, &Path) -> Result<String>>;

pub(super) struct Case {
    pub(super) name: String,
    pub(super) is_short: bool,
    pub(super) run: Run,
}

/// Those of every run, and those of a full one.
const SERVING: [&[&str]; 2] = [
    &["aoa", "aao", "oao", "ooa", "aoaO", "oooA", "eoe", "eao"],
    &[
        "aaoA", "ooaA", "ooaO", "aaoO", "aaaO", "eeo", "oeo", "ooe", "oae", "eoeO", "oooE", "eeoE", "eeeO", "aaooo",
        "oooaa", "ooaaa", "aaaoo", "aaoooA", "oooaaO", "eeooo", "oooee", "ooeee", "eeeoo",
    ],
];

const KILLED: [&[&str]; 2] = [
    &["aao", "ooa"],
    &["aoa", "oao", "aoaO", "eeo", "ooe", "aaooo", "oooaa", "ooaaa", "aaaoo", "aaoooA", "oooaaO", "eeooo", "ooeee"],
];

/// Whoever joins is the first, but for `Trunc`: there the last one leads and is left behind, the one before it then leads.
const JOINING: [&[(&str, Catch)]; 2] = [
    &[
        ("oaa", Catch::Diff),
        ("oaa", Catch::Snap),
        ("oao", Catch::Trunc),
        ("aoo", Catch::Diff),
        ("aoo", Catch::Snap),
        ("aoa", Catch::Trunc),
        ("oeo", Catch::Trunc),
        ("eoo", Catch::Snap),
    ],
    &[
        ("oee", Catch::Diff),
        ("oee", Catch::Snap),
        ("eoo", Catch::Diff),
        ("eoe", Catch::Trunc),
        ("oooaa", Catch::Diff),
        ("oooaa", Catch::Snap),
        ("aaoao", Catch::Trunc),
        ("aaooo", Catch::Diff),
        ("aaooo", Catch::Snap),
        ("ooaoa", Catch::Trunc),
        ("ooaaa", Catch::Snap),
        ("aaaoo", Catch::Snap),
    ],
];

/// The same, behind what the leader keeps in memory.
const READING: [&[&str]; 2] = [&["oaa", "aoo"], &["oee", "eoo"]];

/// How many, and what they become one after the other.
const MIGRATING: [&[(usize, &str)]; 2] = [&[(3, "aoa")], &[(3, "oao"), (3, "eoe"), (3, "eoa"), (5, "aoa")]];

/// Epochs that end. Where Apache leads, enough of its kind follow.
const ROLLING: [&[&str]; 2] = [&[], &["aao", "aoa", "oao", "aoaO"]];

/// All of them.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, is_short, run: Run| {
        cases.push(Case { name, is_short, run });
    };
    for (is_short, index) in [(true, 0), (false, 1)] {
        for letters in SERVING[index] {
            let run = |workspace: &_, home: &_| serves(workspace, home, letters);
            add(format!("{letters} serves"), is_short, Box::new(run));
        }
        for letters in KILLED[index] {
            let run = |workspace: &_, home: &_| kills(workspace, home, letters);
            add(format!("{letters} is killed one by one"), is_short, Box::new(run));
        }
        for (letters, catch) in JOINING[index] {
            let run = |workspace: &_, home: &_| joins(workspace, home, letters, *catch);
            add(format!("{letters}: joins by {catch:?}"), is_short, Box::new(run));
        }
        for letters in READING[index] {
            let run = |workspace: &_, home: &_| joins_from_the_log(workspace, home, letters);
            add(format!("{letters}: joins from the log"), is_short, Box::new(run));
        }
        for letters in ROLLING[index] {
            let run = |workspace: &_, home: &_| rolls_over(workspace, home, letters);
            add(format!("{letters}: counters are used up"), is_short, Box::new(run));
        }
        for (count, path) in MIGRATING[index] {
            let steps: Vec<String> = path.chars().map(String::from).collect();
            let run = |workspace: &_, home: &_| migrates(workspace, home, *count, path);
            add(format!("rolling migration {} of {count}", steps.join(" -> ")), is_short, Box::new(run));
        }
    }
    let run = |workspace: &_, home: &_| goes_on_without_trust_empty(workspace, home, "ooo");
    add("ooo: starts with trust.empty, Apache without".into(), true, Box::new(run));
    super::roles::add_all(&mut cases);
    super::reconfig::add_all(&mut cases);
    super::faults::add_all(&mut cases);
    cases
}
