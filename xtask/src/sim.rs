//! `cargo xtask sim`: as many seeds of the simulator as wished, on all cores.
//!
//! Built with the profile `sim`: as fast as a release, but a panic fails its own seed only.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Flags of `cargo xtask sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Requests of each client, in place of what the seed says.
    #[arg(long)]
    steps: Option<u64>,
    /// Run every seed twice and compare.
    #[arg(long)]
    twice: bool,
    /// Runs at the same time; all cores by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Only ensembles of so many voters, in place of what the seed says.
    #[arg(long)]
    voters: Option<usize>,
    /// Ensembles with more of one kind of trouble: damage, sessions, read-only, epochs, changes, disks, ways, one-way or links.
    #[arg(long)]
    storm: Option<String>,
}

/// Builds the simulator and runs it.
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
    eprintln!("building the simulator, which takes some minutes the first time");
    let status = command.status().context("run cargo")?;
    if !status.success() {
        bail!("some seeds failed");
    }
    Ok(())
}
