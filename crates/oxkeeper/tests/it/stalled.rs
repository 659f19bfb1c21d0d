//! Links between members that a network fault has stalled.

use crate::members;
use ox_testkit::{Filters, Network};

/// The network has recovered, but TCP does not retransmit yet, and `syncLimit` is minutes away.
#[test]
fn stalled_leader_links_are_replaced_before_sync_limit() {
    let links = Network::new(3);
    let mut ensemble = members::prepare(3, 0, "syncLimit=600", &[]);
    ensemble.route(|from, to, target| {
        let mut target = members::at_localhost(target);
        if from != to {
            target.quorum = links.proxy(from, to, target.quorum, |_| Filters::default());
        }
        target
    });
    let mut ensemble = ensemble.start();
    let leader = ensemble.leader();
    links.stall();
    for follower in (0..3).filter(|at| *at != leader) {
        let process = ensemble.process_mut(follower);
        process.wait_for("link to the leader closed: it stalled");
        process.wait_for(" - broadcast");
    }
    ensemble.client().create("/served", 0);
}

/// Learners keep their links to a frozen leader: they know that the network works.
#[test]
fn learners_of_a_frozen_leader_keep_their_links() {
    let mut ensemble = members::start(3, 0, "syncLimit=600");
    let leader = ensemble.leader();
    let process = ensemble.process(leader);
    process.signal("STOP");
    // Several times the delay after which a learner checks its link.
    std::thread::sleep(std::time::Duration::from_secs(4));
    process.signal("CONT");
    ensemble.client_of((leader + 1) % 3).create("/served", 0);
    for follower in (0..3).filter(|at| *at != leader) {
        let said = ensemble.process_mut(follower).log_so_far().join("\n");
        assert!(!said.contains("link to the leader closed"), "{said}");
        assert_eq!(said.matches(" - broadcast").count(), 1, "{said}");
    }
}
