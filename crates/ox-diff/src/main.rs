//! `ox-diff OURS APACHE`: the differential test on two running servers.

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use ox_diff::profile::{PROFILES, Profile};
use ox_diff::runner::Pair;
use ox_diff::scenarios;
use ox_diff::script::Script;
use ox_diff::suite::{self, Plan, Servers};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Sends the same requests to two servers and reports where they answer differently.
#[derive(Debug, Parser)]
#[command(name = "ox-diff", version)]
struct Arguments {
    /// Address of the server under test, host:port.
    ours: String,
    /// Address of the Apache server; without it only the scripts run that must never reach Apache.
    apache: Option<String>,
    /// The settings that both servers run under.
    #[arg(long, default_value = "default")]
    profile: String,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Requests per seed; 0 for the scenarios only.
    #[arg(long, default_value_t = 3000)]
    steps: usize,
    /// Only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// A file with a scenario; nothing else runs then.
    #[arg(long)]
    file: Option<PathBuf>,
    /// No scenarios.
    #[arg(long)]
    random_only: bool,
    /// A command that replaces both servers by empty ones and prints their addresses.
    #[arg(long)]
    fresh: Option<String>,
    /// A command that restarts both servers on their data and prints their addresses.
    #[arg(long)]
    restart: Option<String>,
    /// Tells every batch and what Apache answered.
    #[arg(long)]
    trace: bool,
    /// Prints what the run has met.
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
    let mut talk = |text: &str| eprintln!("{text}");
    let verdict = match arguments.apache {
        None => suite::run_ours_only(&arguments.ours, profile, &mut talk)?,
        Some(apache) => {
            let hook = |command: Option<String>| -> Option<Box<ox_diff::shrink::Fresh<'_>>> {
                command.map(|command| -> Box<ox_diff::shrink::Fresh<'_>> { Box::new(move || addresses(&command)) })
            };
            let mut servers = Servers {
                pair: Pair { ours: arguments.ours, apache },
                fresh: hook(arguments.fresh),
                restart: hook(arguments.restart),
            };
            let seeds =
                if profile.random && arguments.steps != 0 && arguments.scenario.is_none() && arguments.file.is_none() {
                    arguments.seeds
                } else {
                    0
                };
            let plan = Plan {
                profile,
                scenarios: !arguments.random_only && arguments.file.is_none(),
                scripts: arguments.file.iter().map(read_script).collect::<Result<_>>()?,
                only: arguments.scenario,
                seeds: arguments.seed..arguments.seed + seeds,
                steps: arguments.steps,
                trace: arguments.trace,
                shrink_for: Duration::from_secs(arguments.shrink_seconds),
            };
            suite::run(&plan, &mut servers, &mut talk)?
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
fn addresses(command: &str) -> Result<Pair> {
    let mut words = command.split_whitespace();
    let program = words.next().context("empty command")?;
    let output = Command::new(program).args(words).output().with_context(|| format!("run {command}"))?;
    ensure!(output.status.success(), "{command}: {}", output.status);
    let text = String::from_utf8(output.stdout).context("addresses are text")?;
    let mut found = text.split_whitespace().map(str::to_owned);
    match (found.next(), found.next()) {
        (Some(ours), Some(apache)) => Ok(Pair { ours, apache }),
        _ => bail!("{command} must print two addresses"),
    }
}
