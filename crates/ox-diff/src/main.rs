//! `ox-diff OURS APACHE`: runs the differential test on two running servers.

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use ox_diff::profile::{PROFILES, Profile};
use ox_diff::runner::ServerPair;
use ox_diff::scenarios;
use ox_diff::script::Script;
use ox_diff::suite::{self, ServerControl, SuitePlan};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Sends the same requests to two servers and reports differing replies.
#[derive(Debug, Parser)]
#[command(name = "ox-diff", version)]
struct Arguments {
    /// Address of the server under test, host:port.
    ours: String,
    /// Address of the Apache server; without it, only scripts that must never reach Apache run.
    apache: Option<String>,
    /// The settings that both servers run with.
    #[arg(long, default_value = "default")]
    profile: String,
    /// First seed of the random runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Requests per seed; 0 runs only the scenarios.
    #[arg(long, default_value_t = 3000)]
    steps: usize,
    /// Run only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// Run only the scenario in this file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Do not run the scenarios.
    #[arg(long)]
    random_only: bool,
    /// A command that replaces both servers by empty ones and prints their addresses.
    #[arg(long)]
    fresh: Option<String>,
    /// A command that restarts both servers on their data and prints their addresses.
    #[arg(long)]
    restart: Option<String>,
    /// Print every batch and Apache's replies.
    #[arg(long)]
    trace: bool,
    /// Print the counts of replies and events of the run.
    #[arg(long)]
    tally: bool,
    /// Seconds to spend on shortening a script.
    #[arg(long, default_value_t = 60)]
    shrink_seconds: u64,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
    let profile = Profile::named(&arguments.profile)
        .with_context(|| format!("no profile {}\nhint: one of {}", arguments.profile, names.join(", ")))?;
    let mut log = |text: &str| eprintln!("{text}");
    let verdict = match arguments.apache {
        None => suite::run_ours_only(&arguments.ours, profile, &mut log)?,
        Some(apache) => {
            let hook = |command: Option<String>| -> Option<Box<ox_diff::shrink::Fresh<'_>>> {
                command.map(|command| -> Box<ox_diff::shrink::Fresh<'_>> { Box::new(move || addresses(&command)) })
            };
            let mut servers = ServerControl {
                pair: ServerPair { ours: arguments.ours, apache },
                fresh: hook(arguments.fresh),
                restart: hook(arguments.restart),
            };
            let seeds =
                if profile.random && arguments.steps != 0 && arguments.scenario.is_none() && arguments.file.is_none() {
                    arguments.seeds
                } else {
                    0
                };
            let plan = SuitePlan {
                profile,
                scenarios: !arguments.random_only && arguments.file.is_none(),
                scripts: arguments.file.iter().map(read_script).collect::<Result<_>>()?,
                only: arguments.scenario,
                seeds: arguments.seed..arguments.seed + seeds,
                steps: arguments.steps,
                trace: arguments.trace,
                shrink_for: Duration::from_secs(arguments.shrink_seconds),
            };
            suite::run(&plan, &mut servers, &mut log)?
        }
    };
    if arguments.tally {
        print!("{}", verdict.tally);
    }
    println!("{verdict}");
    Ok(if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read_script(file: &PathBuf) -> Result<Script> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    scenarios::parse(&file.display().to_string(), &text)
}

/// Runs a command that prints two addresses.
fn addresses(command: &str) -> Result<ServerPair> {
    let mut words = command.split_whitespace();
    let program = words.next().context("empty command")?;
    let output = Command::new(program).args(words).output().with_context(|| format!("run {command}"))?;
    ensure!(output.status.success(), "{command}: {}", output.status);
    let text = String::from_utf8(output.stdout).context("addresses are text")?;
    let mut found = text.split_whitespace().map(str::to_owned);
    match (found.next(), found.next()) {
        (Some(ours), Some(apache)) => Ok(ServerPair { ours, apache }),
        _ => bail!("{command} must print two addresses"),
    }
}
