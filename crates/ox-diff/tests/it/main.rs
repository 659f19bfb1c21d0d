//! Tests of the differential test: two correct servers compare equal, and every kind of fault is found.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod faulty_proxy;

use faulty_proxy::Fault;
use ox_diff::runner::{Runner, ServerPair};
use ox_diff::script::Script;
use ox_diff::shrink::shrink;
use ox_server::TestServer;
use ox_testkit::Proxy;
use std::time::{Duration, Instant};

/// Two sessions, watches, pipelines, failures.
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

/// A server, and the same behind a proxy that may corrupt a reply.
fn start(fault: Fault) -> (ServerPair, [TestServer; 2], Proxy) {
    let servers = [(); 2].map(|()| TestServer::start(|config| config.extended_types = true).unwrap());
    let proxy = faulty_proxy::start(servers[0].address(), fault);
    let pair = ServerPair { ours: proxy.address().to_string(), apache: servers[1].address().to_string() };
    (pair, servers, proxy)
}

fn differences(fault: Fault) -> Vec<String> {
    let script = Script::parse("t", SCRIPT).unwrap();
    let (pair, _servers, _proxy) = start(fault);
    let mut runner = Runner::new(&pair).unwrap();
    let mut found = Vec::new();
    for batch in &script.batches {
        found.extend(runner.run_batch(batch).unwrap().difference);
        if !found.is_empty() {
            break;
        }
    }
    if found.is_empty() {
        found.extend(runner.finish().unwrap().difference);
    }
    found.into_iter().map(|difference| difference.what).collect()
}

#[test]
fn correct_servers_compare_equal() {
    assert_eq!(differences(Fault::None), [""; 0]);
}

#[test]
fn every_fault_is_found() {
    for (fault, what) in [
        (Fault::Version, "ours version=2, apache version=1"),
        (Fault::Data, "ours data=\"!\", apache data=\"1\""),
        (Fault::Zxid, "zxid of the header"),
        (Fault::Error, "ours err=-102, apache err=-101"),
        (Fault::LoseEvent, "order of frames"),
        (Fault::RepeatEvent, "order of frames"),
        (Fault::LateEvent, "order of frames"),
        (Fault::Trailing, "ours trailing=00, apache nothing"),
        // The server lists the newest child first.
        (Fault::LoseNode, "ours names=[\"a\",\"zookeeper\"], apache names=[\"a\",\"b\",\"zookeeper\"]"),
        (Fault::CloseEarly, "only apache sent this"),
        (Fault::Timeout, "ours timeout=19999, apache timeout=20000"),
    ] {
        let found = differences(fault);
        assert_eq!(found, [what], "{fault:?}");
    }
}

#[test]
fn differing_script_is_shortened() {
    let script = Script::parse("t", SCRIPT).unwrap();
    let mut running = Vec::new();
    let mut fresh = || {
        let (pair, servers, proxy) = start(Fault::Version);
        running.push((servers, proxy));
        Ok(pair)
    };
    let shortest = shrink(&script, &mut fresh, Instant::now() + Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(
        shortest.to_string(),
        "A connect timeout=20000\nB connect timeout=30000\nA create /b y world flags=0\nB setData /b 3 version=-1\n"
    );
}

#[test]
fn servers_with_data_or_different_zxids_are_refused() {
    let (pair, _servers, _proxy) = start(Fault::None);
    Runner::new(&pair).unwrap().ensure_empty().unwrap();
    let mut single = Runner::single(&pair.ours).unwrap();
    let script = Script::parse("t", "A connect\nA create /mine x world").unwrap();
    script.batches.iter().for_each(|batch| assert!(single.run_batch(batch).unwrap().difference.is_none()));
    let refusal = |result: anyhow::Result<()>| result.unwrap_err().to_string();
    assert!(refusal(Runner::new(&pair).map(|_| ())).contains("start at different zxids"));
    assert!(refusal(Runner::single(&pair.ours).unwrap().ensure_empty()).contains("holds"));
}
