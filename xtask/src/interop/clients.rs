//! Runs client suites one after the other on one server and prints a summary.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ox_testkit::ServerSpec;

use super::fixture::ServerFixture;
use super::report::Report;
use super::servers::{SUPER_DIGEST, Software};
use super::suites::{self, Suite};
use super::workspace::Workspace;
use super::{Args, Target};

/// The slowest suite takes less than a minute on an idle machine.
const SUITE_TIMEOUT: Duration = Duration::from_secs(240);

pub(super) struct SuiteResult {
    name: &'static str,
    report: Report,
    /// Why the suite did not run to its end.
    error: Option<String>,
    duration: Duration,
}

/// Runs the suites that `args` selects. An error if any of them fails.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let start = Instant::now();
    let selected: Vec<&Suite> = suites::ALL.iter().filter(|suite| args.subject.includes(suite)).collect();
    let prepared = prepare(workspace, &selected);
    let home = tempfile::Builder::new().prefix("oxkeeper-interop-").tempdir()?;
    let fixture = match args.server {
        Target::Start(software) => {
            eprintln!("starting {software}");
            software.prepare(workspace)?;
            ServerFixture::owned(standard_spec(workspace, software)?.start_in(home.path())?)?
        }
        Target::Running(address) => ServerFixture::external(address)?,
    };
    let results: Vec<SuiteResult> = selected
        .iter()
        .zip(prepared)
        .map(|(suite, prepared)| match prepared {
            Ok(()) => run_suite(workspace, suite, &fixture, &[], args.verbose),
            Err(e) => SuiteResult {
                name: suite.name,
                report: Report::default(),
                error: Some(format!("{e:#}")),
                duration: Duration::ZERO,
            },
        })
        .collect();
    let all_passed = print_summary(&results);
    eprintln!("total {:.1} s", start.elapsed().as_secs_f64());
    if !all_passed {
        let files = match args.server {
            Target::Start(_) => format!(", the files of the server are in {}", home.keep().display()),
            Target::Running(_) => String::new(),
        };
        bail!("some suites failed\nhint: the full output is in target/interop/{files}");
    }
    Ok(())
}

/// The settings that the suites need. `interop/README.md` lists the same settings for servers started by hand.
pub(super) fn standard_spec(workspace: &Workspace, software: Software) -> Result<ServerSpec> {
    let spec = software.spec(workspace)?;
    Ok(spec
        // Short ticks let sessions expire soon.
        .setting("tickTime", 500)
        .setting("maxSessionTimeout", 60_000)
        .property("zookeeper.extendedTypesEnabled", true)
        .property("znode.container.checkIntervalMs", 500)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST))
}

fn prepare(workspace: &Workspace, suites: &[&Suite]) -> Vec<Result<()>> {
    suites
        .iter()
        .map(|suite| {
            eprintln!("preparing {}", suite.name);
            suite.prepare(workspace)
        })
        .collect()
}

/// Runs a suite with additional environment variables.
pub(super) fn run_suite(
    workspace: &Workspace,
    suite: &Suite,
    fixture: &ServerFixture,
    environment: &[(&str, String)],
    verbose: bool,
) -> SuiteResult {
    eprintln!("running {}", suite.name);
    let start = Instant::now();
    let mut report = Report::default();
    let result = run_program(workspace, suite, fixture, environment, verbose, &mut report);
    let error = result.and(fixture.recover()).err().map(|e| format!("{e:#}"));
    SuiteResult { name: suite.name, report, error, duration: start.elapsed() }
}

/// Runs the program of a suite and reads its lines into `report` and its log file.
fn run_program(
    workspace: &Workspace,
    suite: &Suite,
    fixture: &ServerFixture,
    environment: &[(&str, String)],
    verbose: bool,
    report: &mut Report,
) -> Result<()> {
    let log_path = workspace.suite_log(suite.name);
    std::fs::create_dir_all(log_path.parent().expect("the log has a parent directory"))?;
    let mut log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
    let mut child = suite
        .command(workspace)
        .args(fixture.arguments())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()
        .with_context(|| format!("start the {} suite", suite.name))?;
    let lines = lines_of(&mut child);
    let deadline = Instant::now() + SUITE_TIMEOUT;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(log, "{line}")?;
                if verbose || line.starts_with("fail ") {
                    eprintln!("  {line}");
                }
                report.add_line(suite.name, &line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                bail!("did not finish within {SUITE_TIMEOUT:?}");
            }
        }
    }
    let status = child.wait()?;
    if !report.is_complete || (!status.success() && report.failed.is_empty()) {
        bail!("ended early with {status}, see {}", log_path.display());
    }
    Ok(())
}

fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let stdout = child.stdout.take().expect("standard output is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Prints the table of results. Returns whether all suites passed.
pub(super) fn print_summary(results: &[SuiteResult]) -> bool {
    println!("{:<13} {:>6} {:>6} {:>7} {:>7}  result", "suite", "passed", "failed", "skipped", "seconds");
    for result in results {
        let Report { passed, failed, skipped, .. } = &result.report;
        let (name, seconds) = (result.name, result.duration.as_secs_f64());
        let outcome = if result.is_success() { "ok" } else { "FAILED" };
        println!("{name:<13} {passed:>6} {:>6} {:>7} {seconds:>7.1}  {outcome}", failed.len(), skipped.len());
    }
    for result in results {
        for case in &result.report.skipped {
            println!("{}: skip {case}", result.name);
        }
        for case in &result.report.failed {
            println!("{}: fail {case}", result.name);
        }
        if let Some(error) = &result.error {
            println!("{}: {error}", result.name);
        }
    }
    results.iter().all(SuiteResult::is_success)
}

impl SuiteResult {
    fn is_success(&self) -> bool {
        self.error.is_none() && self.report.is_success()
    }
}
