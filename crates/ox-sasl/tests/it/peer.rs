//! A process at the other end of an exchange, which reads and writes tokens as lines of base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// A line of the peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Token(Option<Vec<u8>>),
    Done(String),
    Failed(String),
}

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    pub(crate) fn java(arguments: &[&str], properties: &[String]) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/SaslPeer.java");
        let options = ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8"];
        Self::start(
            Command::new("java").args(options).args(properties).arg(source).args(arguments).env("LC_ALL", "C.UTF-8"),
        )
    }

    pub(crate) fn read(&mut self) -> Line {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let line = line.trim_end();
        if let Some(id) = line.strip_prefix("DONE ") {
            Line::Done(id.to_owned())
        } else if let Some(reason) = line.strip_prefix("FAILED ") {
            Line::Failed(reason.to_owned())
        } else if line == "null" {
            Line::Token(None)
        } else {
            Line::Token(Some(STANDARD.decode(line).unwrap()))
        }
    }

    pub(crate) fn token(&mut self) -> Vec<u8> {
        match self.read() {
            Line::Token(token) => token.unwrap_or_default(),
            line @ (Line::Done(_) | Line::Failed(_)) => panic!("{line:?}"),
        }
    }

    pub(crate) fn write(&mut self, token: &[u8]) {
        writeln!(self.input, "{}", STANDARD.encode(token)).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a program runs; if not, the reason to skip a test is printed.
pub(crate) fn is_installed(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_installed = status.is_ok_and(|status| status.success());
    if !is_installed {
        eprintln!("skipped: {program} {} does not run", arguments.join(" "));
    }
    is_installed
}

pub(crate) fn is_java_installed() -> bool {
    is_installed("java", &["-version"])
}
