//! Large histories are checked in linear time.

use crate::history_builder::{HistoryBuilder, create, get, set, watch};
use ox_history::check;
use std::time::Duration;

/// Twenty connections, a thousand nodes; reads, writes and watches alternate.
fn large(operations: usize) -> HistoryBuilder {
    let mut builder = HistoryBuilder::new();
    let conns: Vec<usize> = (0..20).map(|_| builder.connect()).collect();
    for number in 0..1000 {
        builder.write(conns[number % 20], create(&format!("/n{number}")));
    }
    let mut done = 1000;
    while done < operations {
        let (writer, watcher) = (conns[done % 20], conns[(done + 7) % 20]);
        let path = format!("/n{}", done * 7919 % 1000);
        builder.read(watcher, watch(&path));
        let zxid = builder.write(writer, set(&path, "2", -1));
        builder.event(watcher, zxid, 3, &path);
        builder.read(writer, get(&path));
        done += 3;
    }
    builder
}

/// The fastest of three checks.
#[expect(clippy::disallowed_methods, reason = "the test measures real time")]
fn check_time(builder: &HistoryBuilder) -> Duration {
    let time = |_| {
        let started = std::time::Instant::now();
        let summary = check(&builder.history).expect("a valid history");
        assert_eq!(summary.requests, summary.replies);
        started.elapsed()
    };
    (0..3).map(time).min().expect("three of them")
}

/// A history of sixteen times the size takes about sixteen times as long; with quadratic cost it would take 256 times.
#[test]
fn large_history_is_checked_in_linear_time() {
    let [small, large] = [6_000, 96_000].map(|operations| check_time(&large(operations)));
    assert!(large < small * 64, "{small:?}, then {large:?}");
}
