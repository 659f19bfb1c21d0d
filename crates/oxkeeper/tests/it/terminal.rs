//! Commands of the built binary on a pseudo-terminal.

use crate::ensemble::children_of;
use ox_testkit::PATIENCE;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A command on a pseudo-terminal, by script(1).
pub(crate) struct Terminal {
    script: Child,
    screen: BufReader<ChildStdout>,
}

impl Terminal {
    /// Starts `oxkeeper` on a terminal with this many columns.
    pub(crate) fn start(directory: &Path, width: usize, command: &str) -> Self {
        Self::start_sized(directory, (width, 24), command)
    }

    /// Starts `oxkeeper` on a terminal with this many columns and rows.
    pub(crate) fn start_sized(directory: &Path, (width, rows): (usize, usize), command: &str) -> Self {
        let command = format!("stty cols {width} rows {rows}; exec {} {command}", env!("CARGO_BIN_EXE_oxkeeper"));
        let mut script = Command::new("script");
        script.args(["-qfec", &command, "/dev/null"]).current_dir(directory).env_remove("OXKEEPER_LOG");
        script.env_remove("NO_COLOR").env_remove("OXKEEPER_LOG_FORMAT");
        let mut script = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let screen = BufReader::new(script.stdout.take().unwrap());
        Self { script, screen }
    }

    /// Reads lines up to one that contains `last`, or to the end.
    pub(crate) fn lines_until(&mut self, last: &str) -> Vec<String> {
        let (mut lines, until) = (Vec::new(), Instant::now() + PATIENCE);
        for line in self.screen.by_ref().lines() {
            let line = line.unwrap().trim_end().to_owned();
            assert!(Instant::now() < until, "{lines:#?}");
            let is_last = line.contains(last);
            lines.push(line);
            if is_last {
                break;
            }
        }
        lines
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        for server in children_of(self.script.id()) {
            let _ = Command::new("kill").arg(server.to_string()).status(); // it may have ended already
        }
        let _ = self.script.wait();
    }
}

pub(crate) fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or("", |(_, text)| text)).collect::<String>()
}
