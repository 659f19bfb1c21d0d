//! `cargo xtask sim`: builds the simulator and runs a range of seeds on all cores.
//!
//! The profile `sim` is as fast as `release` but unwinds, so that a panic fails one seed and not the whole run.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Flags of `cargo xtask sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// First seed of the range.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Requests per client, instead of the number that the seed determines.
    #[arg(long)]
    steps: Option<u64>,
    /// Run every seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Number of runs in parallel. Default: one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Number of voters, instead of the number that the seed determines.
    #[arg(long)]
    voters: Option<usize>,
    /// Fault profile, which makes one kind of fault frequent: damage, sessions, read-only, epochs, changes, disks, ways,
    /// one-way or links.
    #[arg(long)]
    storm: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--profile", "sim", "--package", "ox-sim", "--"]);
    command.args(["--seeds", &args.seeds.to_string(), "--from", &args.from.to_string()]);
    let [threads, voters] = [args.threads, args.voters].map(|count| count.map(|count| count as u64));
    for (name, value) in [("--steps", args.steps), ("--threads", threads), ("--voters", voters)] {
        if let Some(value) = value {
            command.args([name, &value.to_string()]);
        }
    }
    if let Some(storm) = &args.storm {
        command.args(["--storm", storm]);
    }
    if args.twice {
        command.arg("--twice");
    }
    eprintln!("building the simulator (the first build takes some minutes)");
    let status = command.status().context("run cargo")?;
    if !status.success() {
        bail!("some seeds failed");
    }
    Ok(())
}
