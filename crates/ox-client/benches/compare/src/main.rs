//! CPU cost per operation of ox-client and of the crate zookeeper-client: one connection each to the same server,
//! measured alternately in one run.
//!
//! The server runs on its own threads. Each client runs on a single-threaded runtime; its cost is the CPU time of that
//! thread plus that of the threads which the client itself started. `cargo run --release [-- OPERATIONS]`

use ox_client::{CreateMode, Version};
use ox_server::Server;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const DATA: [u8; 100] = [7; 100];
const PATH: &str = "/bench";

/// The operation that a measurement repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Get,
    Exists,
    Set,
}

/// The client under test.
#[derive(Clone)]
enum Either {
    Ox(ox_client::Client),
    Other(zookeeper_client::Client),
}

impl Either {
    async fn work(&self, work: Work) {
        match (self, work) {
            (Self::Ox(client), Work::Get) => assert_eq!(client.get(PATH).await.unwrap().data.len(), 100),
            (Self::Ox(client), Work::Exists) => assert!(client.exists(PATH).await.unwrap().is_some()),
            (Self::Ox(client), Work::Set) => drop(client.set(PATH, &DATA, Version::Any).await.unwrap()),
            (Self::Other(client), Work::Get) => assert_eq!(client.get_data(PATH).await.unwrap().0.len(), 100),
            (Self::Other(client), Work::Exists) => assert!(client.check_stat(PATH).await.unwrap().is_some()),
            (Self::Other(client), Work::Set) => drop(client.set_data(PATH, &DATA, None).await.unwrap()),
        }
    }
}

/// Nanoseconds per operation: CPU time and wall-clock time.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

/// The CPU time of every thread of this process, in nanoseconds.
fn threads() -> BTreeMap<PathBuf, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
    tasks.filter_map(|task| Some((task.clone(), cpu_time(&task)?))).collect()
}

/// CPU time of one thread in nanoseconds, `None` if the thread has ended.
fn cpu_time(task: &PathBuf) -> Option<u64> {
    std::fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
}

/// A client, the runtime it runs on, and the threads it started.
struct Subject {
    client: Either,
    runtime: tokio::runtime::Runtime,
    threads: Vec<PathBuf>,
}

impl Subject {
    fn new(connect: impl AsyncFnOnce() -> Either) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let before = threads();
        let client = runtime.block_on(connect());
        let threads = threads().into_keys().filter(|thread| !before.contains_key(thread)).collect();
        Self { client, runtime, threads }
    }

    fn cpu(&self) -> Vec<u64> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let own = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap());
        let others = self.threads.iter().map(|thread| cpu_time(thread).unwrap_or_default());
        std::iter::once(u64::try_from(own.as_nanos()).unwrap()).chain(others).collect()
    }

    /// Runs `count` operations with `depth` of them in flight.
    fn measure(&self, work: Work, depth: usize, count: usize) -> Cost {
        let (began, cpu) = (Instant::now(), self.cpu());
        self.runtime.block_on(run(&self.client, work, depth, count));
        let done = (count / depth * depth) as f64;
        // A thread that ended during the measurement counts as idle.
        let spent: u64 = self.cpu().iter().zip(cpu).map(|(now, then)| now.saturating_sub(then)).sum();
        Cost { cpu: spent as f64 / done, wall: began.elapsed().as_nanos() as f64 / done }
    }
}

/// Runs `depth` tasks, each with one operation in flight.
async fn run(client: &Either, work: Work, depth: usize, count: usize) {
    let tasks: Vec<_> = (0..depth)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..count / depth {
                    client.work(work).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn main() {
    let count: usize = std::env::args().nth(1).map_or(100_000, |count| count.parse().expect("OPERATIONS must be a number"));
    let server = Server::ephemeral().unwrap();
    let address = server.address().to_string();
    let ox = Subject::new(async || {
        let client = ox_client::Client::connect(&address).await.unwrap();
        client.create(PATH, &DATA, CreateMode::Persistent).await.unwrap();
        Either::Ox(client)
    });
    let other = Subject::new(async || Either::Other(zookeeper_client::Client::connect(&address).await.unwrap()));
    println!(
        "Nanoseconds of the client's CPU per operation, and operations per second of wall-clock time; medians of {ROUNDS}."
    );
    println!(
        "{:<8}{:>6} {:>12}{:>18}{:>8} {:>14}{:>18}",
        "", "depth", "ox-client", "zookeeper-client", "ratio", "ox-client", "zookeeper-client"
    );
    for work in [Work::Get, Work::Exists, Work::Set] {
        for depth in [1, 16, 256, 4096] {
            let count = if depth == 1 { count / 10 } else { count };
            let (mut ours, mut others) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(ox.measure(work, depth, count));
                others.push(other.measure(work, depth, count));
            }
            let cpu = |costs: &[Cost]| median(costs.iter().map(|cost| cost.cpu).collect());
            let rate = |costs: &[Cost]| 1e9 / median(costs.iter().map(|cost| cost.wall).collect());
            let (our_cpu, other_cpu) = (cpu(&ours), cpu(&others));
            println!(
                "{:<8}{depth:>6} {our_cpu:>12.0}{other_cpu:>18.0}{:>7.2}x {:>14.0}{:>18.0}",
                format!("{work:?}").to_lowercase(),
                other_cpu / our_cpu,
                rate(&ours),
                rate(&others)
            );
        }
    }
}
