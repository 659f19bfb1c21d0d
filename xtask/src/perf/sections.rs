//! The sections of the comparison: workloads, servers and goals.

use super::comparison::PerfConfig;
use super::ensemble;
use super::goal::Goal;
use super::report::{PerfReport, Row};
use super::server::{Running, StartCost, StartData};
use super::snapshot;
use super::tls::{HandshakeFlood, TlsStores};
use anyhow::{Result, anyhow};
use ox_bench::compare::{self, Compared};
use ox_bench::fill;
use ox_bench::idle::{Idle, IdleResults};
use ox_bench::job::{Job, MeasuredServer};
use ox_bench::load::RunTiming;
use ox_bench::memory::{self, Growth};
use ox_bench::notify::WatcherKind;
use ox_bench::progress::ProgressLine;
use ox_bench::results::RunResults;
use ox_bench::security::TlsResumption;
use ox_bench::stop_flag::StopFlag;
use ox_bench::tree_layout::TreeLayout;
use std::time::Duration;

/// Load before each round; a fresh process is warmed up longer.
const ROUND_WARM_UP: Duration = Duration::from_secs(1);
/// Operations of all kinds, so that a JVM has compiled them all.
const WARM_UP_MIX: &str = "get=40,set=20,exists=10,children=1,delete=10,multi=5";
/// Number of sessions with idle watches, and keys that each of them watches.
const WATCHING_SESSIONS: usize = 100;
const WATCHES_PER_SESSION: u32 = 10_000;

/// Workloads on three servers, with connections spread over them.
const ENSEMBLE_WORKLOADS: [(&str, &str, usize, Goal); 4] = [
    ("set, one at a time", "set", 1, Goal::Times(2.0)),
    ("set, pipeline 10", "set", 10, Goal::Times(5.0)),
    ("set, pipeline 100", "set", 100, Goal::Times(8.0)),
    ("90 % get, 10 % set, pipeline 100", "get=90,set=10", 100, Goal::None),
];
/// Requests per second while their latency is measured.
const LATENCY_RATE: f64 = 2000.0;
/// Handshakes per second meanwhile.
const HANDSHAKES_PER_SECOND: f64 = 500.0;
/// Number of times that the leader of an ensemble is killed.
const KILLS: usize = 10;

/// A section of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Start of an empty server.
    Start,
    /// Requests, notifications and new sessions.
    Requests,
    /// The same request with an increasing number of connections.
    Connections,
    /// Memory of idle sessions and watches.
    Idle,
    /// The same request on an increasing number of nodes.
    Growth,
    /// Memory, restart and snapshots of the largest tree.
    Million,
    Ensemble,
    /// Requests and handshakes over TLS.
    Tls,
}

impl Stage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Start,
        Self::Requests,
        Self::Connections,
        Self::Idle,
        Self::Growth,
        Self::Million,
        Self::Ensemble,
        Self::Tls,
    ];

    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Requests => "requests",
            Self::Connections => "connections",
            Self::Idle => "idle",
            Self::Growth => "growth",
            Self::Million => "million",
            Self::Ensemble => "ensemble",
            Self::Tls => "tls",
        }
    }
}

/// One workload of the requests section.
struct Workload {
    name: &'static str,
    mix: &'static str,
    connections: usize,
    depth: usize,
    keys: u32,
    parents: u32,
    goal: f64,
}

const fn requests(name: &'static str, mix: &'static str, depth: usize, goal: f64) -> Workload {
    Workload { name, mix, connections: 100, depth, keys: 10_000, parents: 10, goal }
}

/// The workload that leaves nodes in place comes last.
const WORKLOADS: [Workload; 10] = [
    requests("get, one at a time", "get", 1, 3.0),
    requests("get, pipeline 100", "get", 100, 30.0),
    requests("exists, pipeline 100", "exists", 100, 30.0),
    Workload { keys: 1000, parents: 1, ..requests("getChildren of 1000 names, pipeline 10", "children", 10, 10.0) },
    requests("set, one at a time, fsync", "set", 1, 3.0),
    requests("set, pipeline 100, fsync", "set", 100, 12.0),
    requests("90 % get, 10 % set, pipeline 100", "get=90,set=10", 100, 20.0),
    requests("multi of ten, pipeline 10", "multi", 10, 8.0),
    Workload { connections: 1000, ..requests("notifications, one node, 1000 watchers", "notify", 1, 4.0) },
    requests("create, pipeline 100, fsync", "create", 100, 12.0),
];

/// Runs sections and adds their rows to the report.
pub(crate) struct Sections<'a> {
    config: &'a PerfConfig,
    stop: &'a StopFlag,
    report: &'a mut PerfReport,
}

impl<'a> Sections<'a> {
    pub(crate) fn new(config: &'a PerfConfig, stop: &'a StopFlag, report: &'a mut PerfReport) -> Self {
        Self { config, stop, report }
    }

    pub(crate) fn run(&mut self, stage: Stage) -> Result<()> {
        match stage {
            Stage::Start => self.start(),
            Stage::Requests => self.requests(),
            Stage::Connections => self.connections(),
            Stage::Idle => self.idle(),
            Stage::Growth => self.growth(),
            Stage::Million => self.million(),
            Stage::Ensemble => self.ensemble(),
            Stage::Tls => self.tls(),
        }
    }

    fn start(&mut self) -> Result<()> {
        let mut starts = [Vec::new(), Vec::new()];
        for _ in 0..self.config.rounds {
            for (command, starts) in self.config.servers.iter().zip(&mut starts) {
                let running = Running::start(command, StartData::Fresh)?;
                starts.push(running.start);
                running.stop()?;
            }
        }
        self.start_rows("Start", "start of an empty server until its first reply", &starts, Goal::OneIn(20.0));
        Ok(())
    }

    fn start_rows(&mut self, section: &'static str, name: &str, starts: &[Vec<StartCost>; 2], goal: Goal) {
        let values =
            |value: fn(&StartCost) -> f64| [0, 1].map(|index: usize| starts[index].iter().map(value).collect());
        self.row(section, name, "s", values(|start| start.seconds), goal);
        self.row(section, name, "CPU s", values(|start| start.cpu_seconds), Goal::None);
    }

    fn requests(&mut self) -> Result<()> {
        let running = self.start_warm()?;
        let mut details = Vec::new();
        for workload in &WORKLOADS {
            let job = self.job(workload.mix, workload.connections, workload.depth, workload.keys, workload.parents)?;
            let compared = self.alternate(&running, &job, workload.name)?;
            self.row_of("Requests", workload.name, "per CPU s", &compared, per_cpu_second, Goal::Times(workload.goal));
            details.push((workload.name, compared));
        }
        // Few at a time: Apache's listen backlog is 50, and connections that overflow it wait for a second.
        let job = self.job("session", 32, 1, 1, 1)?;
        let name = "sessions opened and closed";
        let compared = self.alternate(&running, &job, name)?;
        self.row_of("Requests", name, "per s", &compared, |results| Some(results.per_second), Goal::Times(2.0));
        self.row_of("Requests", name, "per CPU s", &compared, per_cpu_second, Goal::None);
        details.push((name, compared));
        let section = "Throughput and latency of the same rounds";
        for (name, compared) in &details {
            self.row_of(section, name, "per s", compared, |results| Some(results.per_second), Goal::None);
            self.row_of(section, name, "p50 us", compared, |results| Some(results.latency_us.p50), Goal::None);
            self.row_of(section, name, "p99 us", compared, |results| Some(results.latency_us.p99), Goal::None);
        }
        stop_all(running)
    }

    fn connections(&mut self) -> Result<()> {
        let running = self.start_warm()?;
        for (mix, depth, doing) in [("get", 1, "get, one at a time"), ("set", 10, "set, pipeline 10")] {
            for connections in [10, 100, 1000] {
                let name = format!("{doing}, {connections} connections");
                let compared = self.alternate(&running, &self.job(mix, connections, depth, 10_000, 10)?, &name)?;
                self.row_of("Growth of connections", &name, "per CPU s", &compared, per_cpu_second, Goal::None);
            }
        }
        stop_all(running)
    }

    fn idle(&mut self) -> Result<()> {
        let mut sessions = [Vec::new(), Vec::new()];
        let mut watches = [Vec::new(), Vec::new()];
        for index in [0, 1] {
            for _ in 0..self.config.rounds.min(2) {
                let running = Running::start(&self.config.servers[index], StartData::Fresh)?;
                sessions[index].push(self.open_idle(&running, self.config.idle_sessions as usize, 0)?.per_session);
                running.stop()?;
                let running = Running::start(&self.config.servers[index], StartData::Fresh)?;
                watches[index].extend(self.open_idle(&running, WATCHING_SESSIONS, WATCHES_PER_SESSION)?.per_watch);
                running.stop()?;
            }
        }
        let section = "Idle sessions and watches";
        self.memory_rows(section, "idle session", &sessions, [Goal::AtMost(3072.0), Goal::None]);
        self.memory_rows(section, "idle watch", &watches, [Goal::None, Goal::AtMost(40.0)]);
        Ok(())
    }

    fn open_idle(&self, running: &Running, sessions: usize, watches_per_session: u32) -> Result<IdleResults> {
        Idle {
            server: running.server(),
            layout: TreeLayout { data_bytes: 0, ..layout(1, 1) },
            sessions,
            watches_per_session,
            gauge: running.program.gauge,
            hold: Duration::from_secs(2),
        }
        .run(self.stop, &ProgressLine::new("idle: "))
    }

    fn growth(&mut self) -> Result<()> {
        let running = self.start_warm()?;
        let mut keys = 1000;
        while keys <= self.config.nodes_max {
            for (mix, doing) in [("get", "get"), ("set", "set")] {
                let name = format!("{doing}, pipeline 100, {keys} nodes");
                let job = self.job(mix, 100, 100, keys, keys / 1000)?;
                let compared = self.alternate(&running, &job, &name)?;
                self.row_of("Growth of the tree", &name, "per CPU s", &compared, per_cpu_second, Goal::None);
            }
            keys *= 10;
        }
        stop_all(running)
    }

    fn million(&mut self) -> Result<()> {
        let nodes = self.config.nodes_max;
        let layout = layout(nodes, nodes.div_ceil(1000));
        let mut running = Vec::new();
        let (mut filled, mut restarted) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let (mut starts, mut empty) = ([Vec::new(), Vec::new()], Vec::new());
        for (command, filled) in self.config.servers.iter().zip(&mut filled) {
            let server = Running::start(command, StartData::Fresh)?;
            empty.push(memory::read(server.pid(), command.gauge)?);
            let progress = ProgressLine::new(&format!("{}: ", command.program.name));
            filled.extend(fill::fill(server.server(), &layout, command.gauge, self.stop, &progress)?.per_node);
            running.push(server);
        }
        for _ in 0..self.config.rounds {
            for index in [0, 1] {
                running.remove(0).stop()?; // stops the first of the two, so that both alternate
                let server = Running::start(&self.config.servers[index], StartData::Kept)?;
                starts[index].push(server.start);
                let after = memory::read(server.pid(), server.program.gauge)?;
                restarted[index].push(after.growth_per(nodes as usize, &empty[index]));
                running.push(server);
            }
        }
        let section = "The largest tree";
        self.memory_rows(
            section,
            &format!("node, tree of {nodes} nodes, after creating them"),
            &filled,
            [Goal::AtMost(300.0), Goal::None],
        );
        self.memory_rows(
            section,
            &format!("node, tree of {nodes} nodes, after a restart"),
            &restarted,
            [Goal::AtMost(300.0), Goal::None],
        );
        self.start_rows(
            section,
            &format!("restart with {nodes} nodes until the first reply"),
            &starts,
            Goal::OneIn(8.0),
        );
        self.snapshots(&running, &layout)?;
        running.into_iter().try_for_each(Running::stop)
    }

    fn snapshots(&mut self, running: &[Running], layout: &TreeLayout) -> Result<()> {
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..self.config.rounds {
            for (server, results) in running.iter().zip(&mut results) {
                results.push(snapshot::measure(server.server(), &server.snapshot_dir(), layout, self.stop)?);
            }
        }
        let section = "Single writes while a snapshot of the largest tree is written";
        let values = |value: fn(&snapshot::SnapshotResults) -> f64| {
            [0, 1].map(|index: usize| results[index].iter().map(value).collect())
        };
        self.row(
            section,
            "p99 of single writes, no snapshot being written",
            "ms",
            values(|results| results.quiet_p99_ms),
            Goal::None,
        );
        self.row(
            section,
            "p99 of single writes during a snapshot",
            "ms",
            values(|results| results.during_p99_ms),
            Goal::None,
        );
        self.row(
            section,
            "slowest single write during a snapshot",
            "ms",
            values(|results| results.during_max_ms),
            Goal::None,
        );
        let ratio = values(|results| results.during_p99_ms / results.quiet_p99_ms);
        self.row(section, "p99 during a snapshot / p99 without one", "times", ratio, Goal::AtMost(2.0));
        self.row(section, "time to write the snapshot", "s", values(|results| results.seconds), Goal::None);
        Ok(())
    }

    fn ensemble(&mut self) -> Result<()> {
        let section = "Three servers";
        let mut running = Vec::new();
        for command in &self.config.servers {
            let ensemble = ensemble::start(command)?;
            let servers = ensemble::servers(&ensemble);
            let timing = RunTiming { warm_up: Duration::ZERO, duration: command.warm_up };
            let job = Job { timing, ..self.job("get=50,set=50", 100, 10, 10_000, 10)? };
            let progress = ProgressLine::new(&format!("{}: ", command.program.name));
            job.prepare(servers[0], self.stop, &progress)?;
            job.measure(&servers, 0, self.stop, &progress)?;
            running.push(ensemble);
        }
        let servers: Vec<Vec<MeasuredServer>> = running.iter().map(ensemble::servers).collect();
        let mut details = Vec::new();
        for (name, mix, depth, goal) in ENSEMBLE_WORKLOADS {
            eprintln!("  {name}");
            let compared =
                self.alternate_all([&servers[0], &servers[1]], &self.job(mix, 100, depth, 10_000, 10)?, name)?;
            self.row_of(section, name, "per s", &compared, |results| Some(results.per_second), goal);
            details.push((name, compared));
        }
        for (name, compared) in &details {
            self.row_of(section, name, "per CPU s", compared, per_cpu_second, Goal::None);
            self.row_of(section, name, "p50 us", compared, |results| Some(results.latency_us.p50), Goal::None);
            self.row_of(section, name, "p99 us", compared, |results| Some(results.latency_us.p99), Goal::None);
        }
        let mut pauses = [Vec::new(), Vec::new()];
        for kill in 0..KILLS {
            for (ensemble, pauses) in running.iter_mut().zip(&mut pauses) {
                eprintln!("  kill {} of {KILLS}", kill + 1);
                pauses.push(ensemble::kill_leader(ensemble)?.as_secs_f64() * 1e3);
            }
        }
        self.row(section, "pause of writes when the leader is killed", "ms", pauses, Goal::OneIn(4.0));
        running.into_iter().try_for_each(ensemble::stop)
    }

    /// Requests over TLS beside plain ones, handshakes, and how much handshakes delay established connections.
    fn tls(&mut self) -> Result<()> {
        const SECTION: &str = "TLS";
        let stores = TlsStores::find()?;
        let [ours, baseline] = &self.config.servers;
        let running = [stores.start(ours)?, stores.start(baseline)?];
        self.warm_up(&running)?;
        let full = running.each_ref().map(|server| stores.target(server, TlsResumption::Off));
        let resumed = running.each_ref().map(|server| stores.target(server, TlsResumption::On));
        let ([full_a, full_b], [resumed_a, resumed_b]) = (full, resumed);
        let (full, resumed) = ([full_a?, full_b?], [resumed_a?, resumed_b?]);

        let job = self.job("get", 100, 1, 10_000, 10)?;
        let plain = self.alternate(&running, &job, "get, one at a time, plain")?;
        for (name, depth, goal) in [("get, one at a time", 1, 3.0), ("get, pipeline 100", 100, 15.0)] {
            let (job, name) = (self.job("get", 100, depth, 10_000, 10)?, format!("{name}, TLS"));
            eprintln!("  {name}");
            let compared = self.alternate_all([&full[..1], &full[1..]], &job, &name)?;
            self.row_of(SECTION, &name, "per CPU s", &compared, per_cpu_second, Goal::Times(goal));
            self.row_of(SECTION, &name, "per s", &compared, |results| Some(results.per_second), Goal::None);
            if depth == 1 {
                let shares = |tls: &[RunResults], plain: &[RunResults]| {
                    tls.iter().zip(plain).map(|(tls, plain)| tls.per_second / plain.per_second).collect()
                };
                let shares = [shares(&compared.rounds_a, &plain.rounds_a), shares(&compared.rounds_b, &plain.rounds_b)];
                self.row(SECTION, "throughput over TLS / plain, one at a time", "share", shares, Goal::AtLeast(0.55));
            }
        }
        for (name, servers, goal) in [
            ("sessions opened and closed, full handshakes", &full, 3.0),
            ("sessions opened and closed, resumed handshakes", &resumed, 6.0),
        ] {
            eprintln!("  {name}");
            let job = self.job("session", 32, 1, 1, 1)?;
            let compared = self.alternate_all([&servers[..1], &servers[1..]], &job, name)?;
            self.row_of(SECTION, name, "per CPU s", &compared, per_cpu_second, Goal::Times(goal));
        }
        self.latency_during_handshakes(SECTION, &full)?;
        stop_all(running)
    }

    /// The latency of a moderate load, with and without handshakes of other clients.
    fn latency_during_handshakes(&mut self, section: &'static str, servers: &[MeasuredServer; 2]) -> Result<()> {
        let job = Job { rate: Some(LATENCY_RATE), ..self.job("get", 100, 1, 10_000, 10)? };
        let (mut quiet, mut during) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..self.config.rounds {
            for (index, server) in servers.iter().enumerate() {
                let progress = ProgressLine::new("latency: ");
                let measure = || job.measure(std::slice::from_ref(server), round, self.stop, &progress);
                quiet[index].push(measure()?.latency_us.p99);
                let flood = HandshakeFlood::start(server.target, HANDSHAKES_PER_SECOND)?;
                during[index].push(measure()?.latency_us.p99);
                let per_second = flood.stop()?;
                if per_second < HANDSHAKES_PER_SECOND * 0.9 {
                    let name = &self.config.servers[index].program.name;
                    let text = format!("latency during handshakes: only {per_second:.0} per second at {name}");
                    self.report.failures.push(text);
                }
            }
        }
        let ratios = [0, 1].map(|index: usize| during[index].iter().zip(&quiet[index]).map(|(a, b)| a / b).collect());
        self.row(section, "p99 of get over TLS, 2000 per second", "us", quiet, Goal::None);
        self.row(section, "the same during 500 handshakes per second", "us", during, Goal::None);
        self.row(section, "p99 during handshakes / p99 without", "times", ratios, Goal::AtMost(2.0));
        Ok(())
    }

    /// Starts both servers without data and loads them until they are warm.
    fn start_warm(&self) -> Result<[Running; 2]> {
        let [ours, baseline] = &self.config.servers;
        let running = [Running::start(ours, StartData::Fresh)?, Running::start(baseline, StartData::Fresh)?];
        self.warm_up(&running)?;
        Ok(running)
    }

    fn warm_up(&self, running: &[Running; 2]) -> Result<()> {
        for server in running {
            let timing = RunTiming { warm_up: Duration::ZERO, duration: server.program.warm_up };
            let job = Job { timing, ..self.job(WARM_UP_MIX, 100, 10, 1000, 10)? };
            let progress = ProgressLine::new(&format!("{}: ", server.program.program.name));
            job.prepare(server.server(), self.stop, &progress)?;
            job.measure(&[server.server()], 0, self.stop, &progress)?;
        }
        Ok(())
    }

    fn job(&self, mix: &str, connections: usize, depth: usize, keys: u32, parents: u32) -> Result<Job> {
        Ok(Job {
            workload: mix.parse().map_err(|error| anyhow!("{error}"))?,
            layout: layout(keys, parents),
            multi_size: 10,
            connections,
            depth,
            threads: 1,
            rate: None,
            watch_mode: WatcherKind::Once,
            timing: RunTiming { warm_up: ROUND_WARM_UP, duration: self.config.round },
        })
    }

    /// Creates the nodes on both servers and measures them alternately.
    fn alternate(&mut self, running: &[Running; 2], job: &Job, name: &str) -> Result<Compared> {
        eprintln!("  {name}");
        self.alternate_all([&[running[0].server()], &[running[1].server()]], job, name)
    }

    /// Like [`Self::alternate`], for ensembles.
    fn alternate_all(&mut self, servers: [&[MeasuredServer]; 2], job: &Job, name: &str) -> Result<Compared> {
        for server in servers {
            job.prepare(server[0], self.stop, &ProgressLine::new("set up: "))?;
        }
        let compared = compare::alternate(job, servers, self.config.rounds, self.stop)?;
        self.report.raw.insert(name.into(), [compared.rounds_a.clone(), compared.rounds_b.clone()]);
        for (server, rounds) in self.config.servers.iter().zip([&compared.rounds_a, &compared.rounds_b]) {
            let errors: u64 = rounds.iter().map(RunResults::error_count).sum();
            if 0 < errors {
                self.report.failures.push(format!("{name}: {errors} errors from {}", server.program.name));
            }
        }
        Ok(compared)
    }

    fn row_of(
        &mut self,
        section: &'static str,
        name: &str,
        unit: &'static str,
        compared: &Compared,
        value: fn(&RunResults) -> Option<f64>,
        goal: Goal,
    ) {
        let values = |rounds: &[RunResults]| rounds.iter().filter_map(value).collect();
        self.row(section, name, unit, [values(&compared.rounds_a), values(&compared.rounds_b)], goal);
    }

    /// A row of resident memory and a row of live objects, which differ for a garbage-collected server.
    fn memory_rows(&mut self, section: &'static str, thing: &str, growth: &[Vec<Growth>; 2], goals: [Goal; 2]) {
        let values = |value: fn(&Growth) -> f64| [0, 1].map(|index: usize| growth[index].iter().map(value).collect());
        self.row(section, &format!("memory per {thing}"), "B of RSS", values(|growth| growth.rss_bytes), goals[0]);
        let live = values(|growth| growth.heap_bytes.unwrap_or(growth.rss_bytes));
        self.row(section, &format!("memory per {thing}"), "B of RSS; Java: B of live heap", live, goals[1]);
    }

    fn row(&mut self, section: &'static str, name: &str, unit: &'static str, values: [Vec<f64>; 2], goal: Goal) {
        let [ours, baseline] = values.map(|values| values.into_iter().filter(|value| value.is_finite()).collect());
        let (rounds, round_seconds) = (self.config.rounds, self.config.round.as_secs_f64());
        let (section, name, unit) = (section.to_owned(), name.to_owned(), unit.to_owned());
        self.report.rows.push(Row { section, name, unit, rounds, round_seconds, ours, baseline, goal });
    }
}

fn per_cpu_second(results: &RunResults) -> Option<f64> {
    results.server.map(|cost| cost.per_cpu_second)
}

fn stop_all(running: [Running; 2]) -> Result<()> {
    running.into_iter().try_for_each(Running::stop)
}

/// Trees of different layouts have different roots; the servers' data is deleted in the end.
fn layout(keys: u32, parents: u32) -> TreeLayout {
    TreeLayout { root: format!("/oxbench-{keys}-{parents}"), parents, keys, data_bytes: 100 }
}
