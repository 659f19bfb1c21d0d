//! The differential test tested: two honest servers are equal, and every kind of lie is found.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fake_server;
mod faulty_proxy;

use fake_server::Fake;
use faulty_proxy::{Lie, Proxy};
use ox_diff::runner::{Duel, Pair};
use ox_diff::script::Script;
use ox_diff::shrink::shrink;
use std::time::{Duration, Instant};

/// Two sessions, watches, pipelines, failures: whatever the fake server knows.
const SCRIPT: &str = "
A connect timeout=20000
B connect
A create /a x world
A create /b y world
A getData /a watch
B getData /a watch
A setData /a 1 version=0
+ A getData /a
+ A setData /a 2 version=0
+ A getData /nope
A getChildren2 /
B setData /b 3
+ A getData /a
B closeSession
";

fn differences(lie: Lie) -> Vec<String> {
    let script = Script::parse("t", SCRIPT).unwrap();
    let (left, right) = (Fake::start(), Fake::start());
    let proxy = Proxy::start(left.address(), lie);
    let pair = Pair { ours: proxy.address().to_owned(), apache: right.address().to_owned() };
    let mut duel = Duel::new(&pair).unwrap();
    let mut found = Vec::new();
    for batch in &script.batches {
        found.extend(duel.play(batch).unwrap().difference);
        if !found.is_empty() {
            break;
        }
    }
    if found.is_empty() {
        found.extend(duel.finish().unwrap().difference);
    }
    found.into_iter().map(|difference| difference.what).collect()
}

#[test]
fn honest_servers_are_equal() {
    assert_eq!(differences(Lie::None), [""; 0]);
}

#[test]
fn every_lie_is_found() {
    for (lie, what) in [
        (Lie::Version, "ours version=2, apache version=1"),
        (Lie::Data, "ours data=\"!\", apache data=\"1\""),
        (Lie::Zxid, "zxid of the header"),
        (Lie::Error, "ours err=-102, apache err=-101"),
        (Lie::LoseEvent, "order of frames"),
        (Lie::RepeatEvent, "order of frames"),
        (Lie::LateEvent, "order of frames"),
        (Lie::Trailing, "ours behind=00, apache nothing"),
        (Lie::LoseNode, "ours names=[\"b\",\"zookeeper\"], apache names=[\"a\",\"b\",\"zookeeper\"]"),
        (Lie::CloseEarly, "only apache sent this"),
        (Lie::Timeout, "ours timeout=19999, apache timeout=20000"),
    ] {
        let found = differences(lie);
        assert_eq!(found, [what], "{lie:?}");
    }
}

#[test]
fn scripts_are_shortened() {
    let script = Script::parse("t", SCRIPT).unwrap();
    let mut running = Vec::new();
    let mut fresh = || {
        let (left, right) = (Fake::start(), Fake::start());
        let proxy = Proxy::start(left.address(), Lie::Version);
        let pair = Pair { ours: proxy.address().to_owned(), apache: right.address().to_owned() };
        running.push((left, right, proxy));
        Ok(pair)
    };
    let shortest = shrink(&script, &mut fresh, Instant::now() + Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(
        shortest.to_string(),
        "A connect timeout=20000\nB connect timeout=30000\nA create /b y world flags=0\nB setData /b 3 version=-1\n"
    );
}

#[test]
fn servers_with_data_or_out_of_step_are_refused() {
    let (left, right) = (Fake::start(), Fake::start());
    let pair = Pair { ours: left.address().to_owned(), apache: right.address().to_owned() };
    Duel::new(&pair).unwrap().ensure_empty().unwrap();
    let mut alone = Duel::alone(left.address()).unwrap();
    let script = Script::parse("t", "A connect\nA create /mine x world").unwrap();
    script.batches.iter().for_each(|batch| assert!(alone.play(batch).unwrap().difference.is_none()));
    let refusal = |result: anyhow::Result<()>| result.unwrap_err().to_string();
    assert!(refusal(Duel::new(&pair).map(|_| ())).contains("do not start in step"));
    assert!(refusal(Duel::alone(left.address()).unwrap().ensure_empty()).contains("holds"));
}
