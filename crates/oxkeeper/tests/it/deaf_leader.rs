//! A leader that sends to all members and receives from none, until the end of the test.

use crate::members;
use ox_testkit::{LinkState, Network, wait_until};
use std::time::{Duration, Instant};

/// The `syncLimit` of the members.
const SYNC: Duration = Duration::from_secs(2);

/// `initLimit` is longer than the test waits: members must not wait for a silent candidate.
#[test]
fn deaf_leader_is_replaced_while_the_fault_lasts() {
    let network = Network::new(3);
    let mut ensemble = members::start_on(members::prepare(3, 0, "initLimit=400", &[]), &network);
    let mut client = ensemble.client();
    client.create("/before", 0);
    client.close();
    let deaf = ensemble.leader();
    (0..3).filter(|other| *other != deaf).for_each(|other| network.set(other, deaf, LinkState::Silent));
    let since = Instant::now();
    let leader = ensemble.leader_but(&[deaf]);
    let mut client = ensemble.client_of(leader);
    client.create("/meanwhile", 0);
    client.close();
    let paused = since.elapsed();
    println!("no write for {} ms, {:.2} syncLimit", paused.as_millis(), paused.as_secs_f64() / SYNC.as_secs_f64());
    network.heal();
    wait_until("the member that was deaf serves", || ensemble.mode(deaf).is_some());
    let nodes = ensemble.check_equal();
    assert!(nodes.contains_key("/before") && nodes.contains_key("/meanwhile"), "{nodes:?}");
    (0..3).for_each(|at| ensemble.kill(at));
}
