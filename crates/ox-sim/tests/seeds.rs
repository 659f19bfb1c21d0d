//! A short run of the simulator: every seed twice, because a run must be a function of its seed.

use ox_sim::{Plan, run};

#[test]
fn seeds_end_well_and_the_same_way_twice() {
    for seed in 0..200 {
        let plan = Plan::of(seed);
        let outcome = run(seed, &plan);
        assert!(outcome.failure.is_none(), "seed {seed}: {:?}\nreplay: cargo run -p ox-sim -- {seed}", outcome.failure);
        assert_eq!(outcome.trace_hash, run(seed, &plan).trace_hash, "seed {seed} is not a function of itself");
    }
}
