//! Members whose disks are low (P63): another voter leads if possible, and there is always a leader.

use crate::zab_cluster::ZabCluster;

/// A cluster with an established leader.
fn settled(seed: u64, voters: i64) -> (ZabCluster, i64) {
    let mut cluster = ZabCluster::new(seed, voters, i64::try_from(seed % 2).unwrap());
    cluster.run(3_000);
    let leader = cluster.leader().unwrap_or_else(|| panic!("seed {seed}: no leader"));
    (cluster, leader)
}

/// Runs the cluster until the condition holds, at most for the given time.
fn run_until(cluster: &mut ZabCluster, ms: i64, is_so: impl Fn(&ZabCluster) -> bool) -> bool {
    for _ in 0..ms / 1_000 {
        if is_so(cluster) {
            return true;
        }
        cluster.run(1_000);
    }
    is_so(cluster)
}

fn check_progress(cluster: &mut ZabCluster, seed: u64) {
    let served = cluster.served();
    cluster.run(3_000);
    assert!(served < cluster.served(), "seed {seed}: nothing is served: {:?}", cluster.states());
}

#[test]
fn p63_leader_with_low_disk_steps_down() {
    for seed in 0..12 {
        let (mut cluster, leader) = settled(seed, if seed % 3 == 0 { 5 } else { 3 });
        cluster.set_low(leader, true);
        assert_eq!(cluster.leader(), None, "seed {seed}: it gives up at once");
        cluster.run(2_000);
        assert_ne!(cluster.leader(), Some(leader), "seed {seed}");
        check_progress(&mut cluster, seed);
        // It does not return to leadership after a restart of all servers either, while its disk is low.
        let server_ids = cluster.server_ids();
        server_ids.iter().for_each(|id| cluster.kill(*id));
        server_ids.iter().for_each(|id| cluster.start(*id));
        cluster.run(5_000);
        assert!(cluster.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
        // With free space it may lead again, which disturbs no other leader.
        let step_downs = cluster.coverage()["stepped down for low disk"];
        cluster.set_low(leader, false);
        cluster.run(5_000);
        assert_eq!(cluster.coverage()["stepped down for low disk"], step_downs);
        check_progress(&mut cluster, seed);
    }
}

#[test]
fn p63_all_disks_low_still_elect_a_leader() {
    for seed in 0..12 {
        let (mut cluster, _) = settled(seed, 3);
        cluster.server_ids().iter().for_each(|id| cluster.set_low(*id, true));
        cluster.run(10_000);
        assert!(cluster.leader().is_some(), "seed {seed}");
        // Attempts to step down that did not help become rarer.
        cluster.run(200_000);
        let step_downs = cluster.coverage()["stepped down for low disk"];
        assert!(step_downs < 12, "seed {seed}: {step_downs}");
        // A server with free space is elected in the end.
        let leader = cluster.leader().unwrap_or_else(|| panic!("seed {seed}: no leader"));
        let others = [1, 2, 3].into_iter().filter(|id| *id != leader);
        others.for_each(|id| cluster.set_low(id, false));
        let is_other = |cluster: &ZabCluster| cluster.leader().is_some_and(|other| other != leader);
        assert!(run_until(&mut cluster, 300_000, is_other), "seed {seed}");
        check_progress(&mut cluster, seed);
    }
}

/// If no quorum exists without the leader, it stays: it may be the only server with every committed transaction.
#[test]
fn p63_irreplaceable_leader_with_low_disk_stays() {
    for seed in 0..8 {
        let (mut cluster, leader) = settled(seed, 3);
        let down = [1, 2, 3].into_iter().find(|id| *id != leader).unwrap();
        cluster.kill(down);
        cluster.run(500);
        cluster.set_low(leader, true);
        cluster.run(10_000);
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}");
        cluster.start(down);
        cluster.run(5_000);
        assert!(cluster.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
    }
}

/// Disks become low and recover while servers are killed and links fail.
#[test]
fn p63_disks_low_at_random_keep_one_history() {
    let mut step_downs = 0;
    for seed in 0..24 {
        let mut cluster = ZabCluster::new(seed, if seed % 3 == 0 { 5 } else { 3 }, i64::try_from(seed % 2).unwrap());
        cluster.delay_ms = [2, 10, 60][usize::try_from(seed % 3).unwrap()];
        let server_ids = cluster.server_ids();
        let pick = |cluster: &mut ZabCluster| server_ids[cluster.rng.index(server_ids.len())];
        cluster.run(1_000);
        for _ in 0..50 {
            let (a, b) = (pick(&mut cluster), pick(&mut cluster));
            match cluster.rng.below(8) {
                0 => cluster.kill(a),
                1 | 2 => cluster.start(a),
                3 => cluster.set_link(a, b, false),
                4 => cluster.set_link(a, b, true),
                5 | 6 => cluster.set_low(a, true),
                _ => cluster.set_low(a, false),
            }
            let pause = cluster.rng.between(0, 799);
            cluster.run(pause);
        }
        // A minority of the disks stays low.
        let voters = if seed % 3 == 0 { 5 } else { 3 };
        for a in &server_ids {
            server_ids.iter().for_each(|b| cluster.set_link(*a, *b, true));
            cluster.set_low(*a, *a <= (voters - 1) / 2);
            cluster.start(*a);
        }
        let leader_has_space = |cluster: &ZabCluster| cluster.leader().is_some_and(|leader| (voters - 1) / 2 < leader);
        assert!(run_until(&mut cluster, 150_000, leader_has_space), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
        cluster.writes = false;
        cluster.run(8_000);
        assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
        step_downs += cluster.coverage().get("stepped down for low disk").copied().unwrap_or(0);
    }
    assert!(20 < step_downs, "only {step_downs}");
}
