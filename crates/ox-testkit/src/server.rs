//! Starts and stops servers of any implementation in the same way.
//!
//! A [`ServerSpec`] describes a server; a [`ServerUnderTest`] runs it in a directory:
//!
//! ```text
//! <dir>/zoo.cfg      written at every start
//! <dir>/data/        dataDir; stays after the server has ended, and another implementation may open it
//! <dir>/server.log   standard output and standard error of all starts
//! ```
//!
//! Servers listen on 127.0.0.1. Dropping a [`ServerUnderTest`] kills it.

use crate::ports::free_port;
use crate::process::Process;
use crate::wait::PATIENCE;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between checks of a starting server.
const POLL: Duration = Duration::from_millis(20);
/// Time for the reply to a four-letter command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The same while a server starts. Short, because Apache never closes a connection that arrives before its data is
/// loaded.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// Log lines to quote in an error message.
const LOG_TAIL_LINES: usize = 40;

/// How to run an implementation of the server.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    /// Program and arguments, with `{config}` for the path of `zoo.cfg` and `{properties}` for the arguments that set
    /// system properties.
    pub argv: Vec<String>,
    /// The text of a log line by which the server says that it serves. Without one, `srvr` is asked again and again.
    pub serving_line: Option<&'static str>,
}

impl Program {
    pub fn new(name: &str, argv: &[&str]) -> Self {
        Self { name: name.to_owned(), argv: argv.iter().map(|arg| (*arg).to_owned()).collect(), serving_line: None }
    }

    fn command(&self, config: &Path, properties: &[String]) -> Command {
        let (program, arguments) = self.argv.split_first().expect("a program");
        let mut command = Command::new(program);
        for argument in arguments {
            match argument.as_str() {
                "{config}" => command.arg(config),
                "{properties}" => command.args(properties.iter().map(|property| format!("-D{property}"))),
                other => command.arg(other),
            };
        }
        command
    }
}

/// A server to start: program, `zoo.cfg` lines and Java system properties.
///
/// The base configuration enables all four-letter commands, removes the connection limit and disables the AdminServer.
/// Settings of the caller follow and override it.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    pub program: Program,
    /// Lines to add to `zoo.cfg`.
    pub settings: String,
    /// System properties as `name=value`.
    pub properties: Vec<String>,
    /// Whether an existing `zoo.cfg` stays as it is, because a reconfiguration makes servers rewrite it.
    pub keeps_config: bool,
}

impl ServerSpec {
    /// A standalone server with the base configuration.
    pub fn new(program: Program) -> Self {
        Self { program, settings: String::new(), properties: Vec::new(), keeps_config: false }
    }

    /// Adds a `zoo.cfg` line.
    pub fn setting(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.settings += &format!("{key}={value}\n");
        self
    }

    /// Adds a Java system property. All implementations take it as `-Dname=value`.
    pub fn property(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.properties.push(format!("{name}={value}"));
        self
    }

    /// Starts the server on a free port, with its files in `dir`, and waits until it serves. The server opens existing
    /// data in `dir`, including data of another implementation.
    pub fn start_in(&self, dir: &Path) -> Result<ServerUnderTest> {
        let mut server = ServerUnderTest::new(self.clone(), dir, free_port());
        server.start()?;
        Ok(server)
    }
}

/// A server that runs, or can be started again with the same directory and port.
#[derive(Debug)]
pub struct ServerUnderTest {
    pub spec: ServerSpec,
    pub dir: PathBuf,
    /// The log of all starts.
    pub log_file: PathBuf,
    port: u16,
    pub process: Option<Process>,
}

impl ServerUnderTest {
    pub fn new(spec: ServerSpec, dir: &Path, port: u16) -> Self {
        Self { spec, dir: dir.to_owned(), log_file: dir.join("server.log"), port, process: None }
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn name(&self) -> &str {
        &self.spec.program.name
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !process.has_ended())
    }

    /// The process of a server that runs.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the server runs")
    }

    /// Writes `zoo.cfg`, unless it is to be kept.
    pub fn write_config(&self) -> Result<PathBuf> {
        let config = self.dir.join("zoo.cfg");
        fs::create_dir_all(self.data_dir()).with_context(|| format!("create {}", self.data_dir().display()))?;
        if !self.spec.keeps_config || !config.exists() {
            let (data, port) = (self.data_dir(), self.port);
            let base = format!(
                "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
                 4lw.commands.whitelist=*\nadmin.enableServer=false\n",
                data.display()
            );
            fs::write(&config, base + &self.spec.settings).with_context(|| format!("write {}", config.display()))?;
        }
        Ok(config)
    }

    /// Starts the server without waiting: a member of an ensemble serves only with a quorum.
    pub fn launch(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "{} is running", self.name());
        // Another server on this port would be mistaken for this one, and written to.
        TcpListener::bind(self.address())
            .with_context(|| format!("the port {} for {} is not free", self.port, self.name()))?;
        let mut command = self.spec.program.command(&self.write_config()?, &self.spec.properties);
        command.current_dir(&self.dir);
        let process = Process::run_with_log(command, &self.log_file);
        self.process = Some(process.with_context(|| format!("start {}", self.name()))?);
        Ok(())
    }

    /// Waits until the server that was just launched serves clients.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        if let Some(line) = self.spec.program.serving_line {
            self.process.as_mut().context("the server was not launched")?.wait_for(line);
            return Ok(());
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reply = send_command(self.address(), "srvr", PROBE_TIMEOUT);
            if reply.is_ok_and(|text| text.contains("Mode:")) {
                return Ok(());
            }
            if !self.is_running() {
                bail!("{} ended while starting\n{}", self.name(), self.log_tail());
            }
            if deadline < Instant::now() {
                bail!("{} does not serve within {PATIENCE:?}\n{}", self.name(), self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_serving()
    }

    /// Kills the process (SIGKILL), as in a crash.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub fn terminate(&mut self) -> Result<()> {
        ensure!(self.is_running(), "{} had ended before SIGTERM\n{}", self.name(), self.log_tail());
        self.process().signal("TERM");
        let exit = self.process.take().and_then(|mut process| process.exits_within(PATIENCE));
        exit.with_context(|| format!("{} did not end within {PATIENCE:?} after SIGTERM", self.name())).map(drop)
    }

    /// Kills the server and starts it again.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.start()
    }

    /// Deletes the data of a stopped server, except for `myid`.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.data_dir().join("version-2")).expect("the server has data");
    }

    /// Sends a four-letter command and returns the reply.
    pub fn four_letter(&self, command: &str) -> Result<String> {
        four_letter(self.address(), command)
    }

    /// The log of all starts so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log_file).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log, without those about the `srvr` commands of [`Self::wait_until_serving`].
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains("Processing srvr command")).collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

/// Sends a four-letter command to any server and returns the reply.
pub fn four_letter(address: SocketAddr, command: &str) -> Result<String> {
    send_command(address, command, COMMAND_TIMEOUT)
}

fn send_command(address: SocketAddr, command: &str, timeout: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(command.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).with_context(|| format!("read the reply to `{command}`"))?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_error(port: u16) -> String {
        let dir = tempfile::tempdir().unwrap();
        let spec = ServerSpec::new(Program::new("x", &["true"]));
        format!("{:#}", ServerUnderTest::new(spec, dir.path(), port).start().unwrap_err())
    }

    #[test]
    fn port_in_use_is_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = start_error(listener.local_addr().unwrap().port());
        assert!(error.contains("is not free"), "{error}");
    }

    #[test]
    fn server_that_exits_early_is_reported() {
        let error = start_error(free_port());
        assert!(error.contains("ended while starting"), "{error}");
    }
}
