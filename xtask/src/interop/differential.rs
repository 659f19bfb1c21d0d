//! The differential test: the same requests to Oxkeeper and to Apache, under each profile of settings; and what must
//! never reach Apache, to Oxkeeper alone.

use super::servers::{ServerSpec, ServerUnderTest, Software};
use super::workspace::Workspace;
use anyhow::{Context, Result, bail};
use ox_diff::profile::{PROFILES, Profile, SettingPlace};
use ox_diff::report::RunReport;
use ox_diff::runner::ServerPair;
use ox_diff::suite::{self, ServerControl, SuitePlan};
use std::cell::RefCell;
use std::time::Duration;

/// How much to compare.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Amount {
    /// First seed of the random sequences.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds for each profile.
    #[arg(long, default_value_t = 2)]
    seeds: u64,
    /// Requests for each seed.
    #[arg(long, default_value_t = 3000)]
    steps: usize,
}

/// Two servers with the same settings.
struct Both {
    ours: ServerUnderTest,
    apache: ServerUnderTest,
    /// Goes after the servers that use it.
    _dir: tempfile::TempDir,
}

/// Settings that Oxkeeper does not know yet: it refuses to start with them.
const NOT_BUILT: &[&str] = &["enforced-auth"];

/// A server with a profile's settings.
fn spec(workspace: &Workspace, profile: &Profile, software: Software) -> ServerSpec {
    let mut spec = ServerSpec::new(workspace, software);
    for setting in profile.settings(SettingPlace::Config) {
        spec = spec.setting(setting.name, setting.value);
    }
    for setting in profile.settings(SettingPlace::Property) {
        spec = spec.property(setting.name, setting.value);
    }
    spec
}

fn folder() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("oxkeeper-diff-").tempdir()?)
}

impl Both {
    fn start(workspace: &Workspace, profile: &Profile) -> Result<Self> {
        let dir = folder()?;
        let start = |software, name| spec(workspace, profile, software).start_in(&dir.path().join(name));
        Ok(Self { ours: start(Software::Oxkeeper, "ours")?, apache: start(Software::Apache, "apache")?, _dir: dir })
    }

    fn pair(&self) -> ServerPair {
        ServerPair { ours: self.ours.address().to_string(), apache: self.apache.address().to_string() }
    }

    fn restart(&mut self) -> Result<()> {
        self.ours.restart()?;
        self.apache.restart()
    }
}

/// Plays what would harm Apache, or what it answers differently, on a server of ours; the scripts say what they expect.
fn run_alone(workspace: &Workspace, profile: &Profile, talk: &mut dyn FnMut(&str)) -> Result<RunReport> {
    let dir = folder()?;
    let mut ours = spec(workspace, profile, Software::Oxkeeper).start_in(dir.path())?;
    let verdict = suite::run_ours_only(&ours.address().to_string(), profile, talk)?;
    ours.restart().context("start again on what the scripts left")?;
    Ok(verdict)
}

/// Compares under every profile. A difference that is not listed as intended is an error.
pub(crate) fn run(workspace: &Workspace, amount: Amount) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    Software::Apache.prepare(workspace)?;
    let mut talk = |text: &str| eprintln!("{text}");
    let mut differing = Vec::new();
    for profile in PROFILES.iter().filter(|profile| !NOT_BUILT.contains(&profile.name)) {
        let both = RefCell::new(Both::start(workspace, profile).with_context(|| format!("profile {}", profile.name))?);
        let mut servers = ServerControl {
            pair: both.borrow().pair(),
            fresh: Some(Box::new(|| {
                both.replace(Both::start(workspace, profile)?);
                Ok(both.borrow().pair())
            })),
            restart: Some(Box::new(|| {
                both.borrow_mut().restart()?;
                Ok(both.borrow().pair())
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
        let mut verdict = suite::run(&plan, &mut servers, &mut talk)?;
        verdict.merge(run_alone(workspace, profile, &mut talk).with_context(|| format!("profile {}", profile.name))?);
        println!("{}: {verdict}", profile.name);
        if !verdict.is_clean() {
            differing.push(profile.name);
        }
    }
    if differing.is_empty() { Ok(()) } else { bail!("answers differ from Apache's under: {}", differing.join(", ")) }
}
