//! `oxkeeper`: one binary for the server and its tools.

mod commands;
mod four_letter;
mod lock_owner;
mod logging;
mod port_owner;
mod scripts;
mod terminal;
mod usage_hint;

use clap::{Parser, Subcommand};
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Returns freed memory to the system after some seconds by a background thread, even in an idle server. The allocator
/// of the C library keeps what a flood of requests has allocated (measurements in `docs/operate/performance.md`).
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Version, commit, date of the commit, and target.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("OXKEEPER_COMMIT"),
    ", ",
    env!("OXKEEPER_COMMIT_DATE"),
    ", ",
    env!("OXKEEPER_TARGET"),
    ", compatible with ZooKeeper 3.9.3)"
);

/// The commit of this binary, for the servers that it runs.
const BUILD: ox_server::Build =
    ox_server::Build { commit: env!("OXKEEPER_COMMIT"), date: env!("OXKEEPER_COMMIT_DATE") };

/// Apache ZooKeeper, reimplemented in Rust.
#[derive(Debug, Parser)]
#[command(name = "oxkeeper", version = VERSION, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server in the foreground
    Server(commands::server::Args),
    /// Run a local ensemble for development
    Ensemble(commands::ensemble::Args),
    /// Open a shell or run one command: every command of zkCli, and more
    Cli(commands::cli::Args),
    /// Show all members of an ensemble: roles, zxids, latencies
    Status(commands::status::Args),
    /// Send a four-letter command, such as srvr or mntr
    #[command(name = "4lw")]
    FourLetter(commands::four_letter_command::Args),
    /// Send a command to the AdminServer, such as srvr, log_level or reload
    Admin(commands::admin::Args),
    /// Put load on a ZooKeeper server and measure it
    Bench(Box<ox_bench::BenchArgs>),
    /// Print, check and recover transaction logs
    #[command(subcommand)]
    Log(commands::log::LogCommand),
    /// Print, check and compare snapshots
    #[command(subcommand)]
    Snapshot(commands::snapshot::SnapshotCommand),
    /// Make certificates for development, and check TLS settings
    #[command(subcommand)]
    Tls(commands::tls::TlsCommand),
    /// Explain a configuration, and check whether a server would start with it
    CheckConfig(commands::check_config::Args),
    /// The entry point of the container image: write zoo.cfg and myid from ZOO_* variables, execute a command
    #[command(hide = true)]
    DockerEntrypoint(commands::docker_entrypoint::Args),
    /// Files for packages: completions and man pages
    #[command(subcommand, hide = true)]
    Generate(commands::generate::GenerateCommand),
}

fn main() -> ExitCode {
    // First, because its arguments may name another program.
    if let Some(args) = commands::docker_entrypoint::command_if_called_as_script() {
        return report(commands::docker_entrypoint::run(args));
    }
    if let Some(code) = scripts::run_if_called() {
        return code;
    }
    match parse().command {
        Command::Server(args) => commands::server::run(&args),
        Command::Ensemble(args) => report(commands::ensemble::run(&args)),
        Command::Cli(args) => commands::cli::run(args),
        Command::Status(args) => commands::status::run(&args),
        Command::FourLetter(args) => commands::four_letter_command::run(&args),
        Command::Admin(args) => commands::admin::run(&args),
        Command::Bench(args) => report(commands::bench::run(*args)),
        Command::Log(command) => commands::log::run(&command),
        Command::Snapshot(command) => commands::snapshot::run(&command),
        Command::Tls(command) => commands::tls::run(&command),
        Command::CheckConfig(args) => commands::check_config::run(&args),
        Command::DockerEntrypoint(args) => report(commands::docker_entrypoint::run(args)),
        Command::Generate(command) => report(commands::generate::run(&command)),
    }
}

/// Parses the command line. A wrong one ends the program.
fn parse() -> Cli {
    // The shell takes long options with one dash, as zkCli does; the others take the one that users copy from there.
    let words = std::env::args_os().map(|word| match word.to_str() {
        Some("-client-configuration") => "--client-configuration".into(),
        _ => word,
    });
    Cli::try_parse_from(words).unwrap_or_else(|mut error| {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let hint = usage_hint::improve(&mut error, &words);
        let _ = error.print(); // a failure cannot be reported anywhere
        if let Some(hint) = hint {
            say(format_args!("\nhint: {hint}"));
        }
        std::process::exit(error.exit_code())
    })
}

fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("error: {}", all_causes(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, and below them the hints. Some error texts contain their causes already.
fn all_causes(error: &anyhow::Error) -> String {
    let (mut text, mut hints) = (String::new(), String::new());
    for cause in error.chain().map(ToString::to_string) {
        let (cause, hint) = match cause.split_once("\nhint: ") {
            Some((cause, hint)) => (cause.to_owned(), Some(hint)),
            None => (cause.clone(), None),
        };
        if let Some(hint) = hint.filter(|hint| !hints.contains(*hint)) {
            hints += &format!("\nhint: {hint}");
        }
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text + &hints
}

/// Prints to stderr if possible; `eprintln!` panics if it is not.
fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_all_causes() {
        let error = anyhow::anyhow!("no such file").context("read the usage\nhint: is it running?").context("set up");
        assert_eq!(all_causes(&error), "set up: read the usage: no such file\nhint: is it running?");
    }
}
