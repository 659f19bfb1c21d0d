//! Seeds with the plans that belong to them.

use crate::survives;
use clap::ValueEnum;
use ox_sim::{Coverage, FaultProfile, Plan, run};

/// Have tests of their own among those of ensembles, or occur in the storm `ways` (floods); the last two are excuses, which
/// need not be met.
const RARE: [&str; 6] = [
    "leaders that gave up because their disk hung",
    "leaders that gave up because their disk was nearly full",
    "voters of a proposed configuration that lost everything",
    "learners whose connection such a flood closed",
    "connections that were shown what was never agreed on, by a server without a leader",
    "copies of standalone servers that have to be made again",
];

#[test]
fn a_few_hundred_seeds_in_any_weather() {
    let mut coverage = Coverage::default();
    for seed in 0..150 {
        coverage.add(&survives(seed, &Plan::of(seed)).coverage);
    }
    // A simulation that never gets there proves nothing.
    for (text, count) in coverage.each() {
        assert!(0 < count || RARE.contains(&text), "never reached: {text}");
    }
}

/// More of them: `cargo xtask sim --storm NAME`.
#[test]
fn some_seeds_in_every_storm() {
    for profile in FaultProfile::value_variants() {
        for seed in 0..6 {
            let outcome = run(seed, &Plan::with_profile(seed, *profile));
            assert!(outcome.failure.is_none(), "seed {seed} in {profile:?}: {:?}", outcome.failure);
        }
    }
}

#[test]
fn calm_weather() {
    for seed in 0..20 {
        let outcome = survives(seed, &Plan::calm());
        assert!(100 < outcome.coverage.replies, "seed {seed}: {} answers", outcome.coverage.replies);
        assert_eq!(outcome.coverage.expired, 0, "seed {seed}: nobody went away");
    }
}
