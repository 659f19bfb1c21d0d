//! Starts and stops Apache ZooKeeper and Oxkeeper servers in the same way.
//!
//! A [`ServerSpec`] describes a server; [`ServerSpec::start_in`] runs it in a directory that the caller provides:
//!
//! ```text
//! <dir>/zoo.cfg      written at every start
//! <dir>/conf/        logback.xml for Apache
//! <dir>/data/        dataDir; stays after the server has ended, and another implementation may open it
//! <dir>/server.log   standard output and standard error of all starts
//! ```
//!
//! Servers listen on 127.0.0.1. Dropping a [`ServerUnderTest`] kills it.

pub(crate) mod apache;
mod apache38;
pub(crate) mod oxkeeper;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use ox_bench::ports::free_port;

use super::workspace::Workspace;

/// The super user with password `test`, which kazoo's bundled tests need, too: a value of the property
/// `zookeeper.DigestAuthenticationProvider.superDigest`.
pub(crate) const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// A JVM on a busy machine needs some seconds.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a server to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between checks of a starting or stopping server.
const POLL: Duration = Duration::from_millis(20);
/// Time for the reply to a four-letter command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The same while a server starts. Short, because Apache never closes a connection that arrives before its data is
/// loaded.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// Log lines to quote in an error message.
const LOG_TAIL_LINES: usize = 40;

/// An implementation and version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Software {
    /// Apache ZooKeeper 3.9, which [`apache::fetch`] downloads.
    Apache,
    /// Apache ZooKeeper 3.8, the oldest version for mixed ensembles, which [`apache38::fetch`] downloads.
    Apache38,
    /// Our release binary, which [`oxkeeper::build`] builds.
    Oxkeeper,
}

impl std::fmt::Display for Software {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Software::Apache => "Apache ZooKeeper",
            Software::Apache38 => "Apache ZooKeeper 3.8",
            Software::Oxkeeper => "Oxkeeper",
        })
    }
}

impl Software {
    /// Downloads or builds the server. Returns soon if it is up to date.
    pub(crate) fn prepare(self, workspace: &Workspace) -> Result<()> {
        match self {
            Software::Apache => apache::fetch(workspace),
            Software::Apache38 => apache38::fetch(workspace),
            Software::Oxkeeper => oxkeeper::build(workspace),
        }
    }
}

/// A server to start: implementation, `zoo.cfg` lines and Java system properties.
///
/// The base configuration enables all four-letter commands, removes the connection limit and disables the AdminServer.
/// Settings of the caller follow and override it.
#[derive(Clone, Debug)]
pub(crate) struct ServerSpec {
    workspace: Workspace,
    software: Software,
    settings: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    /// Whether an existing `zoo.cfg` stays as it is.
    keeps_config: bool,
}

impl ServerSpec {
    /// A standalone server with the base configuration.
    pub(crate) fn new(workspace: &Workspace, software: Software) -> Self {
        ServerSpec {
            workspace: workspace.clone(),
            software,
            settings: Vec::new(),
            properties: Vec::new(),
            keeps_config: false,
        }
    }

    /// Adds a `zoo.cfg` line.
    pub(crate) fn setting(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Does not overwrite an existing `zoo.cfg`, because a reconfiguration makes servers rewrite it.
    pub(crate) fn keeping_config(mut self) -> Self {
        self.keeps_config = true;
        self
    }

    /// Adds a Java system property. Both implementations take it as `-Dname=value`.
    pub(crate) fn property(mut self, name: &str, value: impl ToString) -> Self {
        self.properties.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts the server on a free port, with its files in `dir`, and waits until it serves. The server opens existing
    /// data in `dir`, including data of another implementation.
    pub(crate) fn start_in(&self, dir: &Path) -> Result<ServerUnderTest> {
        let mut server = self.launch_in(dir, free_port()?)?;
        server.wait_until_serving()?;
        Ok(server)
    }

    /// Starts the server on the given port without waiting: a member of an ensemble serves only with a quorum.
    pub(crate) fn launch_in(&self, dir: &Path, port: u16) -> Result<ServerUnderTest> {
        let child = self.spawn(dir, port)?;
        Ok(ServerUnderTest { spec: self.clone(), port, dir: dir.to_path_buf(), child })
    }

    fn spawn(&self, dir: &Path, port: u16) -> Result<Child> {
        std::fs::create_dir_all(dir.join("data"))?;
        let config = dir.join("zoo.cfg");
        if !self.keeps_config || !config.exists() {
            std::fs::write(&config, self.zoo_cfg(dir, port)).with_context(|| format!("write {}", config.display()))?;
        }
        let mut command = match self.software {
            Software::Apache => apache::command(&self.workspace, dir, &config, &self.properties)?,
            Software::Apache38 => apache38::command(&self.workspace, &config, &self.properties),
            Software::Oxkeeper => oxkeeper::command(&self.workspace, &config, &self.properties),
        };
        let log = std::fs::File::options().create(true).append(true).open(dir.join("server.log"))?;
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.software))
    }

    fn zoo_cfg(&self, dir: &Path, port: u16) -> String {
        let mut text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             maxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\n",
            dir.join("data").display()
        );
        for (key, value) in &self.settings {
            writeln!(text, "{key}={value}").expect("writing to a string");
        }
        text
    }
}

/// A running server, or a killed one that can be started again with the same directory and port.
#[derive(Debug)]
pub(crate) struct ServerUnderTest {
    spec: ServerSpec,
    port: u16,
    dir: PathBuf,
    child: Child,
}

impl ServerUnderTest {
    /// The address that clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process (SIGKILL), as in a crash.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.child.kill().context("kill the server")?;
        }
        self.child.wait().context("wait for the killed server")?;
        Ok(())
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        ensure!(self.is_running(), "the server had ended before SIGTERM\n{}", self.log_tail());
        super::tool::run(Command::new("kill").arg("-TERM").arg(self.pid().to_string()))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.is_running() {
            if deadline < Instant::now() {
                self.kill()?;
                bail!("{} did not end within {STOP_TIMEOUT:?} after SIGTERM", self.spec.software);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Starts an ended server again, with the same directory and port.
    pub(crate) fn relaunch(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "the server is running");
        self.child = self.spec.spawn(&self.dir, self.port)?;
        self.wait_until_serving()
    }

    /// Kills the server and starts it again.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.relaunch()
    }

    /// Sends a four-letter command and returns the reply.
    pub(crate) fn four_letter_command(&self, command: &str) -> Result<String> {
        four_letter_command(self.address(), command)
    }

    /// The last lines of the log, without those about the `srvr` commands of [`Self::wait_until_serving`].
    pub(crate) fn log_tail(&self) -> String {
        let bytes = std::fs::read(self.dir.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("Processing srvr command")).collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Waits until `srvr` reports a mode, which it does as soon as clients are served.
    pub(crate) fn wait_until_serving(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let reply = send_command(self.address(), "srvr", PROBE_TIMEOUT);
            if reply.is_ok_and(|text| text.contains("Mode:")) {
                return Ok(());
            }
            if !self.is_running() {
                bail!("{} ended while starting\n{}", self.spec.software, self.log_tail());
            }
            if deadline < Instant::now() {
                bail!("{} does not serve within {START_TIMEOUT:?}\n{}", self.spec.software, self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        self.kill().ok();
    }
}

/// Sends a four-letter command to any server and returns the reply.
pub(crate) fn four_letter_command(address: SocketAddr, command: &str) -> Result<String> {
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
