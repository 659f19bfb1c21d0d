//! The differential test: the same requests to Oxkeeper and to Apache, with each profile of settings. Scenarios that
//! would harm Apache run on Oxkeeper only.

use super::servers::Software;
use super::workspace::Workspace;
use anyhow::{Context, Result, bail};
use ox_diff::profile::{PROFILES, Profile, SettingPlace};
use ox_diff::report::RunReport;
use ox_diff::runner::ServerPair;
use ox_diff::suite::{self, ServerControl, SuitePlan};
use ox_testkit::{ServerSpec, ServerUnderTest};
use std::cell::RefCell;
use std::time::Duration;

/// The extent of the comparison.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Amount {
    /// First seed of the random sequences.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds per profile.
    #[arg(long, default_value_t = 2)]
    seeds: u64,
    /// Number of requests per seed.
    #[arg(long, default_value_t = 3000)]
    steps: usize,
}

/// An Oxkeeper and an Apache server with the same settings.
struct RunningPair {
    ours: ServerUnderTest,
    apache: ServerUnderTest,
    /// Declared last: dropped after the servers that use it.
    _directory: tempfile::TempDir,
}

/// Profiles with settings that Oxkeeper does not support yet: it refuses to start with them.
const UNSUPPORTED: &[&str] = &["enforced-auth"];

/// A server with the settings of a profile.
fn spec(workspace: &Workspace, profile: &Profile, software: Software) -> Result<ServerSpec> {
    let mut spec = software.spec(workspace)?;
    for setting in profile.settings(SettingPlace::Config) {
        spec = spec.setting(setting.name, setting.value);
    }
    for setting in profile.settings(SettingPlace::Property) {
        spec = spec.property(setting.name, setting.value);
    }
    Ok(spec)
}

fn temporary_directory() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("oxkeeper-diff-").tempdir()?)
}

impl RunningPair {
    fn start(workspace: &Workspace, profile: &Profile) -> Result<Self> {
        let directory = temporary_directory()?;
        let start = |software, name| spec(workspace, profile, software)?.start_in(&directory.path().join(name));
        Ok(Self {
            ours: start(Software::Oxkeeper, "ours")?,
            apache: start(Software::Apache, "apache")?,
            _directory: directory,
        })
    }

    fn pair(&self) -> ServerPair {
        ServerPair { ours: self.ours.address().to_string(), apache: self.apache.address().to_string() }
    }

    fn restart(&mut self) -> Result<()> {
        self.ours.restart()?;
        self.apache.restart()
    }
}

/// Runs the scenarios that harm Apache, or to which Apache replies differently, on Oxkeeper. These scripts contain the
/// expected replies.
fn run_ours_only(workspace: &Workspace, profile: &Profile, log: &mut dyn FnMut(&str)) -> Result<RunReport> {
    let directory = temporary_directory()?;
    let mut ours = spec(workspace, profile, Software::Oxkeeper)?.start_in(directory.path())?;
    let report = suite::run_ours_only(&ours.address().to_string(), profile, log)?;
    ours.restart().context("restart on the data that the scripts left")?;
    Ok(report)
}

/// Runs the comparison with every profile. An error if a difference is not listed as intended.
pub(crate) fn run(workspace: &Workspace, amount: Amount) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    Software::Apache.prepare(workspace)?;
    let mut log = |text: &str| eprintln!("{text}");
    let mut differing = Vec::new();
    for profile in PROFILES.iter().filter(|profile| !UNSUPPORTED.contains(&profile.name)) {
        let running =
            RefCell::new(RunningPair::start(workspace, profile).with_context(|| format!("profile {}", profile.name))?);
        let mut servers = ServerControl {
            pair: running.borrow().pair(),
            fresh: Some(Box::new(|| {
                running.replace(RunningPair::start(workspace, profile)?);
                Ok(running.borrow().pair())
            })),
            restart: Some(Box::new(|| {
                running.borrow_mut().restart()?;
                Ok(running.borrow().pair())
            })),
        };
        let seeds = if profile.random { amount.seeds } else { 0 };
        let plan = SuitePlan {
            profile,
            scenarios: true,
            scripts: Vec::new(),
            only: None,
            trace: false,
            seeds: amount.seed..amount.seed + seeds,
            steps: amount.steps,
            shrink_for: Duration::from_secs(20),
        };
        let mut report = suite::run(&plan, &mut servers, &mut log)?;
        report.merge(run_ours_only(workspace, profile, &mut log).with_context(|| format!("profile {}", profile.name))?);
        println!("{}: {report}", profile.name);
        if !report.is_clean() {
            differing.push(profile.name);
        }
    }
    if differing.is_empty() {
        Ok(())
    } else {
        bail!("replies differ from Apache's with these profiles: {}", differing.join(", "))
    }
}
