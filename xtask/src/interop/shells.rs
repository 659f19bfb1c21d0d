//! The same commands to Apache's `zkCli` and to `oxkeeper cli`, each with a fresh server of the same kind: what both write must be
//! the same, line by line, but for what differs by nature.

use super::servers::{ServerSpec, Software, apache};
use super::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Nothing but what the shell itself prints.
const SILENCE: &str = "<configuration><root level=\"OFF\"/></configuration>";

/// Lines of a shell, as far as they can be compared.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    /// Without events, whose place among the lines is chance in zkCli: it prints them from another thread.
    out: Vec<String>,
    events: Vec<String>,
    err: Vec<String>,
    status: Option<i32>,
}

/// Runs both on servers of both kinds. A line that differs is an error.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    Software::Apache.prepare(workspace)?;
    let commands = workspace.source("shell").join("commands.txt");
    let commands = std::fs::read_to_string(&commands).with_context(|| format!("read {}", commands.display()))?;
    for software in [Software::Oxkeeper, Software::Apache] {
        let theirs = play(workspace, software, &commands, theirs)?;
        let ours = play(workspace, software, &commands, ours)?;
        compare(&theirs, &ours).with_context(|| format!("on a server of {software:?}"))?;
        println!("shells on {software:?}: {} commands, the same lines and exit codes", commands.lines().count());
    }
    Ok(())
}

/// Starts a server and feeds a shell.
fn play(
    workspace: &Workspace,
    software: Software,
    commands: &str,
    shell: fn(&Workspace, &Path) -> Result<Command>,
) -> Result<Written> {
    let dir = tempfile::Builder::new().prefix("oxkeeper-shells-").tempdir()?;
    let spec = ServerSpec::new(workspace, software).property("zookeeper.extendedTypesEnabled", true);
    let server = spec.property("zookeeper.enforceQuota", true).start_in(&dir.path().join("server"))?;
    let mut child = shell(workspace, dir.path())?
        .args(["-waitforconnection", "-server", &server.address().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start the shell")?;
    let mut input = child.stdin.take().context("its standard input")?;
    let text = commands.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writer.join(); // a shell that ended early is found by its lines
    Ok(written(&output, &server.address().to_string()))
}

fn theirs(workspace: &Workspace, dir: &Path) -> Result<Command> {
    let classes = apache::class_path(workspace, dir)?;
    std::fs::write(dir.join("conf").join("logback.xml"), SILENCE)?;
    let mut command = Command::new("java");
    command.arg(apache::ENCODING).arg("-cp").arg(classes).arg("org.apache.zookeeper.ZooKeeperMain");
    Ok(command)
}

fn ours(workspace: &Workspace, _: &Path) -> Result<Command> {
    let mut command = Command::new(workspace.target().join("release/oxkeeper"));
    command.arg("cli");
    Ok(command)
}

fn written(output: &Output, address: &str) -> Written {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(|line| normal(&line.replace(address, "server"))).collect()
    };
    let around_events = |line: &String| line.is_empty() || line == "WATCHER::";
    let out = lines(&output.stdout).into_iter().filter(|line| !around_events(line));
    let (events, out) = out.partition(|line| line.starts_with("WatchedEvent "));
    Written { out, events, err: lines(&output.stderr), status: output.status.code() }
}

/// A line without transactions, times and sessions.
fn normal(line: &str) -> String {
    let labels = ["cZxid = ", "ctime = ", "mZxid = ", "mtime = ", "pZxid = "];
    if let Some(label) = labels.iter().find(|label| line.starts_with(**label)) {
        return format!("{label}*");
    }
    match line.split_once(" zxid: ") {
        Some((event, zxid)) if zxid != "-1" => format!("{event} zxid: *"),
        _ => line.to_owned(),
    }
}

fn compare(theirs: &Written, ours: &Written) -> Result<()> {
    // Commands of ours stand in the list of all commands, too.
    let known: BTreeSet<_> = theirs.err.iter().collect();
    let err: Vec<_> = ours.err.iter().filter(|line| !line.starts_with('\t') || known.contains(line)).cloned().collect();
    same("standard output", &theirs.out, &ours.out)?;
    same("the list of events", &theirs.events, &ours.events)?;
    same("standard error", &theirs.err, &err)?;
    if theirs.status != ours.status {
        bail!("zkCli exits with {:?}, oxkeeper cli with {:?}", theirs.status, ours.status);
    }
    Ok(())
}

fn same(stream: &str, theirs: &[String], ours: &[String]) -> Result<()> {
    let longest = theirs.len().max(ours.len());
    let Some(at) = (0..longest).find(|at| theirs.get(*at) != ours.get(*at)) else { return Ok(()) };
    let around = |lines: &[String]| {
        let from = at.saturating_sub(3);
        let lines: Vec<_> = lines.iter().skip(from).take(8).map(|line| format!("    {line}")).collect();
        lines.join("\n")
    };
    bail!("{stream} differs at line {}\n  zkCli:\n{}\n  oxkeeper cli:\n{}", at + 1, around(theirs), around(ours))
}
