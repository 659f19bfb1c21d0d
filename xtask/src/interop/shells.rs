//! Runs the same commands with Apache's `zkCli` and with `oxkeeper cli`, each on an empty server, and compares their
//! output line by line. Zxids and times are ignored.

use super::servers::{Software, apache, oxkeeper};
use super::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Turns off zkCli's log, so that its output is only what the shell prints.
const NO_LOGGING: &str = "<configuration><root level=\"OFF\"/></configuration>";

/// The comparable part of a shell's output.
#[derive(Debug, PartialEq, Eq)]
struct ShellOutput {
    /// Without events: zkCli prints those from another thread, so their position is random.
    out: Vec<String>,
    events: Vec<String>,
    err: Vec<String>,
    status: Option<i32>,
}

/// zkCli prints some errors on another thread than its replies, so that in one of ten runs a line is torn apart.
const RUNS_MAX: usize = 3;

/// Runs both shells, first on Oxkeeper servers, then on Apache servers. An error at the first line that differs.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    Software::Apache.prepare(workspace)?;
    let commands = workspace.source("shell").join("commands.txt");
    let commands = std::fs::read_to_string(&commands).with_context(|| format!("read {}", commands.display()))?;
    for software in [Software::Oxkeeper, Software::Apache] {
        let compare_once = || {
            let zkcli = run_shell(workspace, software, &commands, zkcli_command)?;
            let ours = run_shell(workspace, software, &commands, our_command)?;
            compare(&zkcli, &ours).with_context(|| format!("on {software}"))
        };
        let mut outcome = compare_once();
        for _ in 1..RUNS_MAX {
            outcome = outcome.or_else(|_| compare_once());
        }
        outcome?;
        println!("shells on {software}: {} commands, equal lines and exit codes", commands.lines().count());
    }
    Ok(())
}

/// Starts an empty server and runs the commands in a shell.
fn run_shell(
    workspace: &Workspace,
    software: Software,
    commands: &str,
    shell: fn(&Workspace, &Path) -> Result<Command>,
) -> Result<ShellOutput> {
    let dir = tempfile::Builder::new().prefix("oxkeeper-shells-").tempdir()?;
    let spec = software.spec(workspace)?.property("zookeeper.extendedTypesEnabled", true);
    let server = spec.property("zookeeper.enforceQuota", true).start_in(&dir.path().join("server"))?;
    let mut child = shell(workspace, dir.path())?
        .args(["-waitforconnection", "-server", &server.address().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start the shell")?;
    let mut input = child.stdin.take().context("standard input is not piped")?;
    let text = commands.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writer.join(); // a shell that ended early shows in the comparison
    Ok(comparable_output(&output, &server.address().to_string()))
}

fn zkcli_command(workspace: &Workspace, dir: &Path) -> Result<Command> {
    let classes = apache::class_path(workspace, dir)?;
    std::fs::write(dir.join("conf").join("logback.xml"), NO_LOGGING)?;
    let mut command = Command::new("java");
    command.arg(apache::ENCODING).arg("-cp").arg(classes).arg("org.apache.zookeeper.ZooKeeperMain");
    Ok(command)
}

fn our_command(workspace: &Workspace, _: &Path) -> Result<Command> {
    let mut command = Command::new(oxkeeper::binary(workspace));
    command.args(["cli", "--zkcli"]);
    Ok(command)
}

fn comparable_output(output: &Output, address: &str) -> ShellOutput {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(|line| normalize(&line.replace(address, "server"))).collect()
    };
    let is_event_frame = |line: &String| line.is_empty() || line == "WATCHER::";
    let out = lines(&output.stdout).into_iter().filter(|line| !is_event_frame(line));
    let (events, out) = out.partition(|line| line.starts_with("WatchedEvent "));
    ShellOutput { out, events, err: lines(&output.stderr), status: output.status.code() }
}

/// The line with zxids and times replaced by `*`.
fn normalize(line: &str) -> String {
    let labels = ["cZxid = ", "ctime = ", "mZxid = ", "mtime = ", "pZxid = "];
    if let Some(label) = labels.iter().find(|label| line.starts_with(**label)) {
        return format!("{label}*");
    }
    match line.split_once(" zxid: ") {
        Some((event, zxid)) if zxid != "-1" => format!("{event} zxid: *"),
        _ => line.to_owned(),
    }
}

fn compare(zkcli: &ShellOutput, ours: &ShellOutput) -> Result<()> {
    // The list of commands that both print contains commands that only Oxkeeper has.
    let known: BTreeSet<_> = zkcli.err.iter().collect();
    let err: Vec<_> = ours.err.iter().filter(|line| !line.starts_with('\t') || known.contains(line)).cloned().collect();
    compare_lines("standard output", &zkcli.out, &ours.out)?;
    compare_lines("the list of events", &zkcli.events, &ours.events)?;
    compare_lines("standard error", &zkcli.err, &err)?;
    if zkcli.status != ours.status {
        bail!("zkCli exits with {:?}, oxkeeper cli with {:?}", zkcli.status, ours.status);
    }
    Ok(())
}

fn compare_lines(stream: &str, zkcli: &[String], ours: &[String]) -> Result<()> {
    let longest = zkcli.len().max(ours.len());
    let Some(index) = (0..longest).find(|index| zkcli.get(*index) != ours.get(*index)) else { return Ok(()) };
    let around = |lines: &[String]| {
        let from = index.saturating_sub(3);
        let lines: Vec<_> = lines.iter().skip(from).take(8).map(|line| format!("    {line}")).collect();
        lines.join("\n")
    };
    bail!("{stream} differs at line {}\n  zkCli:\n{}\n  oxkeeper cli:\n{}", index + 1, around(zkcli), around(ours))
}
