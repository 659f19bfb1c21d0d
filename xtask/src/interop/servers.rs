//! Servers to test with: Apache ZooKeeper and Oxkeeper, started and stopped the same way.
//!
//! A [`ServerSpec`] says what to run; [`ServerSpec::start_in`] runs it in a folder that the caller owns:
//!
//! ```text
//! <dir>/zoo.cfg      written at every start
//! <dir>/conf/        logback.xml for Apache
//! <dir>/data/        dataDir; survives kill, terminate and restart, and may be opened by the other software
//! <dir>/server.log   all the server printed, appended over restarts
//! ```
//!
//! Everything listens on 127.0.0.1. A [`ServerUnderTest`] that goes out of scope is killed.

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

/// The super user of test servers, password `test`, which kazoo's own tests expect too: a value of the property
/// `zookeeper.DigestAuthenticationProvider.superDigest`.
pub(crate) const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// A JVM on a busy machine takes seconds; a server that is not there after this long will not come.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause between two looks at a starting or stopping server.
const POLL: Duration = Duration::from_millis(20);
/// How long one four-letter word may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The same while a server starts: Apache never closes a connection that comes before its data is loaded.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// The end of a log that goes into an error message.
const LOG_TAIL_LINES: usize = 40;

/// Which server software to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Software {
    /// Apache ZooKeeper, as fetched by [`apache::fetch`].
    Apache,
    /// Apache ZooKeeper 3.8, the oldest that is taken into an ensemble, as fetched by [`apache38::fetch`].
    Apache38,
    /// Our release binary, as built by [`oxkeeper::build`].
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
    /// Downloads or builds what [`ServerSpec::start_in`] needs; cheap when it is there.
    pub(crate) fn prepare(self, workspace: &Workspace) -> Result<()> {
        match self {
            Software::Apache => apache::fetch(workspace),
            Software::Apache38 => apache38::fetch(workspace),
            Software::Oxkeeper => oxkeeper::build(workspace),
        }
    }
}

/// A standalone server to start: software, `zoo.cfg` lines and Java system properties.
///
/// The base configuration opens all four-letter words, lifts the connection limit and turns the AdminServer off; a
/// setting given here comes after it and wins.
#[derive(Clone, Debug)]
pub(crate) struct ServerSpec {
    workspace: Workspace,
    software: Software,
    settings: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    /// A configuration file that is there stays as it is.
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

    /// Leaves a configuration file alone that is there: servers write it too.
    pub(crate) fn keeping_config(mut self) -> Self {
        self.keeps_config = true;
        self
    }

    /// Adds a Java system property, given to both softwares as `-Dname=value`.
    pub(crate) fn property(mut self, name: &str, value: impl ToString) -> Self {
        self.properties.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts the server on a free port, with its files in `dir`, and waits until it serves.
    ///
    /// A `data` folder already in `dir` is used as it is, whoever wrote it.
    pub(crate) fn start_in(&self, dir: &Path) -> Result<ServerUnderTest> {
        let mut server = self.launch_in(dir, free_port()?)?;
        server.wait_until_serving()?;
        Ok(server)
    }

    /// Starts the server on a port and does not wait: a member of an ensemble serves when others are there.
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

/// A running server, or one that has been killed and can be started again on its folder and port.
#[derive(Debug)]
pub(crate) struct ServerUnderTest {
    spec: ServerSpec,
    port: u16,
    dir: PathBuf,
    child: Child,
}

impl ServerUnderTest {
    /// The client port.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its dataDir.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Process id, for CPU and memory figures.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the process as a crash does (SIGKILL).
    pub(crate) fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.child.kill().context("kill the server")?;
        }
        self.child.wait().context("wait for the killed server")?;
        Ok(())
    }

    /// Asks the process to end (SIGTERM) and waits for it.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        ensure!(self.is_running(), "the server has ended by itself\n{}", self.log_tail());
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

    /// Starts an ended server again: same folder, same port.
    pub(crate) fn relaunch(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "the server runs already");
        self.child = self.spec.spawn(&self.dir, self.port)?;
        self.wait_until_serving()
    }

    /// A crash and a restart.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.relaunch()
    }

    /// Sends a four-letter word and returns the answer.
    pub(crate) fn four_letter_command(&self, word: &str) -> Result<String> {
        four_letter_command(self.address(), word)
    }

    /// The last lines that the server printed, without those about the status that was asked for while it started.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = std::fs::read(self.dir.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("Processing srvr command")).collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Waits until clients are served.
    pub(crate) fn wait_until_serving(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let answer = ask(self.address(), "srvr", PROBE_TIMEOUT);
            if answer.is_ok_and(|text| text.contains("Mode:")) {
                return Ok(());
            }
            if !self.is_running() {
                bail!("{} ended while starting\n{}", self.spec.software, self.log_tail());
            }
            if deadline < Instant::now() {
                bail!("{} does not serve after {START_TIMEOUT:?}\n{}", self.spec.software, self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // Nothing is left to tell if this fails: the process is gone, or it was never ours to end.
        self.kill().ok();
    }
}

/// Sends a four-letter word to any server and returns the answer.
pub(crate) fn four_letter_command(address: SocketAddr, word: &str) -> Result<String> {
    ask(address, word, COMMAND_TIMEOUT)
}

fn ask(address: SocketAddr, word: &str, timeout: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("read the answer to `{word}`"))?;
    Ok(answer)
}
