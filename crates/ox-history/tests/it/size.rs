//! Large histories are checked in linear time.

use crate::story::{Story, create, get, set, watch};
use ox_history::check;

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

#[test]
#[expect(clippy::disallowed_methods, reason = "the real time it takes is what is tested")]
fn a_hundred_thousand_operations() {
    let story = large(if cfg!(debug_assertions) { 20_000 } else { 100_000 });
    let started = std::time::Instant::now();
    let summary = check(&story.history).unwrap();
    let took = started.elapsed();
    assert!(took.as_secs() < 10, "{took:?}");
    println!("{} requests checked in {took:?}", summary.requests);
    assert!(20_000 <= summary.requests, "{}", summary.requests);
    assert_eq!(summary.requests, summary.answers);
}
