//! Project tasks: `cargo xtask <task>`. One module per task; each owns its flags and its work.

mod cases;
mod interop;
mod language;
mod mutations;
mod perf;
mod sim;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the Oxkeeper project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the regression tests of known ZooKeeper bugs, or list the bugs in `docs/requirements.md`.
    Cases(cases::Args),
    /// Check small rules about the sources.
    Tidy,
    /// Count how plain the language of comments is.
    Words,
    /// Measure Oxkeeper and Apache side by side.
    Perf(perf::Args),
    /// Simulate a server under faults, for as many seeds as wished.
    Sim(sim::Args),
    /// Take guards away one by one and see whether the simulator notices.
    Mutations(mutations::Args),
    /// Run real ZooKeeper clients, and Apache's own server, against ours.
    Interop(interop::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Cases(args) => cases::run(&args),
        Task::Tidy => tidy::run(),
        Task::Words => language::run(),
        Task::Perf(args) => perf::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Mutations(args) => mutations::run(&args),
        Task::Interop(args) => interop::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
