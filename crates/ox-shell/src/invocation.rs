//! The command line: `[options] [command words...]`, as `zkCli.sh` takes it.
//!
//! Options end at the first word that is not an option; that is the command, and all later words belong to it. Compat:
//! unknown options with one dash are ignored. Options with two dashes belong to this shell and must be known.

use crate::command_error;
use std::time::Duration;

/// The parsed command line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The connection string, `host:port,host:port/chroot`.
    pub server: String,
    /// The session timeout, also used to wait for the session.
    pub timeout: Duration,
    /// Whether a read-only server is accepted.
    pub read_only: bool,
    /// Whether to wait for the connection before running anything.
    pub waits: bool,
    /// Whether listings are printed as JSON.
    pub json: bool,
    /// Whether confirmations are skipped.
    pub yes: bool,
    /// The command to run; empty for a script or a terminal.
    pub command: Vec<String>,
    /// Warnings about the options.
    pub notes: Vec<String>,
}

/// Why the program does not start: a message and an exit code.
pub type InvocationError = (String, u8);

/// The result of parsing the command line.
pub type ParseResult = Result<Invocation, InvocationError>;

impl Default for Invocation {
    fn default() -> Self {
        Self {
            server: "localhost:2181".to_owned(),
            timeout: Duration::from_secs(30),
            read_only: false,
            waits: false,
            json: false,
            yes: false,
            command: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Invocation {
    /// Parses the words after the program name.
    pub fn parse(words: impl IntoIterator<Item = String>) -> ParseResult {
        let mut this = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                this.command.push(word);
                this.command.extend(words.by_ref());
                break;
            }
            // Long options also accept `--server=host`.
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word.clone(), None),
            };
            match name.as_str() {
                "-server" | "--server" | "-timeout" | "--timeout" | "-client-configuration" => {
                    match attached.or_else(|| words.next()) {
                        Some(value) => this.set(&name, &value)?,
                        None => {
                            this.notes.push(format!("Error: no argument found for option {word}"));
                            break;
                        }
                    }
                }
                "-r" | "--read-only" => this.read_only = true,
                "-waitforconnection" | "--wait" => this.waits = true,
                "--json" => this.json = true,
                "--yes" | "-y" => this.yes = true,
                _ if word.starts_with("--") => {
                    return Err((format!("unknown option {word}; see oxkeeper cli --help"), 2));
                }
                _ => (),
            }
        }
        Ok(this)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvocationError> {
        match name.trim_start_matches('-') {
            "server" => self.server = value.to_owned(),
            "timeout" => match value.parse::<i32>() {
                Ok(ms) => self.timeout = Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1)),
                Err(_) => {
                    return Err((
                        format!("-timeout must be a number of milliseconds, not `{value}`"),
                        command_error::FAILED,
                    ));
                }
            },
            _ => check_configuration(value)?,
        }
        Ok(())
    }
}

/// Compat: a missing file ends the program with 2. TLS and SASL, for which the file exists, are not supported yet.
fn check_configuration(file: &str) -> Result<(), InvocationError> {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Err((format!("Error while processing {file}: {file} file is missing"), 2));
    };
    let is_secure = text.lines().any(|line| {
        let line: String = line.split_whitespace().collect();
        line == "zookeeper.client.secure=true"
    });
    match is_secure {
        true => Err((format!("{file} requests TLS, which this shell does not support yet"), 2)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ParseResult {
        Invocation::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_precede_the_command() {
        let expected = Invocation {
            server: "a:1,b:2/x".to_owned(),
            timeout: Duration::from_millis(3000),
            read_only: true,
            waits: true,
            command: vec!["ls".to_owned(), "-R".to_owned(), "/".to_owned()],
            ..Invocation::default()
        };
        assert_eq!(parse("-server a:1,b:2/x -timeout 3000 -r -waitforconnection ls -R /"), Ok(expected.clone()));
        assert_eq!(parse("--server=a:1,b:2/x -foo --timeout 3000 --read-only --wait ls -R /"), Ok(expected));
        assert_eq!(parse(""), Ok(Invocation::default()));
    }

    #[test]
    fn invalid_options_are_reported() {
        let notes = vec!["Error: no argument found for option -server".to_owned()];
        assert_eq!(parse("-server"), Ok(Invocation { notes, ..Invocation::default() }));
        assert_eq!(parse("-timeout abc").unwrap_err().1, 1);
        assert_eq!(parse("--jsn ls /").unwrap_err().1, 2);
        assert_eq!(parse("-client-configuration /nonexistent.properties ls /").unwrap_err().1, 2);
    }
}
