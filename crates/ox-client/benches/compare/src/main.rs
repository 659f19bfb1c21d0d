//! What an operation costs the client: ox-client and the crate zookeeper-client on one connection each to the same server,
//! in one run, in turns.
//!
//! The server runs in threads of its own. Each client lives on a runtime of one thread, and the CPU time of that thread is what it costs.
//! `cargo run --release [-- OPERATIONS]`

use ox_client::{CreateMode, Version};
use ox_server::Server;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const DATA: [u8; 100] = [7; 100];
const PATH: &str = "/bench";

/// What is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Get,
    Exists,
    Set,
}

/// One of the two clients.
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

/// Nanoseconds per operation: of the thread's CPU, and of the clock.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// `depth` tasks, each with one operation under way.
async fn measure(client: &Either, work: Work, depth: usize, count: usize) -> Cost {
    let (began, cpu) = (Instant::now(), thread_cpu());
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
    let done = (count / depth * depth) as f64;
    let per = |time: Duration| time.as_nanos() as f64 / done;
    Cost { cpu: per(thread_cpu() - cpu), wall: per(began.elapsed()) }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn main() {
    let count: usize = std::env::args().nth(1).map_or(100_000, |count| count.parse().expect("a number of operations"));
    let server = Server::ephemeral().unwrap();
    let address = server.address().to_string();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ox = Either::Ox(first.block_on(ox_client::Client::connect(&address)).unwrap());
    let other = Either::Other(second.block_on(zookeeper_client::Client::connect(&address)).unwrap());
    if let Either::Ox(client) = &ox {
        first.block_on(client.create(PATH, &DATA, CreateMode::Persistent)).unwrap();
    }
    println!("Nanoseconds of the client's CPU per operation, and operations per second of the clock; medians of {ROUNDS}.");
    println!("{:<8}{:>6} {:>12}{:>18}{:>8} {:>14}{:>18}", "", "depth", "ox-client", "zookeeper-client", "ratio", "ox-client", "zookeeper-client");
    for work in [Work::Get, Work::Exists, Work::Set] {
        for depth in [1, 16, 256, 4096] {
            let count = if depth == 1 { count / 10 } else { count };
            let (mut ours, mut others) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(first.block_on(measure(&ox, work, depth, count)));
                others.push(second.block_on(measure(&other, work, depth, count)));
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
