//! The servers under test.

use anyhow::{Context, Result, bail};
use ox_bench::job::MeasuredServer;
use ox_bench::memory::Gauge;
use ox_bench::process;
use ox_bench::session::{BenchTarget, Session};
use ox_testkit::{Program, ServerSpec, ServerUnderTest, free_port};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for a server to start.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Time limit of a reply of a starting server: Apache accepts connections early and loses some.
const TRY_LIMIT: Duration = Duration::from_millis(50);
/// Interval of attempts to reach a starting server; the resolution of start-up times.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// A program to measure.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredProgram {
    pub(crate) program: Program,
    /// A directory for this server only: configuration, data and log; data is deleted.
    pub(crate) dir: PathBuf,
    /// Load before the first measurement of a fresh process: a JVM needs 30 s, others little.
    pub(crate) warm_up: Duration,
    pub(crate) gauge: Gauge,
}

impl MeasuredProgram {
    /// A server that needs little warm-up and whose memory is its RSS.
    pub(crate) fn new(program: Program, dir: PathBuf) -> Self {
        Self { program, dir, warm_up: Duration::from_secs(3), gauge: Gauge::Rss }
    }

    pub(crate) fn java(program: Program, dir: PathBuf) -> Self {
        Self { warm_up: Duration::from_secs(30), gauge: Gauge::RssAndJavaHeap, ..Self::new(program, dir) }
    }

    /// Deletes the files of all runs.
    pub(crate) fn delete_data(&self) -> Result<()> {
        match self.dir.exists() {
            true => fs::remove_dir_all(&self.dir).with_context(|| format!("delete {}", self.dir.display())),
            false => Ok(()),
        }
    }
}

/// A server as clients and jobs use it.
pub(crate) fn target(address: SocketAddr) -> BenchTarget {
    BenchTarget { address, session_timeout_ms: 30_000, security: None }
}

/// Whether a server starts with the data of its last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartData {
    /// All data is deleted first.
    Fresh,
    Kept,
}

/// A running server; dropping it stops the process.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) program: MeasuredProgram,
    server: ServerUnderTest,
    /// The address of its TLS port, if it has one.
    pub(crate) secure_address: Option<SocketAddr>,
    /// Cost from the start of the process to the first reply.
    pub(crate) start: StartCost,
}

/// Cost of a start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartCost {
    pub(crate) seconds: f64,
    /// CPU time of the process, which other load on the machine affects less.
    pub(crate) cpu_seconds: f64,
}

impl Running {
    /// Starts a server and waits for its first reply.
    pub(crate) fn start(program: &MeasuredProgram, data: StartData) -> Result<Self> {
        Self::start_with(program, data, &[], None)
    }

    /// The same with more settings, which may open a TLS port.
    pub(crate) fn start_with(
        program: &MeasuredProgram,
        data: StartData,
        settings: &[(String, String)],
        secure_address: Option<SocketAddr>,
    ) -> Result<Self> {
        if data == StartData::Fresh {
            program.delete_data()?;
        }
        let spec = ServerSpec::new(program.program.clone());
        let spec = settings.iter().fold(spec, |spec, (key, value)| spec.setting(key, value));
        let mut server = ServerUnderTest::new(spec, &program.dir, free_port());
        server.launch()?;
        let begin = server.process().started;
        await_reply(&mut server, begin)?;
        let seconds = begin.elapsed().as_secs_f64();
        let start = StartCost { seconds, cpu_seconds: process::usage(server.process().id())?.cpu_seconds };
        Ok(Self { program: program.clone(), server, secure_address, start })
    }

    /// The server as clients and jobs use it.
    pub(crate) fn server(&self) -> MeasuredServer {
        MeasuredServer { target: target(self.server.address()), pid: Some(self.pid()) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.process().id()
    }

    pub(crate) fn snapshot_dir(&self) -> PathBuf {
        self.server.data_dir().join("version-2")
    }

    /// Sends SIGTERM to the process and waits.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.server.terminate()
    }
}

fn await_reply(server: &mut ServerUnderTest, begin: Instant) -> Result<()> {
    loop {
        // Any failure means that it is not ready yet: refused, or accepted and closed again.
        let reply = Session::open_within(target(server.address()), TRY_LIMIT)
            .and_then(|mut session| session.data("/").map(|_| session));
        if !server.is_running() {
            bail!("{} ended while starting\n{}", server.name(), server.log_tail());
        }
        if reply.and_then(Session::close).is_ok() {
            return Ok(());
        }
        if START_LIMIT < begin.elapsed() {
            bail!("{} did not reply within {} s\n{}", server.name(), START_LIMIT.as_secs(), server.log_tail());
        }
        std::thread::sleep(TRY_EVERY);
    }
}
