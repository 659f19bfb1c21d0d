//! Processes that are killed during their work, or stopped for a while.

use crate::process::{Site, TIMEOUT_MS};
use ox_testkit::{RawClient, RawHandshake, RawPacket};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Creates nodes below `/n`, many at a time, until the server has ended. Returns the acknowledged paths and the last
/// zxid.
fn create_until_the_end(
    address: SocketAddr,
    name: String,
    acknowledged: Arc<AtomicUsize>,
) -> JoinHandle<(Vec<String>, i64)> {
    std::thread::spawn(move || {
        let mut client = RawClient::open(address, TIMEOUT_MS);
        let (mut paths, mut zxid) = (Vec::new(), 0);
        for first in (0..).step_by(50) {
            let packet = (first..first + 50)
                .fold(RawPacket::default(), |packet, xid| packet.create(xid, &format!("/n/{name}-{xid}"), b"data", 0));
            client.raw.try_send(&packet.0);
            for _ in 0..50 {
                let Some(reply) = client.try_reply() else { return (paths, zxid) };
                zxid = reply.zxid;
                paths.push(reply.path());
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
        (paths, zxid)
    })
}

/// Lets clients write, ends the server by `end` meanwhile, and restarts it.
fn check_rounds(rounds: usize, end: impl Fn(crate::process::Running)) {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::new(directory.path(), "snapCount=500\n"); // snapshots and new logs in every round
    let mut running = site.start();
    running.client().create("/n", b"");
    let mut all = BTreeSet::new();
    for round in 0..rounds {
        let count = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..3)
            .map(|worker| create_until_the_end(running.address, format!("{round}-{worker}"), Arc::clone(&count)))
            .collect();
        while count.load(Ordering::Relaxed) < 1500 + 300 * round {
            std::thread::yield_now();
        }
        end(running);
        let mut last_zxid = 0;
        for worker in workers {
            let (paths, zxid) = worker.join().unwrap();
            last_zxid = last_zxid.max(zxid);
            all.extend(paths);
        }
        running = site.start();
        let mut client = running.client();
        assert!(last_zxid < client.ping().zxid, "the history goes on where it was");
        let there: BTreeSet<String> = client.children("/n").into_iter().map(|name| format!("/n/{name}")).collect();
        assert!(all.is_subset(&there), "round {round}: {:?} are missing", all.difference(&there).collect::<Vec<_>>());
    }
    running.stop();
}

#[test]
fn k60_acknowledged_writes_survive_kill_9() {
    check_rounds(4, |running| running.process.kill());
}

#[test]
fn k51_sigterm_under_load_stops_cleanly() {
    check_rounds(2, |running| _ = running.stop());
}

#[test]
fn sigint_stops_cleanly() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    running.client().create("/a", b"");
    running.process.signal("INT");
    let ended = running.process.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert!(ended.said.contains("Exiting normally"));
}

#[test]
fn k112_sessions_and_ephemeral_nodes_survive_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::new(directory.path(), "");
    let running = site.start();
    let mut clients: Vec<_> = (0..20).map(|_| running.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.create_as(&format!("/e{number}"), 1);
    }
    clients.pop().unwrap().close();
    running.process.kill();
    let running = site.start();
    for (number, client) in clients.iter().enumerate() {
        let hello = RawHandshake::resume(&client.hello);
        let mut again = RawClient::try_open(running.address, &hello).expect("the session lives");
        assert_eq!(again.exists(&format!("/e{number}")).stat().ephemeral_owner, client.session().0);
    }
    assert_eq!(running.client().exists("/e19").err, -101);
}

/// A server that was stopped for longer than the session timeouts neither expires sessions nor closes connections.
#[test]
fn k116_stopped_server_expires_no_session() {
    let directory = tempfile::tempdir().unwrap();
    let settings = "minSessionTimeout=1000\ntickTime=200\nnio.sessionlessCnxnTimeout=500\n";
    let running = Site::new(directory.path(), settings).start();
    let mut client = RawClient::open(running.address, 1000);
    client.create_as("/e", 1);
    for _ in 0..2 {
        running.process.signal("STOP");
        std::thread::sleep(Duration::from_millis(2500)); // time passes for the stopped server
        running.process.signal("CONT");
        assert_eq!(client.ping().err, 0);
        assert_eq!(client.exists("/e").err, 0);
    }
    assert_eq!(client.set("/e", b"x").err, 0);
}
