//! A configuration that was proposed before the servers restarted, with a voter that has no data.

use crate::zab_cluster::ZabCluster;

/// Servers 1 to 3 restart with a proposed configuration in their logs, while server 4 is up and empty.
fn restarted(seed: u64, proposed: &[i64]) -> ZabCluster {
    let mut cluster = ZabCluster::dynamic(seed, 3, 0);
    cluster.changes = false;
    cluster.add_joiner(4);
    cluster.run(3_000);
    cluster.writes = false;
    cluster.run(500);
    (1..=3).for_each(|id| cluster.kill(id));
    cluster.log_proposed(&[1, 2, 3], proposed);
    cluster.start(4);
    cluster.run(5_000);
    (1..=3).for_each(|id| cluster.start(id));
    cluster
}

#[test]
fn pending_configuration_with_empty_joiner_is_completed() {
    for seed in 0..40 {
        for proposed in [&[3, 4][..], &[2, 3, 4], &[1, 2, 3, 4]] {
            let mut cluster = restarted(seed, proposed);
            cluster.run(5_000);
            let config = cluster.config().map(|config| config.voters().map(|voter| voter.0).collect::<Vec<_>>());
            assert_eq!(config.as_deref(), Some(proposed), "seed {seed}: {:?}", cluster.states());
            cluster.writes = true;
            let before = cluster.served();
            cluster.run(1_000);
            assert!(before < cluster.served(), "seed {seed}: {:?}", cluster.states());
            cluster.writes = false;
            cluster.run(1_000);
            assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
        }
    }
}

/// Two of three voters may have committed transactions that no other server has.
#[test]
fn pending_configuration_whose_quorum_is_empty_elects_no_leader() {
    let mut cluster = ZabCluster::dynamic(1, 3, 0);
    cluster.changes = false;
    [4, 5].into_iter().for_each(|id| cluster.add_joiner(id));
    cluster.run(3_000);
    cluster.writes = false;
    cluster.run(500);
    (1..=3).for_each(|id| cluster.kill(id));
    cluster.log_proposed(&[1, 2, 3], &[3, 4, 5]);
    (1..=5).for_each(|id| cluster.start(id));
    cluster.run(20_000);
    assert_eq!(cluster.leader(), None);
}

/// Server 4 is a voter only in the proposed configuration, connects after discovery, and has accepted a higher epoch.
/// Waiting for it, or for another quorum, would take `initLimit`, which is 2 s.
#[test]
fn leader_steps_down_soon_when_voter_of_proposed_config_accepted_higher_epoch() {
    for (seed, jump) in (0..40).flat_map(|seed| [(seed, 5), (seed, 1 << 20)]) {
        let mut cluster = ZabCluster::dynamic(seed, 3, 1);
        cluster.changes = false;
        cluster.run(3_000);
        cluster.writes = false;
        cluster.run(500);
        (1..=4).for_each(|id| cluster.kill(id));
        cluster.log_proposed(&[1, 2, 3], &[3, 4]);
        cluster.accept_later_epoch(4, jump);
        (1..=3).for_each(|id| cluster.start(id));
        cluster.run(600);
        cluster.start(4);
        cluster.run(1_200);
        assert_eq!(cluster.leader().map(|_| ()), Some(()), "seed {seed}, {jump}: {:?}", cluster.states());
        cluster.run(1_000);
        let config = cluster.config().map(|config| config.voters().map(|voter| voter.0).collect::<Vec<_>>());
        assert_eq!(config, Some(vec![3, 4]), "seed {seed}, {jump}: {:?}", cluster.states());
    }
}
