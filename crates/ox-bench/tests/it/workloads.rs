//! Every workload produces results and closes its sessions.

use crate::fake_server::{Behaviour, job, start};
use ox_bench::compare;
use ox_bench::fill;
use ox_bench::idle::Idle;
use ox_bench::job::{Job, MeasuredServer};
use ox_bench::memory::Gauge;
use ox_bench::notify::WatcherKind;
use ox_bench::progress::ProgressLine;
use ox_bench::results::RunResults;
use ox_bench::stop_flag::StopFlag;
use std::time::Duration;

fn measure(job: &Job, server: MeasuredServer) -> RunResults {
    let (stop, progress) = (StopFlag::default(), ProgressLine::hidden());
    job.prepare(server, &stop, &progress).unwrap();
    let results = job.measure(&[server], 0, &stop, &progress).unwrap();
    job.clean(server, &progress).unwrap();
    assert!(0 < results.operations);
    assert!(0.0 < results.latency_us.p50 && results.latency_us.p50 <= results.latency_us.max);
    assert!(results.server.is_some());
    results
}

#[test]
fn mix_produces_results() {
    let server = start(Behaviour::Good);
    for depth in [1, 2, 50] {
        let results = measure(&job("get=2,set=1,exists=1,children=1,delete=1,multi=1,ping=1,sync=1", depth), server);
        assert_eq!(results.errors.len(), 0);
        assert_eq!(results.by_operation.values().map(|part| part.operations).sum::<u64>(), results.operations);
        assert!(results.by_operation.contains_key("ping"));
    }
    assert!(measure(&job("get", 1), server).by_operation.is_empty());
}

#[test]
fn rate_is_not_exceeded() {
    let server = start(Behaviour::Good);
    let results = measure(&Job { rate: Some(1000.0), ..job("get", 1) }, server);
    // Requests that were due in the warm-up may be answered in the window on a machine that stalls.
    assert!(results.operations as f64 <= 1000.0 * (results.seconds + 0.1), "{results:?}");
}

#[test]
fn session_churn_produces_results() {
    measure(&job("session", 1), start(Behaviour::Good));
}

#[test]
fn notify_reaches_every_watcher() {
    let server = start(Behaviour::Notifies);
    for watch_mode in [WatcherKind::Once, WatcherKind::Persistent] {
        let results = measure(&Job { watch_mode, ..job("notify", 1) }, server);
        assert_eq!(results.operations % 4, 0, "every change reaches every watcher");
    }
}

#[test]
fn two_servers_are_compared() {
    let servers = [start(Behaviour::Good), start(Behaviour::Good)];
    let compared =
        compare::alternate(&job("get", 10), [&servers[..1], &servers[1..]], 3, &StopFlag::default()).unwrap();
    assert_eq!((compared.rounds_a.len(), compared.rounds_b.len()), (3, 3));
    let throughput = &compared.comparisons[0];
    assert_eq!(throughput.figure, "per second");
    assert!((throughput.a.median / throughput.b.median - throughput.ratio).abs() < 1e-9);
}

#[test]
fn idle_and_fill_measure_memory() {
    let (server, stop, progress) = (start(Behaviour::Good), StopFlag::default(), ProgressLine::hidden());
    let layout = job("get", 1).layout;
    let idle = Idle {
        server,
        layout: layout.clone(),
        sessions: 5,
        watches_per_session: 3,
        gauge: Gauge::Rss,
        hold: Duration::ZERO,
    };
    let results = idle.run(&stop, &progress).unwrap();
    assert_eq!((results.sessions, results.watches), (5, 15));
    assert!(results.per_watch.is_some());
    let results = fill::fill(server, &layout, Gauge::Rss, &stop, &progress).unwrap();
    assert_eq!(results.nodes, 20);
}
