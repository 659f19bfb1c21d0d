//! Starting and stopping the servers under test.

use crate::job;
use crate::memory::Gauge;
use crate::ports::free_port;
use crate::process;
use crate::session::{Session, Target};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A server that has not answered by then does not start.
const START_LIMIT: Duration = Duration::from_secs(300);
/// A server that has not ended by then is killed.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long a starting server may leave a request without an answer: Apache accepts connections early and forgets some.
const TRY_LIMIT: Duration = Duration::from_millis(50);
/// How often a starting server is tried; start-up times are exact to this.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// Its name in the tables.
    pub name: String,
    /// Program and arguments, with `{config}` for the path of a `zoo.cfg` that is written before the start, `{data}` for
    /// the data directory and `{port}` for the client port.
    pub argv: Vec<String>,
    /// A directory for this server alone: configuration, data and log go here, and data is deleted.
    pub dir: PathBuf,
    /// Its client port on the loopback address.
    pub port: u16,
    /// Load before the first measurement of a fresh process: a JVM needs 30 s, others little.
    pub warm_up: Duration,
    /// How its memory is read.
    pub gauge: Gauge,
    /// Its number in an ensemble, and the lines of the configuration that tell of it.
    pub member: Option<(u32, String)>,
}

impl ServerCommand {
    /// A server that needs little warming up and whose memory is what the kernel says.
    pub fn new(name: &str, argv: Vec<String>, dir: PathBuf, port: u16) -> Self {
        Self { name: name.into(), argv, dir, port, warm_up: Duration::from_secs(3), gauge: Gauge::Rss, member: None }
    }

    /// A server on a JVM.
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

    /// The log of its last run.
    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// Deletes all data of its runs.
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

    /// How clients reach it.
    pub fn target(&self) -> Target {
        Target { address: ([127, 0, 0, 1], self.port).into(), session_timeout_ms: 30_000 }
    }
}

/// Whether a server starts with the data of its last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All data is deleted first.
    Fresh,
    /// All data is kept.
    Kept,
}

/// A server that runs; it ends with this value.
#[derive(Debug)]
pub struct Running {
    command: ServerCommand,
    child: Child,
    begin: Instant,
    /// What it took from the start of the process to the first reply.
    pub start: StartCost,
}

/// What a start took.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartCost {
    /// Time on the clock.
    pub seconds: f64,
    /// CPU time of the process, which other work on the machine stretches less.
    pub cpu_seconds: f64,
}

impl Running {
    /// Starts a server and waits until it answers.
    pub fn start(command: &ServerCommand, data: Data) -> Result<Self> {
        let mut running = Self::launch(command, data)?;
        running.wait()?;
        Ok(running)
    }

    /// Starts a server that may need others to serve.
    pub fn launch(command: &ServerCommand, data: Data) -> Result<Self> {
        // Somebody else's server on this port would be taken for ours, and written to.
        TcpListener::bind(command.target().address).with_context(|| {
            format!("the port {} for {} is not free\nhint: choose another", command.port, command.name)
        })?;
        if data == Data::Fresh {
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

    /// Waits until it answers.
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
            let answer = Session::open_within(self.command.target(), TRY_LIMIT)
                .and_then(|mut session| session.data("/").map(|_| session));
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended while starting: {status}\nhint: see {}", log.display());
            }
            if answer.and_then(Session::close).is_ok() {
                return Ok(());
            }
            if START_LIMIT < begin.elapsed() {
                bail!("{name} did not answer within {} s\nhint: see {}", START_LIMIT.as_secs(), log.display());
            }
            sleep(TRY_EVERY);
        }
    }

    /// The server as clients and jobs see it.
    pub fn server(&self) -> job::Server {
        job::Server { target: self.command.target(), pid: Some(self.child.id()) }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command it was started with.
    pub fn command(&self) -> &ServerCommand {
        &self.command
    }

    /// Where its snapshots are.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.command.data().join("version-2")
    }

    /// Ends it at once.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().context("run kill")?;
        let begin = Instant::now();
        while asked.success() && begin.elapsed() < END_LIMIT {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        bail!("{} does not end", self.command.name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
