//! Replays transcripts of Apache's `zkCli` with `oxkeeper cli --zkcli`, and compares output, events and exit code.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a shell prints, as far as it can be compared: Java prints events from another thread.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShellRun {
    out: Vec<String>,
    events: Vec<String>,
    err: Vec<String>,
    status: i32,
}

impl ShellRun {
    fn push_out(&mut self, line: &str) {
        match line {
            "" | "WATCHER::" => (),
            event if event.starts_with("WatchedEvent ") => self.events.push(event.to_owned()),
            line if line.starts_with("Connecting to ") => self.out.push("Connecting to server".to_owned()),
            line => self.out.push(line.to_owned()),
        }
    }
}

/// Feeds the lines of a transcript to `oxkeeper cli` and compares what it prints.
pub(super) fn replay(binary: &Path, transcript: &Path, server: &str, flags: &str) -> Result<()> {
    let text = std::fs::read_to_string(transcript).with_context(|| format!("read {}", transcript.display()))?;
    let (typed, expected) = parse(&text)?;
    let mut child = Command::new(binary)
        .args(["cli", "--zkcli", "-server", server])
        .env("CLIENT_JVMFLAGS", flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start oxkeeper cli")?;
    let mut input = child.stdin.take().context("standard input is not piped")?;
    input.write_all(typed.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let mut found = ShellRun { status: output.status.code().unwrap_or(-1), ..ShellRun::default() };
    String::from_utf8_lossy(&output.stdout).lines().for_each(|line| found.push_out(line));
    found.err = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    if found != expected {
        bail!("{} differs\n  zkCli: {expected:#?}\n  oxkeeper cli: {found:#?}", transcript.display());
    }
    println!("  {}: equal lines, events and exit code", transcript.file_name().unwrap_or_default().to_string_lossy());
    Ok(())
}

/// The typed lines, and what Apache's shell printed.
fn parse(text: &str) -> Result<(String, ShellRun)> {
    let (mut typed, mut expected) = (String::new(), ShellRun::default());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(command) = line.strip_prefix("> ") {
            typed += &format!("{command}\n");
        } else if let Some(error) = line.strip_prefix("[stderr] ") {
            expected.err.push(error.to_owned());
        } else if let Some(code) = line.strip_prefix("[exit code ") {
            expected.status = code.trim_end_matches(']').parse().context("exit code")?;
        } else {
            expected.push_out(line);
        }
    }
    Ok((typed, expected))
}
