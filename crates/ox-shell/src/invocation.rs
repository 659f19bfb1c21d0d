//! The command line: `[options] [command words...]`, as `zkCli.sh` takes it.
//!
//! Options end at the first word that is not an option; that is the command, and all later words belong to it. Compat:
//! with `--zkcli`, unknown options with one dash are ignored.

use crate::command_error;
use crate::profiles;
use crate::suggest;
use ox_client::{Client, ClientProperties};
use std::path::Path;
use std::time::Duration;

/// The parsed command line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The connection string, `host:port,host:port/chroot`.
    pub server: String,
    /// The profile whose settings apply; the prompt shows its name.
    pub profile: Option<String>,
    /// The session timeout, also used to wait for the session.
    pub timeout: Duration,
    /// Whether a read-only server is accepted.
    pub read_only: bool,
    /// Credentials of the profile, scheme and secret.
    pub auth: Option<(String, String)>,
    /// TLS and SASL, by the properties of Apache's client.
    pub properties: ClientProperties,
    /// Whether to wait for the connection before running anything.
    pub waits: bool,
    /// Whether output, prompt and errors are those of `zkCli`, byte for byte.
    pub zkcli: bool,
    /// Whether a script stops at the first command that fails.
    pub stops_at_error: bool,
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

/// The exit code for a wrong command line.
const WRONG_USAGE: u8 = 2;

/// All options, for suggestions.
const OPTIONS: &[&str] = &[
    "-server",
    "-s",
    "-timeout",
    "-r",
    "-e",
    "-waitforconnection",
    "-client-configuration",
    "--server",
    "--profile",
    "--timeout",
    "--client-configuration",
    "--read-only",
    "--wait",
    "--zkcli",
    "--json",
    "--yes",
];

impl Default for Invocation {
    fn default() -> Self {
        Self {
            server: "localhost:2181".to_owned(),
            profile: None,
            timeout: Duration::from_secs(30),
            read_only: false,
            auth: None,
            properties: ClientProperties::default(),
            waits: false,
            zkcli: false,
            stops_at_error: false,
            json: false,
            yes: false,
            command: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// What the options name explicitly; a profile or the environment supplies the rest.
#[derive(Default)]
struct Given {
    server: Option<String>,
    configuration: Option<String>,
    /// Words of the form `-Dname=value`.
    definitions: Vec<String>,
    timeout: Option<Duration>,
    /// What is wrong with the timeout.
    bad_timeout: Option<String>,
    unknown: Option<String>,
    without_value: Option<String>,
}

impl Invocation {
    /// Parses the words after the program name, with the settings of the environment and of profiles.
    pub fn parse(words: impl IntoIterator<Item = String>) -> ParseResult {
        Self::parse_in(words, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Like [`Invocation::parse`], with the given environment variables.
    pub fn parse_in(words: impl IntoIterator<Item = String>, variable: impl Fn(&str) -> Option<String>) -> ParseResult {
        let mut this = Self::default();
        let mut given = Given::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if !word.starts_with('-') || word == "--" {
                this.command.extend((word != "--").then_some(word));
                this.command.extend(words.by_ref());
                break;
            }
            // Long options also accept `--server=host`.
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word.clone(), None),
            };
            match name.as_str() {
                "-s" if this.zkcli => drop(given.unknown.get_or_insert(word)), // Compat: zkCli ignores it
                "-s"
                | "-server"
                | "--server"
                | "-timeout"
                | "--timeout"
                | "-client-configuration"
                | "--client-configuration"
                | "--profile" => match attached.or_else(|| words.next()) {
                    Some(value) => this.set(&mut given, &name, value),
                    None => {
                        given.without_value = Some(word);
                        break;
                    }
                },
                "-D" => match words.next() {
                    Some(definition) => given.definitions.push(format!("-D{definition}")),
                    None => {
                        given.without_value = Some(word);
                        break;
                    }
                },
                _ if word.starts_with("-D") => given.definitions.push(word),
                "-r" | "--read-only" => this.read_only = true,
                "-e" => this.stops_at_error = true,
                "-waitforconnection" | "--wait" => this.waits = true,
                "--zkcli" => this.zkcli = true,
                "--json" => this.json = true,
                "--yes" | "-y" => this.yes = true,
                _ => drop(given.unknown.get_or_insert(word)),
            }
        }
        this.check(&given)?;
        this.apply(given, variable)?;
        Ok(this)
    }

    fn set(&mut self, given: &mut Given, name: &str, value: String) {
        match name.trim_start_matches('-') {
            "s" | "server" => given.server = Some(value),
            "profile" => self.profile = Some(value),
            "timeout" => match timeout(&value) {
                Ok(timeout) => given.timeout = Some(timeout),
                Err(text) => given.bad_timeout = Some(text),
            },
            _ => given.configuration = Some(value),
        }
    }

    /// Refuses wrong options. Compat: with `--zkcli`, they are ignored or only reported.
    fn check(&mut self, given: &Given) -> Result<(), InvocationError> {
        if let Some(word) = &given.without_value {
            if !self.zkcli {
                return Err((format!("option {word} needs a value"), WRONG_USAGE));
            }
            self.notes.push(format!("Error: no argument found for option {word}"));
        }
        if let Some(text) = &given.bad_timeout {
            let code = if self.zkcli { command_error::FAILED } else { WRONG_USAGE };
            return Err((text.clone(), code));
        }
        match &given.unknown {
            Some(word) if !self.zkcli || word.starts_with("--") => {
                let hint = suggest::similar(word, OPTIONS.iter().copied());
                let hint = hint.map_or("see oxkeeper cli --help".to_owned(), |known| format!("did you mean {known}?"));
                Err((format!("unknown option {word}; {hint}"), WRONG_USAGE))
            }
            _ => Ok(()),
        }
    }

    /// Completes the options: a named profile, then the environment, then defaults.
    fn apply(&mut self, given: Given, variable: impl Fn(&str) -> Option<String>) -> Result<(), InvocationError> {
        let (name, profile) =
            profiles::select(given.server, self.profile.take(), &variable).map_err(|text| (text, WRONG_USAGE))?;
        self.profile = name;
        self.notes.extend(profile.warning.clone());
        self.properties = ClientProperties::from_variables(&variable);
        given.definitions.iter().for_each(|word| self.properties.add_flags(word));
        if let Some(file) = given.configuration.or(profile.client_configuration) {
            self.add_configuration(&file)?;
        }
        self.server = profile.server.unwrap_or_else(|| self.server.clone());
        self.check_servers()?;
        self.timeout = given.timeout.or(profile.timeout).unwrap_or(self.timeout);
        if self.timeout.is_zero() && !self.zkcli {
            return Err(("the timeout must be positive".to_owned(), WRONG_USAGE));
        }
        self.timeout = self.timeout.max(Duration::from_millis(1)); // Compat: zkCli takes any number
        self.read_only |= profile.read_only;
        self.auth = profile.auth;
        Ok(())
    }

    /// Refuses a connection string that cannot be parsed. Compat: with `--zkcli`, the connection attempt reports it.
    fn check_servers(&self) -> Result<(), InvocationError> {
        match Client::builder().servers(&self.server) {
            Err(error) if !self.zkcli => {
                let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
                Err((format!("{}{detail}", error.kind()), WRONG_USAGE))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Compat: a missing file ends the program with 2.
    fn add_configuration(&mut self, file: &str) -> Result<(), InvocationError> {
        if !Path::new(file).exists() {
            return Err((format!("Error while processing {file}: {file} file is missing"), WRONG_USAGE));
        }
        self.properties.add_file(Path::new(file)).map_err(|error| (error.to_string(), WRONG_USAGE))
    }
}

/// Whether a word is an option of the program.
pub(crate) fn is_option(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    OPTIONS.contains(&name)
}

/// Parses a timeout in milliseconds. A negative one becomes 0.
pub(crate) fn timeout(value: &str) -> Result<Duration, String> {
    match value.parse::<i32>() {
        Ok(ms) => Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
        Err(_) => Err(format!("-timeout must be a number of milliseconds, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_in(line: &str, environment: &[(&str, &str)]) -> ParseResult {
        let variable =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Invocation::parse_in(line.split_whitespace().map(str::to_owned), variable)
    }

    fn parse(line: &str) -> ParseResult {
        parse_in(line, &[])
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
        let zkcli = Invocation { zkcli: true, ..expected.clone() };
        assert_eq!(parse("--server=a:1,b:2/x -foo --timeout 3000 --read-only --wait --zkcli ls -R /"), Ok(zkcli));
        assert_eq!(
            parse("-e -s a:1,b:2/x --timeout 3000 -r --wait ls -R /").map(|found| found.server),
            Ok(expected.server.clone())
        );
        assert_eq!(
            parse("-e --server=a:1,b:2/x --timeout 3000 -r --wait ls -R /").map(|found| found.server),
            Ok(expected.server)
        );
        assert_eq!(parse("-e -- ls /").map(|found| found.command), Ok(vec!["ls".to_owned(), "/".to_owned()]));
        assert_eq!(parse(""), Ok(Invocation::default()));
    }

    #[test]
    fn invalid_options_are_reported() {
        let notes = vec!["Error: no argument found for option -server".to_owned()];
        assert_eq!(parse("--zkcli -server"), Ok(Invocation { notes, zkcli: true, ..Invocation::default() }));
        for (line, text, status) in [
            ("-server", "option -server needs a value", 2),
            ("-timeout abc", "-timeout must be a number of milliseconds, not `abc`", 2),
            ("-timeout 0", "the timeout must be positive", 2),
            ("--timeout=-5", "the timeout must be positive", 2),
            ("--zkcli -timeout abc", "-timeout must be a number of milliseconds, not `abc`", 1),
            (
                "-server 127.0.0.1:abc ls /",
                "invalid connection string `127.0.0.1:abc`: a port is a number from 1 to 65535",
                2,
            ),
            ("-s 2182 ls /", "invalid connection string `2182`: did you mean localhost:2182?", 2),
            ("--jsn ls /", "unknown option --jsn; did you mean --json?", 2),
            ("-sever a:1 ls /", "unknown option -sever; did you mean -server?", 2),
            ("-q ls /", "unknown option -q; see oxkeeper cli --help", 2),
            ("--zkcli --jsn ls /", "unknown option --jsn; did you mean --json?", 2),
        ] {
            assert_eq!(parse(line), Err((text.to_owned(), status)), "{line}");
        }
        assert_eq!(parse("-client-configuration /nonexistent.properties ls /").unwrap_err().1, 2);
    }

    #[test]
    fn properties_come_from_environment_options_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("client.properties");
        std::fs::write(&file, "zookeeper.ssl.protocol=TLSv1.2\n").unwrap();
        let profiles = dir.path().join("cli.conf");
        std::fs::write(&profiles, format!("[tls]\nclient-configuration = {}\n", file.display())).unwrap();
        let environment = [
            ("CLIENT_JVMFLAGS", "-Xmx64m -Dzookeeper.client.secure=true -Da=1 -Dzookeeper.ssl.protocol=x"),
            ("JVMFLAGS", "-Da=2 -Db=2"),
            ("OXKEEPER_CLI_CONFIG", profiles.to_str().unwrap()),
        ];
        for line in [
            format!("-Db=3 -client-configuration {} ls /", file.display()),
            format!("-Db=3 --client-configuration={} ls /", file.display()),
            "-D b=3 --profile tls".to_owned(),
        ] {
            let found = parse_in(&line, &environment).unwrap().properties;
            let values = ["zookeeper.client.secure", "a", "b", "zookeeper.ssl.protocol"].map(|name| found.get(name));
            assert_eq!(values, [Some("true"), Some("2"), Some("3"), Some("TLSv1.2")], "{line}");
        }
    }

    #[test]
    fn server_comes_from_option_profile_or_environment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cli.conf");
        std::fs::write(&file, "[prod]\nserver = zk1:2181/app\ntimeout = 5000\nread-only = true\n").unwrap();
        let file = file.to_str().unwrap();
        let server = |line: &str, more: &[(&str, &str)]| {
            parse_in(line, &[&[("OXKEEPER_CLI_CONFIG", file)], more].concat()).map(|found| found.server)
        };
        assert_eq!(server("", &[("OXKEEPER_SERVER", "e:1")]).as_deref(), Ok("e:1"));
        assert_eq!(server("-server o:1", &[("OXKEEPER_SERVER", "e:1")]).as_deref(), Ok("o:1"));
        assert_eq!(server("--profile prod", &[("OXKEEPER_SERVER", "e:1")]).as_deref(), Ok("zk1:2181/app"));
        assert_eq!(server("", &[("OXKEEPER_PROFILE", "prod")]).as_deref(), Ok("zk1:2181/app"));
        assert_eq!(server("-server o:1 --profile prod", &[]).as_deref(), Ok("o:1"));
        let prod = parse_in("--profile prod", &[("OXKEEPER_CLI_CONFIG", file)]).unwrap();
        assert_eq!((prod.timeout, prod.read_only), (Duration::from_secs(5), true));
        let (text, status) = server("--profile prd", &[]).unwrap_err();
        assert_eq!((text, status), (format!("{file} has no profile prd; did you mean prod?"), 2));
    }
}
