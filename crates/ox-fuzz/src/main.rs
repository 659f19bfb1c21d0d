//! Fuzzing from the command line: `cargo run --release -p ox-fuzz -- all --seconds 60`.

use anyhow::{Result, bail};
use clap::Parser;
use ox_fuzz::{TARGETS, Until, replay, run};
use std::time::Duration;

/// Feeds mutated inputs to all code that decodes untrusted bytes.
#[derive(Debug, Parser)]
struct Args {
    /// Name of a target, or `all`
    #[arg(default_value = "all")]
    target: String,
    /// Seconds to spend on each target
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed of the random inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only the input of this iteration
    #[arg(long)]
    only: Option<u64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let chosen: Vec<_> = TARGETS.iter().filter(|target| args.target == "all" || args.target == target.name).collect();
    if chosen.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("no target {}\nhint: one of {}, or all", args.target, names.join(", "));
    }
    for target in chosen {
        if let Some(iteration) = args.only {
            replay(target, args.seed, iteration);
            continue;
        }
        let count = run(target, args.seed, Until::Elapsed(Duration::from_secs(args.seconds)));
        println!("{}: {count} inputs, seed {}", target.name, args.seed);
    }
    Ok(())
}
