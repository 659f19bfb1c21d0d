//! Starts and stops the servers under test.

use crate::job;
use crate::memory::Gauge;
use crate::ports::free_port;
use crate::process;
use crate::session::{BenchTarget, Session};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for a server to start.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Time after which a server that does not exit is killed.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a reply of a starting server: Apache accepts connections early and loses some.
const TRY_LIMIT: Duration = Duration::from_millis(50);
/// Interval of attempts to reach a starting server; the resolution of start-up times.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// Name in the tables.
    pub name: String,
    /// Program and arguments, with `{config}` for the path of a `zoo.cfg` that is written before the start, `{data}`
    /// for the data directory and `{port}` for the client port.
    pub argv: Vec<String>,
    /// A directory for this server only: configuration, data and log; data is deleted.
    pub dir: PathBuf,
    /// Client port on the loopback address.
    pub port: u16,
    /// Load before the first measurement of a fresh process: a JVM needs 30 s, others little.
    pub warm_up: Duration,
    pub gauge: Gauge,
    /// Id in an ensemble, and the `server.N` lines of the configuration.
    pub member: Option<(u32, String)>,
}

impl ServerCommand {
    /// A server that needs little warm-up and whose memory is its RSS.
    pub fn new(name: &str, argv: Vec<String>, dir: PathBuf, port: u16) -> Self {
        Self { name: name.into(), argv, dir, port, warm_up: Duration::from_secs(3), gauge: Gauge::Rss, member: None }
    }

    pub fn java(name: &str, argv: Vec<String>, dir: PathBuf, port: u16) -> Self {
        let plain = Self::new(name, argv, dir, port);
        Self { warm_up: Duration::from_secs(30), gauge: Gauge::RssAndJavaHeap, ..plain }
    }

    /// The members of an ensemble of such servers, on free ports.
    pub fn members(&self, count: u32) -> Result<Vec<Self>> {
        let mut lines = String::from("initLimit=10\nsyncLimit=5\n");
        for id in 1..=count {
            let _ = writeln!(lines, "server.{id}=127.0.0.1:{}:{}", free_port()?, free_port()?);
        }
        let member = |id: u32| {
            let name = format!("{} {id}", self.name);
            let (dir, port) = (self.dir.join(id.to_string()), free_port()?);
            Ok(Self { name, dir, port, member: Some((id, lines.clone())), ..self.clone() })
        };
        (1..=count).map(member).collect()
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Log file of the last run.
    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// Deletes the data of all runs.
    pub fn delete_data(&self) -> Result<()> {
        match self.data().exists() {
            true => fs::remove_dir_all(self.data()).with_context(|| format!("delete {}", self.data().display())),
            false => Ok(()),
        }
    }

    fn config(&self) -> String {
        format!(
            "tickTime=2000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n{}",
            self.data().display(),
            self.port,
            self.member.as_ref().map_or("", |(_, lines)| lines)
        )
    }

    pub fn target(&self) -> BenchTarget {
        BenchTarget { address: ([127, 0, 0, 1], self.port).into(), session_timeout_ms: 30_000 }
    }
}

/// Whether a server starts with the data of its last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartData {
    /// All data is deleted first.
    Fresh,
    Kept,
}

/// A running server; dropping it stops the process.
#[derive(Debug)]
pub struct Running {
    command: ServerCommand,
    child: Child,
    begin: Instant,
    /// Cost from the start of the process to the first reply.
    pub start: StartCost,
}

/// Cost of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartCost {
    pub seconds: f64,
    /// CPU time of the process, which other load on the machine affects less.
    pub cpu_seconds: f64,
}

impl Running {
    /// Starts a server and waits for its first reply.
    pub fn start(command: &ServerCommand, data: StartData) -> Result<Self> {
        let mut running = Self::launch(command, data)?;
        running.wait()?;
        Ok(running)
    }

    /// Starts a server that may need others before it serves.
    pub fn launch(command: &ServerCommand, data: StartData) -> Result<Self> {
        // Another server on this port would be mistaken for ours, and written to.
        TcpListener::bind(command.target().address).with_context(|| {
            format!("the port {} for {} is not free\nhint: choose another", command.port, command.name)
        })?;
        if data == StartData::Fresh {
            command.delete_data()?;
        }
        fs::create_dir_all(command.data()).with_context(|| format!("create {}", command.data().display()))?;
        if let Some((id, _)) = &command.member {
            fs::write(command.data().join("myid"), format!("{id}\n")).context("write myid")?;
        }
        let config = command.dir.join("zoo.cfg");
        fs::write(&config, command.config()).with_context(|| format!("write {}", config.display()))?;
        let log = command.log();
        let out = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let fill_in = |arg: &String| {
            arg.replace("{config}", &config.display().to_string())
                .replace("{data}", &command.data().display().to_string())
                .replace("{port}", &command.port.to_string())
        };
        let argv: Vec<String> = command.argv.iter().map(fill_in).collect();
        let (program, args) = argv.split_first().with_context(|| format!("no command for {}", command.name))?;
        let begin = Instant::now();
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        Ok(Self { command: command.clone(), child, begin, start: StartCost::default() })
    }

    /// Waits for the first reply.
    pub fn wait(&mut self) -> Result<()> {
        self.await_reply(self.begin)?;
        let seconds = self.begin.elapsed().as_secs_f64();
        self.start = StartCost { seconds, cpu_seconds: process::usage(self.pid())?.cpu_seconds };
        Ok(())
    }

    fn await_reply(&mut self, begin: Instant) -> Result<()> {
        let (name, log) = (self.command.name.clone(), self.command.log());
        loop {
            // Any failure means that it is not ready yet: refused, or accepted and closed again.
            let reply = Session::open_within(self.command.target(), TRY_LIMIT)
                .and_then(|mut session| session.data("/").map(|_| session));
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended while starting: {status}\nhint: see {}", log.display());
            }
            if reply.and_then(Session::close).is_ok() {
                return Ok(());
            }
            if START_LIMIT < begin.elapsed() {
                bail!("{name} did not reply within {} s\nhint: see {}", START_LIMIT.as_secs(), log.display());
            }
            sleep(TRY_EVERY);
        }
    }

    /// The server as clients and jobs use it.
    pub fn server(&self) -> job::MeasuredServer {
        job::MeasuredServer { target: self.command.target(), pid: Some(self.child.id()) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn command(&self) -> &ServerCommand {
        &self.command
    }

    pub fn snapshot_dir(&self) -> PathBuf {
        self.command.data().join("version-2")
    }

    /// Sends SIGKILL to the process.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM to the process and waits.
    pub fn stop(mut self) -> Result<()> {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().context("run kill")?;
        let begin = Instant::now();
        while signalled.success() && begin.elapsed() < END_LIMIT {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        bail!("{} did not exit in time", self.command.name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
