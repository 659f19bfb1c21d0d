//! `ox-sim SEED` replays one seed step by step; `ox-sim --seeds N` runs many and prints statistics.

mod batch;
mod panics;

use batch::Batch;
use clap::{Parser, ValueEnum};
use ox_sim::{CoverageCounts, FaultProfile, Outcome, Plan, Verbosity, run_with};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "ox-sim", about = "Simulates servers under faults; a simulation is a function of its seed")]
struct Cli {
    /// Replay this seed and print every step.
    #[arg(conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// First seed of the range.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Requests of each client, instead of the number drawn from the seed; faults last proportionally longer.
    #[arg(long)]
    steps: Option<u64>,
    /// Run every seed twice and compare the traces; by default one in sixteen.
    #[arg(long)]
    twice: bool,
    /// Number of seeds that run in parallel; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Number of voters, instead of the number drawn from the seed.
    #[arg(long)]
    voters: Option<usize>,
    /// Fault profile: ensembles in which one kind of fault is frequent.
    #[arg(long = "storm")]
    profile: Option<FaultProfile>,
    /// Run without any faults.
    #[arg(long, conflicts_with = "profile")]
    calm: bool,
    /// Stop at the first failure.
    #[arg(long)]
    first: bool,
    /// Print only the outcome of a single seed.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    panics::hook(cli.overrides());
    match cli.seed {
        Some(seed) => single(seed, &cli),
        None => {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let threads = cli.threads.unwrap_or_else(cores).max(1);
            let overrides = cli.overrides();
            let Cli { from, seeds, twice, first, .. } = cli;
            Batch { from, seeds, overrides, twice, threads, stops_at_first: first }.run()
        }
    }
}

/// The plan of a seed with the overrides of the command line.
fn plan(seed: u64, overrides: Overrides) -> Plan {
    let mut plan = match overrides.profile {
        Some(profile) => Plan::with_profile(seed, profile),
        None if overrides.calm => Plan::calm(),
        None => Plan::of(seed),
    };
    if let Some(voters) = overrides.voters {
        plan = plan.with_voters(voters);
    }
    if let Some(steps) = overrides.steps {
        plan = plan.with_requests(steps);
    }
    plan
}

/// Options that replace what the seed would draw.
#[derive(Clone, Copy, Debug)]
struct Overrides {
    steps: Option<u64>,
    voters: Option<usize>,
    profile: Option<FaultProfile>,
    calm: bool,
}

impl Cli {
    fn overrides(&self) -> Overrides {
        Overrides { steps: self.steps, voters: self.voters, profile: self.profile, calm: self.calm }
    }
}

/// The command that replays a seed.
fn replay(seed: u64, overrides: Overrides) -> String {
    let steps = overrides.steps.map_or_else(String::new, |steps| format!(" --steps {steps}"));
    let voters = overrides.voters.map_or_else(String::new, |voters| format!(" --voters {voters}"));
    let profile = overrides.profile.and_then(|profile| profile.to_possible_value());
    let profile = profile.map_or_else(String::new, |profile| format!(" --storm {}", profile.get_name()));
    let calm = if overrides.calm { " --calm" } else { "" };
    format!("replay: cargo run -p ox-sim -- {seed}{steps}{voters}{profile}{calm}")
}

fn single(seed: u64, cli: &Cli) -> ExitCode {
    let plan = plan(seed, cli.overrides());
    println!("seed {seed}: {plan:#?}");
    let outcome = run_with(seed, &plan, if cli.quiet { Verbosity::Quiet } else { Verbosity::Trace });
    print_coverage(&outcome.coverage);
    let Outcome { failure, trace_hash, steps, virtual_us, .. } = outcome;
    println!("seed {seed}: {steps} steps, {} s of virtual time, trace {trace_hash:016x}", virtual_us / 1_000_000);
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("seed {seed} failed: {failure}\n{}", replay(seed, cli.overrides()));
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn print_coverage(coverage: &CoverageCounts) {
    for (text, count) in coverage.each() {
        println!("{count:>10}  {text}");
    }
}
