//! Project tasks: `cargo xtask <task>`. One module per task, with its flags.

mod cases;
mod catch;
mod dist;
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
    /// Run the regression tests of known ZooKeeper bugs, or list the bugs in `docs/reference/requirements.md`.
    Cases(cases::Args),
    /// Check the sources against rules that neither rustc nor clippy has.
    Tidy,
    /// Count banned words, filler comments and shared type names.
    Words,
    /// Benchmark Oxkeeper and Apache alternately.
    Perf(perf::Args),
    /// Measure what writing clients notice while members of an ensemble are killed and restarted.
    Failover(perf::failover::Args),
    /// Measure what a thousand HTTP clients cost the clients of a server, and the cost of a scrape.
    HttpLoad(perf::http_load::Args),
    /// Build packages: binary, Debian package, container image, chart, wheel, jar; and check them.
    Dist(dist::Args),
    /// Simulate servers and ensembles under faults, one run per seed.
    Sim(sim::Args),
    /// Remove guards from the code one by one and check that the simulator or a test fails.
    Mutations(mutations::Args),
    /// Test with real ZooKeeper clients and with Apache servers.
    Interop(interop::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cases(args) => cases::run(&args),
        Task::Tidy => tidy::run(),
        Task::Words => language::run(),
        Task::Perf(args) => perf::run(&args),
        Task::Failover(args) => perf::failover::run(&args),
        Task::HttpLoad(args) => perf::http_load::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Mutations(args) => mutations::run(&args),
        Task::Interop(args) => interop::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
