//! A simulation is a function of its seed.

use ox_sim::{Plan, run};

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in 1_000..1_025 {
        let plan = Plan::of(seed);
        let (one, other) = (run(seed, &plan), run(seed, &plan));
        assert_eq!((one.trace_hash, one.steps), (other.trace_hash, other.steps), "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_traces() {
    let plan = Plan::calm();
    assert_ne!(run(1, &plan).trace_hash, run(2, &plan).trace_hash);
}
