//! `cargo xtask http-load`: what HTTP clients cost the clients of the server. Compares the p99 of the client port with
//! and without a thousand HTTP clients, slow ones among them, and measures the CPU time of a scrape.
//!
//! The server and the load are on different cores, so that only the server's own threads compete.

mod flood;

use super::oxkeeper_on_core;
use super::server::{MeasuredProgram, Running, StartData};
use crate::interop::servers::oxkeeper::build;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, anyhow, ensure};
use flood::{FloodCounts, HttpFlood};
use ox_bench::job::Job;
use ox_bench::load::RunTiming;
use ox_bench::notify::WatcherKind;
use ox_bench::process;
use ox_bench::progress::ProgressLine;
use ox_bench::results::RunResults;
use ox_bench::session::Session;
use ox_bench::stop_flag::StopFlag;
use ox_bench::tree_layout::TreeLayout;
use ox_testkit::{free_port, http};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SCRAPES: u32 = 100;

/// Flags of `cargo xtask http-load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// HTTP clients, each with one request per second.
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// How many of them send or read very slowly.
    #[arg(long, default_value_t = 200)]
    slow: usize,
    /// Pairs of measurements, with and without HTTP clients.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of a measurement in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Nodes of the tree.
    #[arg(long, default_value_t = 10_000)]
    nodes: u32,
    /// Connections of clients, each with one request at a time.
    #[arg(long, default_value_t = 20)]
    connections: usize,
    /// Requests per second of these clients; as many as possible without it, so that the core of the server is busy.
    #[arg(long)]
    rate: Option<f64>,
    /// Idle sessions beside the measured ones.
    #[arg(long, default_value_t = 0)]
    sessions: usize,
    /// Largest accepted ratio of the p99 with HTTP clients and without.
    #[arg(long, default_value_t = 1.2)]
    ratio_max: f64,
    /// Cargo profile of the server.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Measure this binary instead of building one.
    #[arg(long, conflicts_with = "profile")]
    binary: Option<PathBuf>,
    /// The core of the server, and that of the load.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<u32>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => build(&Workspace::find(), &args.profile)?,
    };
    let [server_core, load_core] = args.cores[..] else { return Err(anyhow!("--cores takes two numbers")) };
    let own = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-acp", &load_core.to_string(), &own]).output();
    ensure!(pinned.context("run taskset")?.status.success(), "taskset cannot use core {load_core}");
    let dir = tempfile::Builder::new().prefix("oxkeeper-http-load-").tempdir()?;
    let program = MeasuredProgram::new(oxkeeper_on_core(&binary, server_core), dir.path().join("server"));
    let admin: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let settings = [
        ("admin.enableServer", "true".to_owned()),
        ("admin.serverAddress", "127.0.0.1".to_owned()),
        ("admin.serverPort", admin.port().to_string()),
        ("maxSessionTimeout", "600000".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value));
    let running = Running::start_with(&program, StartData::Fresh, &settings, None)?;
    let stop = StopFlag::on_signals()?;
    let progress = ProgressLine::new("http-load: ");
    let job = job(args)?;
    job.prepare(running.server(), &stop, &progress)?;
    let idle = Session::open_many(&[running.server().target], args.sessions, |_| ())?;
    let scrape_ms = scrape_cost(&running, admin)?;
    println!("a scrape costs {scrape_ms:.2} ms of CPU ({} nodes, {} sessions)", args.nodes, args.sessions);
    let (mut quiet, mut during, mut total) = (Rounds::default(), Rounds::default(), FloodCounts::default());
    for round in 0..args.rounds {
        let measure = || job.measure(&[running.server()], round, &stop, &progress);
        // Every other round the other way round, because the first measurement may differ from the second.
        for is_flooded in [round % 2 == 1, round % 2 == 0] {
            if is_flooded {
                let flood = HttpFlood::start(admin, args.clients, args.slow)?;
                during.add(&measure()?);
                total.add(flood.stop()?);
            } else {
                quiet.add(&measure()?);
            }
        }
    }
    drop(idle);
    let mut ratio = 0.0;
    println!("medians of {} rounds without and with {} HTTP clients:", args.rounds, args.clients);
    for (name, before, after) in [
        ("requests per second", &mut quiet.per_second, &mut during.per_second),
        ("p50 us", &mut quiet.p50, &mut during.p50),
        ("p99 us", &mut quiet.p99, &mut during.p99),
    ] {
        let (before, after) = (median(before), median(after));
        ratio = after / before;
        println!("{name}: {before:.0}, {after:.0}, ratio {ratio:.2}");
    }
    let FloodCounts { replies, failures } = total;
    println!("the HTTP clients got {replies} replies, {failures} requests failed");
    ensure!(0 < replies, "the HTTP clients got no reply");
    ensure!(ratio <= args.ratio_max, "HTTP clients raise the p99 by more than the factor {}", args.ratio_max);
    running.stop()
}

fn job(args: &Args) -> Result<Job> {
    Ok(Job {
        workload: "get".parse().map_err(|error| anyhow!("{error}"))?,
        layout: TreeLayout { root: "/bench".to_owned(), parents: 1000, keys: args.nodes, data_bytes: 100 },
        multi_size: 10,
        connections: args.connections,
        depth: 1,
        threads: 1,
        rate: args.rate,
        watch_mode: WatcherKind::Once,
        timing: RunTiming { warm_up: Duration::from_secs(1), duration: Duration::from_secs(args.seconds) },
    })
}

/// CPU time of the server for one scrape, in ms.
fn scrape_cost(running: &Running, admin: SocketAddr) -> Result<f64> {
    let scrape = || http(admin, "GET", "/metrics", &[], b"");
    ensure!(scrape()?.status == 200, "the page of metrics");
    let before = process::usage(running.pid())?.cpu_seconds;
    std::thread::sleep(Duration::from_secs(1));
    let idle = process::usage(running.pid())?.cpu_seconds - before;
    let (before, begun) = (process::usage(running.pid())?.cpu_seconds, std::time::Instant::now());
    for _ in 0..SCRAPES {
        scrape()?;
    }
    let spent = process::usage(running.pid())?.cpu_seconds - before - idle * begun.elapsed().as_secs_f64();
    Ok(1000.0 * spent / f64::from(SCRAPES))
}

/// Results of the client port.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, results: &RunResults) {
        self.per_second.push(results.per_second);
        self.p50.push(results.latency_us.p50);
        self.p99.push(results.latency_us.p99);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
