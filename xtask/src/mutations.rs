//! `cargo xtask mutations`: takes the guards of [`guards::GUARDS`] away, one at a time, and sees how soon the
//! simulator notices, or that the test in [`guards::TESTED`] does. A guard whose removal goes unnoticed means that the
//! simulation is too coarse, or a test is missing.
//!
//! The work is done on a copy of the sources; `--write` puts the outcome into `docs/internals/testing.md`.

mod guards;

use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use guards::{GUARDS, Guard, TESTED, UNSEEN};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of `cargo xtask mutations`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seeds tried for each guard.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Only guards whose file or description contains one of these.
    #[arg(long)]
    only: Vec<String>,
    /// Ask the simulator about guards that have a test, too.
    #[arg(long)]
    sim: bool,
    /// Put the outcome into the table in `docs/internals/testing.md`; rows of guards that were not tried stay as they are.
    #[arg(long)]
    write: bool,
}

impl Args {
    /// The test that is run in place of the simulator.
    fn test(&self, guard: &Guard) -> Option<(&'static str, &'static str)> {
        let (_, package, test) = TESTED.iter().filter(|_| !self.sim).find(|(name, ..)| *name == guard.guard)?;
        Some((package, test))
    }
}

/// What was said about a server without a guard.
struct Verdict {
    /// How many seeds the simulator needed; none if a test said it.
    seeds: Option<u64>,
    caught_by: String,
}

/// Tries every guard.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find();
    let bench = Bench::new(&workspace)?;
    let contains = |guard: &Guard, text: &String| guard.file.contains(text) || guard.guard.contains(text);
    let is_wanted = |guard: &&Guard| args.only.is_empty() || args.only.iter().any(|text| contains(guard, text));
    let wanted: Vec<&Guard> = GUARDS.iter().filter(is_wanted).collect();
    ensure!(!wanted.is_empty(), "no guard is called so");
    if wanted.iter().any(|guard| args.test(guard).is_none())
        && let Some(Verdict { caught_by, .. }) = bench.simulate(args.seeds)?
    {
        bail!("with all guards in place a seed fails: {caught_by}");
    }
    let mut unnoticed = 0;
    for guard in wanted {
        let verdict = bench.without(guard, args).with_context(|| format!("{}: {}", guard.file, guard.guard))?;
        let row = row(guard, verdict.as_ref());
        println!("{row}");
        if args.write {
            write_row(&workspace.root().join("docs/internals/testing.md"), &row)?;
        }
        unnoticed += usize::from(verdict.is_none() && excuse(guard).is_none());
    }
    ensure!(unnoticed == 0, "{unnoticed} guards are not missed within {} seeds", args.seeds);
    Ok(())
}

/// What a row of the table begins with.
fn first_cell(guard: &Guard) -> String {
    let place = guard.file.trim_start_matches("crates/").replacen("/src/", "/", 1);
    format!("| {} (`{place}`) |", guard.guard)
}

fn row(guard: &Guard, verdict: Option<&Verdict>) -> String {
    let (first, breaks) = (first_cell(guard), guard.breaks);
    match verdict {
        Some(Verdict { seeds: Some(seeds), caught_by }) => format!("{first} {breaks} | {caught_by} | {seeds} |"),
        Some(Verdict { seeds: None, caught_by }) => format!("{first} {breaks} | {caught_by} | |"),
        None => {
            let why = excuse(guard).map_or_else(String::new, |why| format!(": {why}"));
            format!("{first} {breaks} | **not caught**{why} | |")
        }
    }
}

/// Why nobody expects a guard to be missed.
fn excuse(guard: &Guard) -> Option<&'static str> {
    UNSEEN.iter().find(|(name, _)| *name == guard.guard).map(|(_, why)| *why)
}

const BEGIN: &str = "<!-- mutations: cargo xtask mutations --write -->\n";
const END: &str = "<!-- end of mutations -->\n";

fn write_row(page: &Path, row: &str) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let (before, rest) = text.split_once(BEGIN).context("docs/internals/testing.md has no place for the table")?;
    let (old, after) = rest.split_once(END).context("the table in docs/internals/testing.md has no end")?;
    fs::write(page, format!("{before}{BEGIN}{}{END}{after}", with_row(old, row)))?;
    Ok(())
}

/// The table with a new row in its place. Rows of guards that are no more go.
fn with_row(old: &str, row: &str) -> String {
    let mut table = "| guard | what breaks without it | caught by | seeds |\n|---|---|---|---|\n".to_owned();
    for guard in GUARDS {
        let first = first_cell(guard);
        let found = [row].into_iter().chain(old.lines()).find(|row| row.starts_with(&first));
        found.into_iter().for_each(|row| table.extend([row, "\n"]));
    }
    table
}

/// A copy of the sources, and where it is built.
struct Bench {
    source: PathBuf,
    target: PathBuf,
}

impl Bench {
    fn new(workspace: &Workspace) -> Result<Self> {
        let (root, base) = (workspace.root(), workspace.target().join("mutations"));
        let listed = Command::new("git")
            .args(["ls-files", "crates", "xtask", "Cargo.toml", "Cargo.lock"])
            .current_dir(&root)
            .output()?;
        ensure!(listed.status.success(), "git ls-files failed");
        let bench = Self { source: base.join("source"), target: base.join("target") };
        for file in String::from_utf8(listed.stdout)?.lines() {
            copy_if_changed(&root.join(file), &bench.source.join(file))?;
        }
        Ok(bench)
    }

    /// The verdict on a server without a guard; none if nothing failed.
    fn without(&self, guard: &Guard, args: &Args) -> Result<Option<Verdict>> {
        let path = self.source.join(guard.file);
        let whole = fs::read_to_string(&path)?;
        fs::write(&path, without(&whole, guard)?)?;
        let verdict = match args.test(guard) {
            Some((package, test)) => self.test(package, test),
            None => self.simulate(args.seeds),
        };
        fs::write(&path, whole)?;
        verdict
    }

    /// Cargo, for what is built dozens of times, and run for seconds.
    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(args)
            .env("CARGO_TARGET_DIR", &self.target)
            .envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_SIM_LTO", "off"), ("CARGO_PROFILE_SIM_DEBUG", "0")])
            .env("CARGO_PROFILE_SIM_CODEGEN_UNITS", "64")
            .env("RUSTFLAGS", "-A warnings")
            .current_dir(&self.source);
        cargo
    }

    /// The verdict of a test, which has to be there, and fail.
    fn test(&self, package: &str, test: &str) -> Result<Option<Verdict>> {
        let built = self.cargo(&["test", "--quiet", "--package", package, "--no-run"]).status()?;
        ensure!(built.success(), "it does not compile");
        let run = self.cargo(&["test", "--package", package, "--", "--exact", test]).output()?;
        let told = String::from_utf8_lossy(&run.stdout);
        let verdict = |what: &str| told.lines().any(|line| line == format!("test {test} ... {what}"));
        ensure!(verdict("FAILED") || verdict("ok"), "{package} has no test {test}");
        let caught_by = format!("the test `{test}` of `{package}`");
        Ok(verdict("FAILED").then_some(Verdict { seeds: None, caught_by }))
    }

    fn build(&self) -> Result<()> {
        let built = self.cargo(&["build", "--quiet", "--profile", "sim", "--package", "ox-sim"]).status()?;
        ensure!(built.success(), "it does not compile");
        Ok(())
    }

    fn simulate(&self, seeds: u64) -> Result<Option<Verdict>> {
        self.build()?;
        let program = self.target.join("sim/ox-sim");
        let run = Command::new(program).args(["--first", "--seeds", &seeds.to_string()]).output()?;
        let told = String::from_utf8_lossy(&run.stdout);
        if run.status.success() {
            return Ok(None);
        }
        let failed = told.lines().filter_map(|line| line.strip_prefix("seed ")?.split_once(" failed: "));
        let first = failed.filter_map(|(seed, why)| Some((seed.parse::<u64>().ok()?, why))).min();
        let Some((seed, why)) = first else { bail!("no seed is named: {told}") };
        Ok(Some(Verdict { seeds: Some(seed + 1), caught_by: shortened(why) }))
    }
}

/// The text of a file without its guard.
fn without(whole: &str, guard: &Guard) -> Result<String> {
    let count = whole.matches(guard.with).count();
    ensure!(count == 1, "the guard stands there {count} times, not once:\n{}", guard.with);
    Ok(whole.replacen(guard.with, guard.without, 1))
}

/// What failed: the property of a history, or the kind of failure.
fn shortened(why: &str) -> String {
    let (kind, detail) = why.split_once(": ").unwrap_or((why, ""));
    let kind = kind.split_once(" at ").map_or(kind, |(kind, _)| kind);
    let is_property = detail.starts_with('P') && detail[1..].starts_with(|digit: char| digit.is_ascii_digit());
    let text = if is_property { detail.split(';').next().unwrap_or(detail) } else { kind };
    text.replace('|', "/")
}

fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let Ok(content) = fs::read(from) else { return Ok(()) }; // listed, but deleted since
    if fs::read(to).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a path in the workspace")?)?;
    fs::write(to, content)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guard that moved must be found again, or the table tells nothing.
    #[test]
    fn every_guard_is_where_the_table_says() {
        let root = Workspace::find().root();
        let mut missing = String::new();
        for guard in GUARDS {
            let whole = fs::read_to_string(root.join(guard.file)).unwrap();
            if let Err(error) = without(&whole, guard) {
                missing += &format!("{}, {}: {error}\n", guard.file, guard.guard);
            }
        }
        assert!(missing.is_empty(), "{missing}");
    }

    #[test]
    fn every_excuse_and_every_test_is_about_a_guard() {
        for name in UNSEEN.iter().map(|(name, _)| name).chain(TESTED.iter().map(|(name, ..)| name)) {
            assert!(GUARDS.iter().any(|guard| guard.guard == *name), "{name}");
        }
    }

    #[test]
    fn a_row_replaces_the_one_before() {
        let [first, second] = [&GUARDS[0], &GUARDS[1]].map(|guard| row(guard, None));
        let table = with_row(&with_row("| gone (`x.rs`) | | | |\n", &second), &first);
        let caught = row(&GUARDS[1], Some(&Verdict { seeds: Some(3), caught_by: "a panic".to_owned() }));
        let table = with_row(&table, &caught);
        assert_eq!(table.lines().skip(2).collect::<Vec<_>>(), [first, caught]);
    }

    #[test]
    fn failures_are_told_in_few_words() {
        let history = "clients saw something impossible at 1.5: P47 event before state: it came late; connection 3";
        assert_eq!(shortened(history), "P47 event before state: it came late");
        assert_eq!(shortened("a server could not start again at 0.1: no such file"), "a server could not start again");
    }
}
