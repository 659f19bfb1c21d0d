//! Seeds with their default plans, and with each fault profile.

use crate::survives;
use clap::ValueEnum;
use ox_sim::{CoverageCounts, FaultProfile, Plan, run};

/// Situations that these seeds need not reach: unit tests of `ox-driver` and `ox-replica` cover the first three, tests of
/// ensembles or the profiles `read-only` and `ways` the next seven, and the last two only excuse a server.
const RARE: [&str; 12] = [
    "connections closed because their request had waited for too long",
    "large requests that waited for memory while they were received",
    "connections closed because they were slow while memory was short",
    "large requests refused because of the limit on all of them",
    "read-only sessions",
    "requests refused in read-only mode",
    "leaders that stepped down because their disk hung",
    "leaders that stepped down because their disk was low",
    "voters of a proposed configuration that lost their disk",
    "learners whose connection a flood closed",
    "read-only connections that read uncommitted transactions",
    "copies of standalone servers that were refused",
];

/// Seeds that always run, and the most that may be needed to reach all situations.
const SEEDS_MIN: u64 = 150;
const SEEDS_MAX: u64 = 600;

#[test]
fn default_plans_pass_and_reach_all_situations() {
    let mut coverage = CoverageCounts::default();
    let unreached = |coverage: &CoverageCounts| -> Vec<_> {
        let unreached = coverage.each().into_iter().filter(|(text, count)| *count == 0 && !RARE.contains(text));
        unreached.map(|(text, _)| text).collect()
    };
    for seed in 0..SEEDS_MAX {
        coverage.add(&survives(seed, &Plan::of(seed)).coverage);
        if SEEDS_MIN <= seed && unreached(&coverage).is_empty() {
            return;
        }
    }
    panic!("never reached: {:?}", unreached(&coverage));
}

/// `cargo xtask sim --storm NAME` runs more seeds.
#[test]
fn fault_profiles_pass() {
    for profile in FaultProfile::value_variants() {
        for seed in 0..6 {
            let outcome = run(seed, &Plan::with_profile(seed, *profile));
            assert!(outcome.failure.is_none(), "seed {seed} in {profile:?}: {:?}", outcome.failure);
        }
    }
}

#[test]
fn plans_without_faults_pass() {
    for seed in 0..20 {
        let outcome = survives(seed, &Plan::calm());
        assert!(100 < outcome.coverage.replies, "seed {seed}: {} replies", outcome.coverage.replies);
        assert_eq!(outcome.coverage.expired, 0, "seed {seed}: no session expires");
    }
}
