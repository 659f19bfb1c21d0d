//! Every workload gives figures and leaves no session behind.

use crate::fake_server::{Manner, job, start};
use ox_bench::compare;
use ox_bench::fill;
use ox_bench::idle::Idle;
use ox_bench::job::{Job, Server};
use ox_bench::memory::Gauge;
use ox_bench::notify::WatchMode;
use ox_bench::progress::Progress;
use ox_bench::results::Figures;
use ox_bench::stop_flag::Stop;
use std::time::Duration;

fn measure(job: &Job, server: Server) -> Figures {
    let (stop, progress) = (Stop::default(), Progress::hidden());
    job.prepare(server, &stop, &progress).unwrap();
    let figures = job.measure(&[server], 0, &stop, &progress).unwrap();
    job.clean(server, &progress).unwrap();
    assert!(0 < figures.operations);
    assert!(0.0 < figures.latency_us.p50 && figures.latency_us.p50 <= figures.latency_us.max);
    assert!(figures.server.is_some());
    figures
}

#[test]
fn mixes_of_requests() {
    let server = start(Manner::Good);
    for depth in [1, 2, 50] {
        let figures = measure(&job("get=2,set=1,exists=1,children=1,delete=1,multi=1,ping=1,sync=1", depth), server);
        assert_eq!(figures.errors.len(), 0);
        assert_eq!(figures.by_operation.values().map(|part| part.operations).sum::<u64>(), figures.operations);
        assert!(figures.by_operation.contains_key("ping"));
    }
    assert!(measure(&job("get", 1), server).by_operation.is_empty());
}

#[test]
fn a_rate_is_not_exceeded() {
    let server = start(Manner::Good);
    let figures = measure(&Job { rate: Some(1000.0), ..job("get", 1) }, server);
    // What was due in the warm-up may be answered in the window, on a machine that stalls.
    assert!(figures.operations as f64 <= 1000.0 * (figures.seconds + 0.1), "{figures:?}");
}

#[test]
fn new_sessions() {
    measure(&job("session", 1), start(Manner::Good));
}

#[test]
fn notifications() {
    let server = start(Manner::Notifies);
    for watch_mode in [WatchMode::Once, WatchMode::Persistent] {
        let figures = measure(&Job { watch_mode, ..job("notify", 1) }, server);
        assert_eq!(figures.operations % 4, 0, "every change reaches every watcher");
    }
}

#[test]
fn two_servers_in_turn() {
    let servers = [start(Manner::Good), start(Manner::Good)];
    let compared = compare::alternate(&job("get", 10), [&servers[..1], &servers[1..]], 3, &Stop::default()).unwrap();
    assert_eq!((compared.rounds_a.len(), compared.rounds_b.len()), (3, 3));
    let throughput = &compared.comparisons[0];
    assert_eq!(throughput.figure, "per second");
    assert!((throughput.a.median / throughput.b.median - throughput.ratio).abs() < 1e-9);
}

#[test]
fn idle_sessions_and_watches_and_a_fill() {
    let (server, stop, progress) = (start(Manner::Good), Stop::default(), Progress::hidden());
    let shape = job("get", 1).shape;
    let idle = Idle {
        server,
        shape: shape.clone(),
        sessions: 5,
        watches_per_session: 3,
        gauge: Gauge::Rss,
        hold: Duration::ZERO,
    };
    let figures = idle.run(&stop, &progress).unwrap();
    assert_eq!((figures.sessions, figures.watches), (5, 15));
    assert!(figures.per_watch.is_some());
    let figures = fill::fill(server, &shape, Gauge::Rss, &stop, &progress).unwrap();
    assert_eq!(figures.nodes, 20);
}

#[test]
fn an_early_stop_still_gives_figures() {
    let (server, stop) = (start(Manner::Good), Stop::default());
    stop.set();
    job("get", 1).measure(&[server], 0, &stop, &Progress::hidden()).unwrap();
}
