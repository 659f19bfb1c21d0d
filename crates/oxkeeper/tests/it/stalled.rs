//! Links between members that a network fault has stalled.

use crate::members::Ensemble;
use ox_testkit::Network;
use std::cell::Cell;

/// The network has recovered, but TCP does not retransmit yet, and `syncLimit` is minutes away.
#[test]
fn stalled_leader_links_are_replaced_before_sync_limit() {
    let home = tempfile::tempdir().unwrap();
    let (links, calls) = (Network::new(3), Cell::new(0));
    // For each server the quorum port is requested first, then the election port.
    let way = |from, to, port| {
        let is_quorum_port = calls.replace(calls.get() + 1) % 2 == 0;
        if is_quorum_port { links.proxy_port(from, to, port) } else { port }
    };
    let mut ensemble = Ensemble::start_on(home.path(), (3, 0), "syncLimit=600", &[], way);
    let leader = ensemble.leader_but(&[]);
    links.stall();
    for follower in (0..3).filter(|at| *at != leader) {
        let process = ensemble.processes[follower].as_mut().unwrap();
        process.wait_for("link to the leader closed: it stalled");
        process.wait_for(" - broadcast");
    }
    ensemble.client().create("/served", 0);
}

/// Learners keep their links to a frozen leader: they know that the network works.
#[test]
fn learners_of_a_frozen_leader_keep_their_links() {
    let home = tempfile::tempdir().unwrap();
    let mut ensemble = Ensemble::start(home.path(), 3, 0, "syncLimit=600");
    let leader = ensemble.leader_but(&[]);
    let process = ensemble.processes[leader].as_ref().unwrap();
    process.signal("STOP");
    // Several times the delay after which a learner checks its link.
    std::thread::sleep(std::time::Duration::from_secs(4));
    process.signal("CONT");
    ensemble.client_of((leader + 1) % 3).create("/served", 0);
    for follower in (0..3).filter(|at| *at != leader) {
        let said = ensemble.processes[follower].as_mut().unwrap().log_so_far().join("\n");
        assert!(!said.contains("link to the leader closed"), "{said}");
        assert_eq!(said.matches(" - broadcast").count(), 1, "{said}");
    }
}
