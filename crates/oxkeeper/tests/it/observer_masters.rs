//! Followers that serve observers.

use crate::members;
use ox_testkit::{RawClient, RawConnection, RawHandshake, TestEnsemble, free_port, wait_until};

const TIMEOUT_MS: i32 = 30_000;

fn master(ensemble: &TestEnsemble, observer: usize) -> Option<usize> {
    Some(ensemble.metric(observer, "observer_master_id")?.parse::<usize>().ok()? - 1)
}

#[test]
fn observer_connects_to_any_follower() {
    let settings = format!("observerMasterPort={}", free_port());
    let mut ensemble = members::start(3, 1, &settings);
    let (leader, observer) = (ensemble.leader(), 3);
    let first = master(&ensemble, observer).unwrap();
    assert_ne!(first, leader);
    ensemble.wait_for_metric(first, "synced_observers", "1");
    ensemble.wait_for_metric(leader, "synced_observers", "0");
    let mut client = RawClient::open(ensemble.addresses[observer], TIMEOUT_MS);
    assert_eq!(client.create_as("/e", 1).err, 0);
    for number in 0..100 {
        assert_eq!(client.create(&format!("/n{number}"), b"").err, 0);
    }
    // The session moves to the follower and back; the connection that has lost it cannot continue.
    let mut moved =
        RawClient::try_open(ensemble.addresses[first], &RawHandshake::resume(&client.hello)).expect("its session");
    assert_eq!(moved.exists("/e").err, 0);
    let mut back =
        RawClient::try_open(ensemble.addresses[observer], &RawHandshake::resume(&client.hello)).expect("its session");
    assert_eq!(moved.try_reply(), None);
    assert_eq!(back.set("/e", b"back").err, 0);
    ensemble.check_equal();
    // The follower ends: another one serves the observer.
    ensemble.kill(first);
    let has_another = || master(&ensemble, observer).is_some_and(|master| master != first);
    wait_until("another follower accepts the observer", has_another);
    assert_ne!(master(&ensemble, observer), Some(leader));
    ensemble.restart(first);
    let mut back =
        RawClient::try_open(ensemble.addresses[observer], &RawHandshake::resume(&client.hello)).expect("its session");
    assert_eq!(back.exists("/e").err, 0);
    back.close();
    ensemble.check_equal();
}

/// A leader that is configured not to serve clients closes their connections.
#[test]
fn leader_configured_without_clients_refuses_them() {
    let ensemble = members::start(3, 0, "leaderServes=no");
    let modes: Vec<Option<String>> = (0..3).map(|at| ensemble.mode(at)).collect();
    let leader = modes.iter().position(Option::is_none).expect("a leader");
    assert_eq!(modes.iter().flatten().collect::<Vec<_>>(), ["follower", "follower"]);
    let mut raw = RawConnection::connect(ensemble.addresses[leader]);
    assert!(raw.handshake(&RawHandshake::new(TIMEOUT_MS)).is_none());
    let mut client = RawClient::open(ensemble.addresses[(leader + 1) % 3], TIMEOUT_MS);
    assert_eq!(client.create("/n", b"").err, 0);
}
