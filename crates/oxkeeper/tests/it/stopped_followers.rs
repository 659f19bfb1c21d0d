//! Followers that are stopped for less than `syncLimit` under a heavy load: no election runs, and every write gets a
//! reply.

use crate::members;
use ox_testkit::{RawClient, RawPacket, TestEnsemble};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 110;
const SETS_EACH: usize = 3;
const DATA_BYTES: usize = 1_000_000;
/// `syncLimit` is five ticks.
const TICK_MS: u64 = 6_000;

fn epoch(ensemble: &TestEnsemble, at: usize) -> String {
    let file = Path::new(&ensemble.directory(at)).join("data/version-2/currentEpoch");
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Stops all running followers until the leader has proposed everything that clients have sent, or for half of
/// `syncLimit` if it admits fewer requests.
fn check(killed: usize) {
    let settings = format!("tickTime={TICK_MS}\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n");
    let mut ensemble = members::start(3, 0, &settings);
    let leader = ensemble.leader();
    let followers: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let (down, stopped) = followers.split_at(killed);
    down.iter().for_each(|at| ensemble.kill(*at));
    let before = epoch(&ensemble, leader);
    let address = ensemble.addresses[leader];
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| RawClient::open(address, 120_000)).collect();
    clients.iter_mut().enumerate().for_each(|(number, client)| {
        client.create(&format!("/n{number}"), b"");
    });
    let signal = |name: &str| stopped.iter().for_each(|at| ensemble.process(*at).signal(name));
    signal("STOP");
    let (data, answered) = (vec![7; DATA_BYTES], AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let (data, answered) = (&data, &answered);
            scope.spawn(move || {
                let path = format!("/n{number}");
                let sets = (0..SETS_EACH).map(|set| i32::try_from(set).unwrap() + 100);
                sets.clone().for_each(|xid| client.send(&RawPacket::default().set(xid, &path, data)));
                for xid in sets {
                    let reply = client.try_reply().expect("the server keeps the connection");
                    assert_eq!((reply.xid, reply.err), (xid, 0));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let proposed = || ensemble.metric(leader, "proposal_count").and_then(|count| count.parse::<usize>().ok());
        let (goal, until) =
            (2 * CLIENTS + SETS_EACH * CLIENTS, Instant::now() + Duration::from_millis(TICK_MS * 5 / 2));
        while Instant::now() < until && proposed().is_none_or(|count| count < goal) {
            std::thread::yield_now();
        }
        assert_eq!(answered.load(Ordering::Relaxed), 0, "nothing is committed without a follower");
        signal("CONT");
    });
    assert_eq!(answered.load(Ordering::Relaxed), CLIENTS * SETS_EACH);
    assert_eq!((ensemble.leader_but(down), epoch(&ensemble, leader)), (leader, before), "no election");
}

#[test]
fn stopped_follower_of_two_members_causes_no_election() {
    check(1);
}

#[test]
fn stopped_followers_of_three_members_cause_no_election() {
    check(0);
}
