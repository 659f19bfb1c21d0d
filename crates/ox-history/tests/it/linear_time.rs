//! Large histories are checked in linear time.

use crate::history_builder::{Story, create, get, set, watch};
use ox_history::check;
use std::time::Duration;

/// Twenty connections, a thousand nodes, reads, writes and watches in turn.
fn large(operations: usize) -> Story {
    let mut story = Story::new();
    let conns: Vec<usize> = (0..20).map(|_| story.connect()).collect();
    for number in 0..1000 {
        story.write(conns[number % 20], create(&format!("/n{number}")));
    }
    let mut done = 1000;
    while done < operations {
        let (writer, watcher) = (conns[done % 20], conns[(done + 7) % 20]);
        let path = format!("/n{}", done * 7919 % 1000);
        story.read(watcher, watch(&path));
        let zxid = story.write(writer, set(&path, "2", -1));
        story.event(watcher, zxid, 3, &path);
        story.read(writer, get(&path));
        done += 3;
    }
    story
}

/// The quickest of three checks.
#[expect(clippy::disallowed_methods, reason = "the real time it takes is what is tested")]
fn check_time(story: &Story) -> Duration {
    let time = |_| {
        let started = std::time::Instant::now();
        let summary = check(&story.history).expect("a good history");
        assert_eq!(summary.requests, summary.answers);
        started.elapsed()
    };
    (0..3).map(time).min().expect("three of them")
}

/// Sixteen times the history takes about sixteen times as long; with a square in it that would be 256 times.
#[test]
fn a_hundred_thousand_operations() {
    let [small, large] = [6_000, 96_000].map(|operations| check_time(&large(operations)));
    assert!(large < small * 64, "{small:?}, then {large:?}");
}
