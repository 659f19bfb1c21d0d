//! Runs client suites one after the other on one server and sums up.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::fixture::Stage;
use super::report::Report;
use super::servers::{SUPER_DIGEST, ServerSpec, Software};
use super::suites::{self, Suite};
use super::workspace::Workspace;
use super::{Args, Target};

/// The slowest suite takes less than a minute on a quiet machine.
const SUITE_TIMEOUT: Duration = Duration::from_secs(240);

/// What became of one suite.
struct Outcome {
    name: &'static str,
    report: Report,
    /// Why the suite did not run, or not to its end.
    trouble: Option<String>,
    took: Duration,
}

/// Runs the suites that `args` asks for; fails when any of them does.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let start = Instant::now();
    let chosen: Vec<&Suite> = suites::ALL.iter().filter(|suite| args.subject.includes(suite)).collect();
    let prepared = prepare(workspace, &chosen);
    let home = tempfile::Builder::new().prefix("oxkeeper-interop-").tempdir()?;
    let stage = match args.server {
        Target::Start(software) => {
            eprintln!("starting {software}");
            software.prepare(workspace)?;
            Stage::own(standard_spec(workspace, software).start_in(home.path())?)?
        }
        Target::Running(address) => Stage::external(address)?,
    };
    let outcomes: Vec<Outcome> = chosen
        .iter()
        .zip(prepared)
        .map(|(suite, prepared)| match prepared {
            Ok(()) => run_suite(workspace, suite, &stage, args.verbose),
            Err(e) => Outcome {
                name: suite.name,
                report: Report::default(),
                trouble: Some(format!("{e:#}")),
                took: Duration::ZERO,
            },
        })
        .collect();
    let good = print_summary(&outcomes);
    eprintln!("total {:.1} s", start.elapsed().as_secs_f64());
    if !good {
        let files = match args.server {
            Target::Start(_) => format!(", the server's files in {}", home.keep().display()),
            Target::Running(_) => String::new(),
        };
        bail!("some suites failed\nhint: full output is in target/interop/{files}");
    }
    Ok(())
}

/// The server that the suites expect; `interop/README.md` lists the same for servers started by hand.
pub(super) fn standard_spec(workspace: &Workspace, software: Software) -> ServerSpec {
    ServerSpec::new(workspace, software)
        // Short ticks make session expiry quick to test.
        .setting("tickTime", 500)
        .setting("maxSessionTimeout", 60_000)
        .property("zookeeper.extendedTypesEnabled", true)
        .property("znode.container.checkIntervalMs", 500)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
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

fn run_suite(workspace: &Workspace, suite: &Suite, stage: &Stage, verbose: bool) -> Outcome {
    eprintln!("running {}", suite.name);
    let start = Instant::now();
    let mut report = Report::default();
    let ended = watch_suite(workspace, suite, stage, verbose, &mut report);
    let trouble = ended.and(stage.recover()).err().map(|e| format!("{e:#}"));
    Outcome { name: suite.name, report, trouble, took: start.elapsed() }
}

/// Runs the program of a suite, reading its lines into `report` and its log file.
fn watch_suite(workspace: &Workspace, suite: &Suite, stage: &Stage, verbose: bool, report: &mut Report) -> Result<()> {
    let log_path = workspace.suite_log(suite.name);
    std::fs::create_dir_all(log_path.parent().expect("the log lies in a folder"))?;
    let mut log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
    let mut child = suite
        .command(workspace)
        .args(stage.arguments())
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
                report.take(suite.name, &line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                bail!("not done after {SUITE_TIMEOUT:?}");
            }
        }
    }
    let status = child.wait()?;
    if !report.closed || (!status.success() && report.failed.is_empty()) {
        bail!("broke off with {status}, see {}", log_path.display());
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

/// Prints the table; true when everything passed.
fn print_summary(outcomes: &[Outcome]) -> bool {
    println!("{:<10} {:>6} {:>6} {:>7} {:>7}  result", "suite", "passed", "failed", "skipped", "seconds");
    for outcome in outcomes {
        let Report { passed, failed, skipped, .. } = &outcome.report;
        let seconds = outcome.took.as_secs_f64();
        let result = if outcome.is_good() { "ok" } else { "FAILED" };
        println!("{:<10} {passed:>6} {:>6} {:>7} {seconds:>7.1}  {result}", outcome.name, failed.len(), skipped.len());
    }
    for outcome in outcomes {
        for case in &outcome.report.skipped {
            println!("{}: skip {case}", outcome.name);
        }
        for case in &outcome.report.failed {
            println!("{}: fail {case}", outcome.name);
        }
        if let Some(trouble) = &outcome.trouble {
            println!("{}: {trouble}", outcome.name);
        }
    }
    outcomes.iter().all(Outcome::is_good)
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.trouble.is_none() && self.report.is_good()
    }
}
