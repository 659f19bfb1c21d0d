//! Random faults: no server ever serves another history, and in the end all servers serve the same one.

use crate::zab_cluster::ZabCluster;
use ox_zab::PeerState;

fn run_with_faults(seed: u64, verbose: bool) -> ZabCluster {
    let voters = if seed.is_multiple_of(3) { 5 } else { 3 };
    inject_faults(ZabCluster::new(seed, voters, i64::try_from(seed % 2).unwrap()), seed, verbose)
}

/// The same with random reconfigurations, which may also remove the leader.
fn run_with_reconfigs(seed: u64, verbose: bool) -> ZabCluster {
    let voters = [3, 1, 4][usize::try_from(seed % 3).unwrap()];
    inject_faults(ZabCluster::dynamic(seed, voters, 5 - voters), seed, verbose)
}

fn inject_faults(mut cluster: ZabCluster, seed: u64, verbose: bool) -> ZabCluster {
    if verbose {
        cluster.print();
    }
    cluster.delay_ms = [2, 10, 60][cluster.rng.index(3)];
    cluster.disk_ms = [2, 10, 100][cluster.rng.index(3)];
    cluster.windows = [(1 << 20, 1 << 20), (300, 500), (1_000, 100)][usize::try_from(seed % 3).unwrap()];
    let server_ids = cluster.server_ids();
    let pick = |cluster: &mut ZabCluster| server_ids[cluster.rng.index(server_ids.len())];
    let forgeries = if seed % 4 < 2 { 0 } else { 4 };
    if 0 < forgeries {
        cluster.run(1_000); // empty members believe any server that reports a history
    }
    for _ in 0..60 {
        let (a, b) = (pick(&mut cluster), pick(&mut cluster));
        match cluster.rng.below(8 + forgeries) {
            0 => cluster.kill(a),
            1 if cluster.up().len() < server_ids.len() => cluster.start(a),
            2 | 3 => cluster.start(a),
            4 => cluster.set_link(a, b, false),
            5 => server_ids.iter().for_each(|id| cluster.set_link(a, *id, false)),
            8.. => cluster.forge_votes(a),
            _ => cluster.set_link(a, b, true),
        }
        let pause = cluster.rng.between(0, 599);
        cluster.run(pause);
    }
    for a in &server_ids {
        server_ids.iter().for_each(|b| cluster.set_link(*a, *b, true));
        if cluster.is_dynamic && 0 < forgeries {
            // A server that is a voter only for some others would repeat a forged vote forever.
            cluster.kill(*a);
        }
        cluster.start(*a);
    }
    cluster.run(15_000);
    cluster.changes = false;
    cluster.run(5_000);
    cluster.writes = false;
    cluster.run(8_000); // the slowest disk needs most of it
    cluster
}

/// Prints everything about one seed: `SEED=7 cargo test -p ox-zab --test it -- --nocapture one_seed`.
#[test]
fn one_seed() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        assert!(run_with_faults(seed, true).is_converged());
    }
    if let Some(seed) = std::env::var("CHANGES").ok().and_then(|seed| seed.parse().ok()) {
        let cluster = run_with_reconfigs(seed, true);
        assert!(cluster.is_converged() && cluster.config().is_some());
    }
}

#[test]
fn random_faults_keep_one_served_history() {
    let mut coverage = std::collections::BTreeMap::new();
    for seed in 0..400 {
        let cluster = run_with_faults(seed, false);
        assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
        assert!(0 < cluster.served(), "seed {seed}");
        for (point, count) in cluster.coverage() {
            *coverage.entry(*point).or_insert(0) += count;
        }
    }
    println!("{coverage:?}");
    for point in ["established", "joined", "snapshots", "log diffs", "truncations", "observer masters"] {
        assert!(coverage.contains_key(point), "never happened: {point}");
    }
}

/// Through all reconfigurations one history is served, a version identifies one configuration, and in the end all
/// servers have the same one (K102, P20).
#[test]
fn k102_reconfigs_keep_one_served_history() {
    let mut coverage = std::collections::BTreeMap::new();
    let last = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    for seed in 0..last {
        let cluster = run_with_reconfigs(seed, false);
        assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
        assert!(cluster.config().is_some(), "seed {seed}: configurations differ");
        for (point, count) in cluster.coverage() {
            *coverage.entry(*point).or_insert(0) += count;
        }
    }
    println!("{coverage:?}");
    for point in ["numbered", "changed", "handed over", "truncations", "snapshots"] {
        assert!(coverage.contains_key(point), "never happened: {point}");
    }
}

/// A server that has lost its disk does not help to elect a leader that lacks committed transactions (P61).
#[test]
fn wiped_server_does_not_vote() {
    for seed in 0..50 {
        let mut cluster = ZabCluster::new(seed, 3, 0);
        cluster.run(2_000);
        cluster.kill(1); // misses the following transactions
        cluster.run(1_000);
        let served = cluster.served();
        assert!(0 < served, "seed {seed}");
        cluster.kill(2);
        cluster.kill(3);
        cluster.wipe(2);
        cluster.start(1);
        cluster.start(2);
        cluster.run(5_000);
        assert_eq!(cluster.served(), served, "seed {seed}: served without what server 3 has");
        cluster.start(3);
        cluster.run(10_000);
        cluster.writes = false;
        cluster.run(2_000);
        assert!(served < cluster.served() && cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
    }
}

/// With one server that reaches both parts of a partitioned ensemble there is one leader, which stays (P69).
#[test]
fn k101_bridged_partition_keeps_its_leader() {
    for seed in 0..8 {
        let mut cluster = ZabCluster::new(seed, 5, 0);
        cluster.run(1_500);
        for (a, b) in [(1, 4), (1, 5), (2, 4), (2, 5)] {
            cluster.set_link(a, b, false);
        }
        cluster.run(6_000);
        let (established, served) = (cluster.coverage()["established"], cluster.served());
        cluster.run(10_000);
        assert!(served < cluster.served(), "seed {seed}: nothing is served");
        assert!(cluster.coverage()["established"] <= established + 1, "seed {seed}: {:?}", cluster.coverage());
    }
}

/// With any single link broken, a leader is elected and stays.
#[test]
fn k079_elections_end_with_any_link_broken() {
    for voters in [3, 5, 7] {
        for (seed, (a, b)) in (1..=voters).flat_map(|a| (a + 1..=voters).map(move |b| (a, b))).enumerate() {
            let mut cluster = ZabCluster::new(seed as u64, voters, 0);
            cluster.set_link(a, b, false);
            cluster.run(4_000);
            let (leader, established) = (cluster.leader(), cluster.coverage().get("established").copied());
            assert!(leader.is_some(), "{voters} voters without {a}-{b}: {:?}", cluster.states());
            cluster.run(10_000);
            assert_eq!(cluster.coverage().get("established").copied(), established, "{voters} voters without {a}-{b}");
        }
    }
}

/// `initLimit` of the cluster's members is 2 s.
#[test]
fn restarted_server_elected_by_old_votes_joins_the_leader_soon() {
    for seed in 0..40 {
        let mut cluster = ZabCluster::new(seed, 3, 0);
        cluster.run(3_000);
        let leader = cluster.leader().expect("nothing is wrong yet");
        let other = if leader == 1 { 2 } else { 1 };
        cluster.kill(other);
        cluster.run(200);
        cluster.start(other);
        // The replies of the others to its first vote are lost.
        let others: Vec<i64> = (1..=3).filter(|id| *id != other).collect();
        others.iter().for_each(|from| cluster.set_direction(*from, other, false));
        cluster.forge_votes(other);
        cluster.run(500);
        assert!(cluster.states().contains(&(other, Some(PeerState::Leading))), "seed {seed}: {:?}", cluster.states());
        others.iter().for_each(|from| cluster.set_direction(*from, other, true));
        cluster.run(500);
        let states = cluster.states();
        assert!(states.contains(&(other, Some(PeerState::Following))), "seed {seed}: {states:?}");
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}");
    }
}
