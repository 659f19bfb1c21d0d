//! `cargo xtask mutations`: removes the guards of [`guards::all`] from the code, one at a time, and counts the seeds
//! until the simulator fails, or runs the test of [`expected::DETECTED_BY_TEST`]. If neither fails, the simulation is too
//! coarse or a test is missing.
//!
//! The mutations are applied to a copy of the sources. `--write` updates the table in `docs/internals/testing.md`.

mod expected;
mod guards;

use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use expected::{DETECTED_BY_TEST, NOT_DETECTED};
use guards::Guard;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of `cargo xtask mutations`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seeds to simulate per guard.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Only guards whose file or description contains one of these texts.
    #[arg(long)]
    only: Vec<String>,
    /// Run the simulator for guards that have a test, too.
    #[arg(long)]
    sim: bool,
    /// Update the table in `docs/internals/testing.md`. Rows of guards that were not run stay as they are.
    #[arg(long)]
    write: bool,
}

impl Args {
    /// Package and name of the test to run instead of the simulator.
    fn test(&self, guard: &Guard) -> Option<(&'static str, &'static str)> {
        let (_, package, test) =
            DETECTED_BY_TEST.iter().filter(|_| !self.sim).find(|(name, ..)| *name == guard.guard)?;
        Some((package, test))
    }
}

/// How the removal of a guard was detected.
struct Detection {
    /// Seeds until the first failure. `None` if a test failed instead.
    seeds: Option<u64>,
    caught_by: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find();
    let build = MutationBuild::new(&workspace)?;
    let contains = |guard: &Guard, text: &String| guard.file.contains(text) || guard.guard.contains(text);
    let is_wanted = |guard: &&Guard| args.only.is_empty() || args.only.iter().any(|text| contains(guard, text));
    let wanted: Vec<&Guard> = guards::all().filter(is_wanted).collect();
    ensure!(!wanted.is_empty(), "no guard matches --only");
    if wanted.iter().any(|guard| args.test(guard).is_none())
        && let Some(Detection { caught_by, .. }) = build.simulate(args.seeds)?
    {
        bail!("a seed fails without any mutation: {caught_by}");
    }
    let mut undetected = 0;
    for guard in wanted {
        let detection = build.run_without(guard, args).with_context(|| format!("{}: {}", guard.file, guard.guard))?;
        let row = row(guard, detection.as_ref());
        println!("{row}");
        if args.write {
            write_row(&workspace.root().join("docs/internals/testing.md"), &row)?;
        }
        undetected += usize::from(detection.is_none() && accepted_reason(guard).is_none());
    }
    ensure!(undetected == 0, "the removal of {undetected} guards was not detected within {} seeds", args.seeds);
    Ok(())
}

/// The first cell of a guard's row, which identifies it.
fn row_start(guard: &Guard) -> String {
    let place = guard.file.trim_start_matches("crates/").replacen("/src/", "/", 1);
    format!("| {} (`{place}`) |", guard.guard)
}

fn row(guard: &Guard, detection: Option<&Detection>) -> String {
    let (first, breaks) = (row_start(guard), guard.breaks);
    match detection {
        Some(Detection { seeds: Some(seeds), caught_by }) => format!("{first} {breaks} | {caught_by} | {seeds} |"),
        Some(Detection { seeds: None, caught_by }) => format!("{first} {breaks} | {caught_by} | |"),
        None => {
            let why = accepted_reason(guard).map_or_else(String::new, |why| format!(": {why}"));
            format!("{first} {breaks} | **not caught**{why} | |")
        }
    }
}

/// Why the removal of a guard may stay undetected.
fn accepted_reason(guard: &Guard) -> Option<&'static str> {
    NOT_DETECTED.iter().find(|(name, _)| *name == guard.guard).map(|(_, why)| *why)
}

const BEGIN: &str = "<!-- mutations: cargo xtask mutations --write -->\n";
const END: &str = "<!-- end of mutations -->\n";

fn write_row(page: &Path, row: &str) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let (before, rest) =
        text.split_once(BEGIN).context("docs/internals/testing.md has no marker for the start of the table")?;
    let (old, after) =
        rest.split_once(END).context("docs/internals/testing.md has no marker for the end of the table")?;
    fs::write(page, format!("{before}{BEGIN}{}{END}{after}", with_row(old, row)))?;
    Ok(())
}

/// The table with a new or replaced row, in the order of [`guards::all`]. Drops the rows of guards that were removed.
fn with_row(old: &str, row: &str) -> String {
    let mut table = "| guard | what breaks without it | caught by | seeds |\n|---|---|---|---|\n".to_owned();
    for guard in guards::all() {
        let first = row_start(guard);
        let found = [row].into_iter().chain(old.lines()).find(|row| row.starts_with(&first));
        found.into_iter().for_each(|row| table.extend([row, "\n"]));
    }
    table
}

/// A copy of the sources with a target directory, so that mutations do not touch the working tree.
struct MutationBuild {
    source: PathBuf,
    target: PathBuf,
}

impl MutationBuild {
    fn new(workspace: &Workspace) -> Result<Self> {
        let (root, base) = (workspace.root(), workspace.target().join("mutations"));
        let listed = Command::new("git")
            .args(["ls-files", "crates", "xtask", "Cargo.toml", "Cargo.lock"])
            .current_dir(&root)
            .output()?;
        ensure!(listed.status.success(), "git ls-files failed");
        let build = Self { source: base.join("source"), target: base.join("target") };
        for file in String::from_utf8(listed.stdout)?.lines() {
            copy_if_changed(&root.join(file), &build.source.join(file))?;
        }
        Ok(build)
    }

    /// Removes a guard, runs the test or the simulator, and restores the file. Returns `None` if nothing failed.
    fn run_without(&self, guard: &Guard, args: &Args) -> Result<Option<Detection>> {
        let path = self.source.join(guard.file);
        let source = fs::read_to_string(&path)?;
        fs::write(&path, mutate(&source, guard)?)?;
        let detection = match args.test(guard) {
            Some((package, test)) => self.test(package, test),
            None => self.simulate(args.seeds),
        };
        fs::write(&path, source)?;
        detection
    }

    /// Cargo with settings for short builds: each build runs for seconds only, and there are dozens.
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

    /// Runs a test. An error if the test does not exist.
    fn test(&self, package: &str, test: &str) -> Result<Option<Detection>> {
        let built = self.cargo(&["test", "--quiet", "--package", package, "--no-run"]).status()?;
        ensure!(built.success(), "the mutated code does not compile");
        let run = self.cargo(&["test", "--package", package, "--", "--exact", test]).output()?;
        let output = String::from_utf8_lossy(&run.stdout);
        let ended = |result: &str| output.lines().any(|line| line == format!("test {test} ... {result}"));
        ensure!(ended("FAILED") || ended("ok"), "{package} has no test {test}");
        let caught_by = format!("the test `{test}` of `{package}`");
        Ok(ended("FAILED").then_some(Detection { seeds: None, caught_by }))
    }

    fn build(&self) -> Result<()> {
        let built = self.cargo(&["build", "--quiet", "--profile", "sim", "--package", "ox-sim"]).status()?;
        ensure!(built.success(), "the mutated code does not compile");
        Ok(())
    }

    fn simulate(&self, seeds: u64) -> Result<Option<Detection>> {
        self.build()?;
        let program = self.target.join("sim/ox-sim");
        let run = Command::new(program).args(["--first", "--seeds", &seeds.to_string()]).output()?;
        let output = String::from_utf8_lossy(&run.stdout);
        if run.status.success() {
            return Ok(None);
        }
        let failed = output.lines().filter_map(|line| line.strip_prefix("seed ")?.split_once(" failed: "));
        let first = failed.filter_map(|(seed, why)| Some((seed.parse::<u64>().ok()?, why))).min();
        let Some((seed, why)) = first else { bail!("the simulator failed without naming a seed: {output}") };
        Ok(Some(Detection { seeds: Some(seed + 1), caught_by: summarize(why) }))
    }
}

/// The text of a file without the guard.
fn mutate(source: &str, guard: &Guard) -> Result<String> {
    let count = source.matches(guard.with).count();
    ensure!(count == 1, "the code of the guard occurs {count} times instead of once:\n{}", guard.with);
    Ok(source.replacen(guard.with, guard.without, 1))
}

/// The violated property of the history, or else the kind of failure.
fn summarize(why: &str) -> String {
    let (kind, detail) = why.split_once(": ").unwrap_or((why, ""));
    let kind = kind.split_once(" at ").map_or(kind, |(kind, _)| kind);
    let is_property = detail.starts_with('P') && detail[1..].starts_with(|digit: char| digit.is_ascii_digit());
    let text = if is_property { detail.split(';').next().unwrap_or(detail) } else { kind };
    text.replace('|', "/")
}

fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let Ok(content) = fs::read(from) else { return Ok(()) }; // deleted in the working tree
    if fs::read(to).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("the file has no parent directory")?)?;
    fs::write(to, content)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_code_occurs_once_in_its_file() {
        let root = Workspace::find().root();
        let mut missing = String::new();
        for guard in guards::all() {
            let source = fs::read_to_string(root.join(guard.file)).unwrap();
            if let Err(error) = mutate(&source, guard) {
                missing += &format!("{}, {}: {error}\n", guard.file, guard.guard);
            }
        }
        assert!(missing.is_empty(), "{missing}");
    }

    #[test]
    fn accepted_reasons_and_tests_refer_to_guards() {
        for name in NOT_DETECTED.iter().map(|(name, _)| name).chain(DETECTED_BY_TEST.iter().map(|(name, ..)| name)) {
            assert!(guards::all().any(|guard| guard.guard == *name), "{name}");
        }
    }

    #[test]
    fn new_row_replaces_the_old_one() {
        let guards: Vec<_> = guards::all().take(2).collect();
        let [first, second] = [0, 1].map(|at| row(guards[at], None));
        let table = with_row(&with_row("| gone (`x.rs`) | | | |\n", &second), &first);
        let caught = row(guards[1], Some(&Detection { seeds: Some(3), caught_by: "a panic".to_owned() }));
        let table = with_row(&table, &caught);
        assert_eq!(table.lines().skip(2).collect::<Vec<_>>(), [first, caught]);
    }

    #[test]
    fn failure_summary_is_the_property_or_the_kind() {
        let history = "clients saw something impossible at 1.5: P47 event before state: it came late; connection 3";
        assert_eq!(summarize(history), "P47 event before state: it came late");
        assert_eq!(summarize("a server could not start again at 0.1: no such file"), "a server could not start again");
    }
}
