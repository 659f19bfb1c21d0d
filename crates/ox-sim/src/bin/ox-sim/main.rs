//! `ox-sim SEED` replays one run step by step; `ox-sim --seeds N` runs many and says how fast.

use clap::Parser;
use ox_sim::{Kind, Marks, Outcome, Plan, Told, run, run_told};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(name = "ox-sim", about = "Simulates servers under faults; a run is a function of its seed")]
struct Cli {
    /// Replay this seed and tell every step.
    #[arg(conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run every seed only once, without the check that it gives the same again.
    #[arg(long)]
    once: bool,
    /// Say only how a single seed ended.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match (cli.seed, cli.seeds) {
        (Some(seed), _) => single(seed, cli.quiet),
        (None, Some(count)) => many(cli.from, count, cli.once),
        (None, None) => many(cli.from, 1_000, cli.once),
    }
}

/// A panic says which seed it was, and ends the program with the code of its kind.
fn guard(seed: u64) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        eprintln!("{}", replay_hint(seed));
        std::process::exit(i32::from(Kind::Panic as u8));
    }));
}

fn replay_hint(seed: u64) -> String {
    format!("seed {seed}: {}\nreplay: cargo run -p ox-sim -- {seed}", Kind::Panic.text())
}

fn single(seed: u64, quiet: bool) -> ExitCode {
    guard(seed);
    let plan = Plan::of(seed);
    println!("seed {seed}: {plan:#?}");
    let outcome = run_told(seed, &plan, if quiet { Told::Outcome } else { Told::Everything });
    print_marks(&outcome.marks);
    report(&outcome)
}

fn report(outcome: &Outcome) -> ExitCode {
    let Outcome { seed, failure, trace_hash, steps, virtual_us, .. } = outcome;
    println!("seed {seed}: {steps} steps, {} s of virtual time, trace {trace_hash:016x}", virtual_us / 1_000_000);
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("seed {seed} failed: {failure}");
            println!("replay: cargo run -p ox-sim -- {seed}");
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn many(from: u64, count: u64, once: bool) -> ExitCode {
    let started = Instant::now();
    let (mut marks, mut code, mut failed, mut steps) = (Marks::default(), ExitCode::SUCCESS, 0_u64, 0_u64);
    for seed in from..from + count {
        guard(seed);
        let plan = Plan::of(seed);
        let outcome = run(seed, &plan);
        marks.add(&outcome.marks);
        steps += outcome.steps;
        if outcome.failure.is_some() {
            failed += 1;
            code = report(&outcome);
        } else if !once {
            let again = run(seed, &plan);
            if again.trace_hash != outcome.trace_hash {
                failed += 1;
                println!("seed {seed} failed: {}", Kind::NotDeterministic.text());
                println!("replay: cargo run -p ox-sim -- {seed}");
                code = ExitCode::from(Kind::NotDeterministic as u8);
            }
        }
        _ = std::panic::take_hook();
    }
    print_marks(&marks);
    let seconds = started.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!("{count} seeds from {from}, {failed} failed, {steps} steps; {seconds:.1} s, {rate:.1} seeds per second");
    code
}

fn print_marks(marks: &Marks) {
    for (text, count) in marks.each() {
        println!("{count:>10}  {text}");
    }
}
