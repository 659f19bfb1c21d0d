//! A mix of requests on lasting connections: opens them, runs the phases and evaluates.

use crate::connection::LoadConnection;
use crate::counters::Counters;
use crate::failure;
use crate::job::{Job, MeasuredServer};
use crate::operation::Mix;
use crate::process::{self, ProcessUsage};
use crate::progress::ProgressLine;
use crate::request_templates::{RequestGenerator, RequestTemplates};
use crate::results::{RunResults, Window};
use crate::session::{BenchTarget, Session};
use crate::stop_flag::StopFlag;
use crate::worker::{LoadWorker, Pace, Phase, RunState};
use anyhow::Result;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Node numbers per connection and round; see [`RequestGenerator::new`].
const NODES_PER_CONNECTION: u64 = 100_000_000;
/// Connections with distinct node numbers.
const CONNECTIONS_PER_ROUND: u64 = 100_000;

/// Duration of warm-up and measurement.
#[derive(Clone, Copy, Debug)]
pub struct RunTiming {
    pub warm_up: Duration,
    /// Length of the measured window.
    pub duration: Duration,
}

/// A load on existing keys.
#[derive(Clone, Copy, Debug)]
pub struct RequestLoad<'a> {
    pub job: &'a Job,
    pub mix: &'a Mix,
    /// The server, or members of an ensemble over which connections are spread.
    pub servers: &'a [MeasuredServer],
    /// Makes the names of created nodes differ from those of other rounds.
    pub round: u32,
}

impl RequestLoad<'_> {
    pub fn run(&self, stop: &StopFlag, progress: &ProgressLine) -> Result<RunResults> {
        let Job { connections, depth, threads, rate, .. } = *self.job;
        let targets: Vec<BenchTarget> = self.servers.iter().map(|server| server.target).collect();
        let sessions = Session::open_many(&targets, connections, |open| {
            progress.show(|| format!("connected {open} of {connections}"));
        })?;
        let keep_alive = sessions.iter().map(Session::timeout).min().unwrap_or_default() / 3;
        let pace = Pace { depth, rate: rate.map(|rate| rate / threads as f64), keep_alive };
        let mut shares: Vec<Vec<LoadConnection>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, session) in sessions.into_iter().enumerate() {
            let generator = self.generator(index as u64);
            shares[index % threads].push(LoadConnection::new(session, generator)?);
        }
        let templates = RequestTemplates::new(self.mix, &self.job.layout, self.job.multi_size);
        let state = RunState::default();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for share in shares {
                let worker = LoadWorker::new(targets[0].address, &state, &templates, pace, share)?;
                threads.push(scope.spawn(move || worker.run()));
            }
            let window = self.run_phases(&state, &threads, stop, progress);
            state.enter(Phase::Stop);
            let mut counters = Counters::default();
            for thread in threads {
                counters.merge(&thread.join().expect("a load thread does not panic")?);
            }
            Ok(RunResults::new(&counters, window?))
        })
    }

    fn generator(&self, connection: u64) -> RequestGenerator {
        let range = u64::from(self.round) * CONNECTIONS_PER_ROUND + connection;
        RequestGenerator::new(range, range * NODES_PER_CONNECTION)
    }

    /// Runs the workers through the phases; ends early if one of them has ended.
    fn run_phases<T>(
        &self,
        state: &RunState,
        threads: &[ScopedJoinHandle<'_, T>],
        stop: &StopFlag,
        progress: &ProgressLine,
    ) -> Result<Window> {
        let ended = || threads.iter().any(ScopedJoinHandle::is_finished) || stop.is_set();
        let received = || state.received.load(Ordering::Relaxed);
        progress.wait("warm up", self.job.timing.warm_up, &ended, received);
        failure::unless_interrupted(stop)?;
        let before = WindowStart::take(self.servers.iter().filter_map(|server| server.pid).collect())?;
        state.enter(Phase::Measure);
        progress.wait("measure", self.job.timing.duration, &ended, received);
        before.window()
    }
}

/// The start of a measured window.
#[derive(Debug)]
pub struct WindowStart {
    pids: Vec<u32>,
    server: Option<ProcessUsage>,
    client: ProcessUsage,
    machine_cpu_seconds: f64,
    at: Instant,
}

impl WindowStart {
    /// Measures the given server processes now.
    pub fn take(pids: Vec<u32>) -> Result<Self> {
        let server = process::usage_of_all(&pids)?;
        let machine_cpu_seconds = process::machine_cpu_seconds()?;
        Ok(Self { pids, server, client: process::own_usage()?, machine_cpu_seconds, at: Instant::now() })
    }

    /// The window from then to now.
    pub fn window(&self) -> Result<Window> {
        let seconds = self.at.elapsed().as_secs_f64();
        let server = self.server.zip(process::usage_of_all(&self.pids)?);
        Ok(Window {
            seconds,
            server,
            client_cpu_seconds: process::own_usage()?.cpu_seconds - self.client.cpu_seconds,
            machine_cpu_seconds: process::machine_cpu_seconds()? - self.machine_cpu_seconds,
        })
    }
}
