//! Deaf and mute members, while a quorum of the others is connected.

use crate::zab_cluster::ZabCluster;

/// `syncLimit` of the cluster's members.
const SYNC_MS: i64 = 1_000;

/// What elections take in addition: 200 ms of finalize wait in the round that elects the deaf leader, in the next
/// round, and until the next leader's followers dial it.
const ELECTIONS_MS: i64 = 600;

/// Which directions to and from the leader are lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The leader receives nothing.
    Deaf,
    /// Nothing that the leader sends arrives.
    Mute,
    /// The leader receives packets of one server only.
    DeafToAllButOne,
}

/// A cluster whose leader loses packets permanently, and the longest time without a write since.
fn longest_pause(seed: u64, voters: i64, loss: Loss) -> (ZabCluster, i64) {
    let mut cluster = ZabCluster::new(seed, voters, 0);
    cluster.run(3_000);
    let leader = cluster.leader().expect("nothing is wrong yet");
    let others: Vec<i64> = (1..=voters).filter(|id| *id != leader).collect();
    let lost = if matches!(loss, Loss::DeafToAllButOne) { &others[1..] } else { &others[..] };
    for other in lost {
        let (from, to) = if matches!(loss, Loss::Mute) { (leader, *other) } else { (*other, leader) };
        cluster.set_direction(from, to, false);
    }
    let (mut longest_ms, mut since_ms, mut served) = (0, cluster.now_ms(), cluster.served());
    for _ in 0..1_000 {
        cluster.run(20);
        if served < cluster.served() {
            (since_ms, served) = (cluster.now_ms(), cluster.served());
        }
        longest_ms = longest_ms.max(cluster.now_ms() - since_ms);
    }
    assert_ne!(cluster.leader(), Some(leader), "seed {seed}");
    (cluster, longest_ms)
}

fn check(voters: i64, loss: Loss) {
    for seed in 0..40 {
        let (mut cluster, longest_ms) = longest_pause(seed, voters, loss);
        let bound_ms = 2 * SYNC_MS + ELECTIONS_MS;
        assert!(longest_ms <= bound_ms, "seed {seed}: no write for {longest_ms} ms with {voters} voters, {loss:?}");
        for a in 1..=voters {
            (1..=voters).filter(|b| *b != a).for_each(|b| cluster.set_direction(a, b, true));
        }
        cluster.run(8_000);
        cluster.writes = false;
        cluster.run(2_000);
        assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
    }
}

#[test]
fn deaf_leader_is_replaced_within_two_sync_limits() {
    check(3, Loss::Deaf);
    check(5, Loss::Deaf);
}

#[test]
fn mute_leader_is_replaced_within_two_sync_limits() {
    check(3, Loss::Mute);
    check(5, Loss::Mute);
}

#[test]
fn leader_deaf_to_a_quorum_is_replaced_within_two_sync_limits() {
    check(5, Loss::DeafToAllButOne);
}
