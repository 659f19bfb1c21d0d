//! A mix of requests on lasting connections: opens them, drives the phases and evaluates.

use crate::connection::Connection;
use crate::counters::Tally;
use crate::job::Server;
use crate::operation::Mix;
use crate::process::{self, Usage};
use crate::progress::Progress;
use crate::request_templates::{Author, Plan};
use crate::results::{Figures, Window};
use crate::session::{Session, Target};
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use crate::worker::{Board, Pace, Phase, Worker};
use anyhow::Result;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Node numbers of one connection in one round; see [`Author::new`].
const NODES_PER_CONNECTION: u64 = 100_000_000;
/// Connections whose node numbers differ.
const CONNECTIONS_PER_ROUND: u64 = 100_000;

/// How long to load and how long to count.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Load before counting.
    pub warm_up: Duration,
    /// The measured window.
    pub duration: Duration,
}

/// A load on keys that exist.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server, or members of an ensemble over which connections are spread.
    pub servers: Vec<Server>,
    /// What is asked.
    pub mix: Mix,
    /// The nodes it is asked of.
    pub shape: Shape,
    /// Elements of a multi.
    pub multi_size: usize,
    /// Number of connections.
    pub connections: usize,
    /// Requests under way per connection.
    pub depth: usize,
    /// Load threads.
    pub threads: usize,
    /// Requests per second over all connections, or as many as can be.
    pub rate: Option<f64>,
    /// How long.
    pub timing: Timing,
    /// Makes the names of created nodes differ from those of other rounds.
    pub round: u32,
}

impl Load {
    /// Runs the load.
    pub fn run(&self, stop: &Stop, progress: &Progress) -> Result<Figures> {
        let targets: Vec<Target> = self.servers.iter().map(|server| server.target).collect();
        let sessions = Session::open_many(&targets, self.connections, |open| {
            progress.show(|| format!("connected {open} of {}", self.connections));
        })?;
        let keep_alive = sessions.iter().map(Session::timeout).min().unwrap_or_default() / 3;
        let pace = Pace { depth: self.depth, rate: self.rate.map(|rate| rate / self.threads as f64), keep_alive };
        let mut shares: Vec<Vec<Connection>> = (0..self.threads).map(|_| Vec::new()).collect();
        for (index, session) in sessions.into_iter().enumerate() {
            let author = self.author(index as u64);
            shares[index % self.threads].push(Connection::new(session, author)?);
        }
        let plan = Plan::new(&self.mix, &self.shape, self.multi_size);
        let board = Board::default();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for share in shares {
                let worker = Worker::new(targets[0].address, &board, &plan, pace, share)?;
                threads.push(scope.spawn(move || worker.run()));
            }
            let window = self.conduct(&board, &threads, stop, progress);
            board.enter(Phase::Stop);
            let mut tally = Tally::default();
            for thread in threads {
                tally.merge(&thread.join().expect("a load thread does not panic")?);
            }
            Ok(Figures::new(&tally, window?))
        })
    }

    fn author(&self, connection: u64) -> Author {
        let range = u64::from(self.round) * CONNECTIONS_PER_ROUND + connection;
        Author::new(range, range * NODES_PER_CONNECTION)
    }

    /// Moves the workers through the phases; ends early when one of them has ended.
    fn conduct<T>(
        &self,
        board: &Board,
        threads: &[ScopedJoinHandle<'_, T>],
        stop: &Stop,
        progress: &Progress,
    ) -> Result<Window> {
        let ended = || threads.iter().any(ScopedJoinHandle::is_finished) || stop.is_set();
        let answered = || board.answered.load(Ordering::Relaxed);
        progress.wait("warm up", self.timing.warm_up, &ended, answered);
        let before = Mark::take(self.servers.iter().filter_map(|server| server.pid).collect())?;
        board.enter(Phase::Measure);
        progress.wait("measure", self.timing.duration, &ended, answered);
        before.window()
    }
}

/// The start of a measured window.
#[derive(Debug)]
pub struct Mark {
    pids: Vec<u32>,
    server: Option<Usage>,
    client: Usage,
    machine_cpu_seconds: f64,
    at: Instant,
}

impl Mark {
    /// Now, for the processes that serve.
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
