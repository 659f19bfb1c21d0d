//! `ox-sim SEED` replays one run step by step; `ox-sim --seeds N` runs many and says how fast.

mod batch;
mod panics;

use clap::{Parser, ValueEnum};
use batch::Batch;
use ox_sim::{Marks, Outcome, Plan, Storm, Told, run_told};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "ox-sim", about = "Simulates servers under faults; a run is a function of its seed")]
struct Cli {
    /// Replay this seed and tell every step.
    #[arg(conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run so many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Requests of each client, in place of what the seed says; the faults last longer accordingly.
    #[arg(long)]
    steps: Option<u64>,
    /// Run every seed twice and compare; otherwise that is done to one in sixteen.
    #[arg(long)]
    twice: bool,
    /// Runs at the same time; all cores by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Only ensembles of so many voters, in place of what the seed says.
    #[arg(long)]
    voters: Option<usize>,
    /// Ensembles with more of one kind of trouble than the seed says.
    #[arg(long)]
    storm: Option<Storm>,
    /// Nothing goes wrong.
    #[arg(long, conflicts_with = "storm")]
    calm: bool,
    /// Stop at the first failure.
    #[arg(long)]
    first: bool,
    /// Say only how a single seed ended.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    panics::hook(cli.wish());
    match cli.seed {
        Some(seed) => single(seed, &cli),
        None => {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let threads = cli.threads.unwrap_or_else(cores).max(1);
            let wish = cli.wish();
            let Cli { from, seeds, twice, first, .. } = cli;
            Batch { from, seeds, wish, twice, threads, stops_at_first: first }.run()
        }
    }
}

/// The plan of a seed, with the steps that were asked for.
fn plan(seed: u64, wish: Wish) -> Plan {
    let mut plan = match wish.storm {
        Some(storm) => Plan::in_storm(seed, storm),
        None if wish.calm => Plan::calm(),
        None => Plan::of(seed),
    };
    if let Some(voters) = wish.voters {
        plan = plan.with_voters(voters);
    }
    if let Some(steps) = wish.steps {
        plan = plan.with_requests(steps);
    }
    plan
}

/// What was asked for in place of what the seed says.
#[derive(Clone, Copy, Debug)]
struct Wish {
    steps: Option<u64>,
    voters: Option<usize>,
    storm: Option<Storm>,
    calm: bool,
}

impl Cli {
    fn wish(&self) -> Wish {
        Wish { steps: self.steps, voters: self.voters, storm: self.storm, calm: self.calm }
    }
}

/// The command that runs a seed again.
fn replay(seed: u64, wish: Wish) -> String {
    let steps = wish.steps.map_or_else(String::new, |steps| format!(" --steps {steps}"));
    let voters = wish.voters.map_or_else(String::new, |voters| format!(" --voters {voters}"));
    let storm = wish.storm.and_then(|storm| storm.to_possible_value());
    let storm = storm.map_or_else(String::new, |storm| format!(" --storm {}", storm.get_name()));
    let calm = if wish.calm { " --calm" } else { "" };
    format!("replay: cargo run -p ox-sim -- {seed}{steps}{voters}{storm}{calm}")
}

fn single(seed: u64, cli: &Cli) -> ExitCode {
    let plan = plan(seed, cli.wish());
    println!("seed {seed}: {plan:#?}");
    let outcome = run_told(seed, &plan, if cli.quiet { Told::Outcome } else { Told::Everything });
    print_marks(&outcome.marks);
    let Outcome { failure, trace_hash, steps, virtual_us, .. } = outcome;
    println!("seed {seed}: {steps} steps, {} s of virtual time, trace {trace_hash:016x}", virtual_us / 1_000_000);
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("seed {seed} failed: {failure}\n{}", replay(seed, cli.wish()));
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn print_marks(marks: &Marks) {
    for (text, count) in marks.each() {
        println!("{count:>10}  {text}");
    }
}
