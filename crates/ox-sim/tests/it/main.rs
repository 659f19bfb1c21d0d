//! Short simulations: a few hundred seeds in any weather, single faults by themselves, and seeds that failed once.

mod determinism;
mod ensembles;
mod faults;
mod random_seeds;
mod regressions;

use ox_sim::{Outcome, Plan, run};

/// Runs one seed and says how to replay it if it fails.
#[track_caller]
pub(crate) fn survives(seed: u64, plan: &Plan) -> Outcome {
    let outcome = run(seed, plan);
    if let Some(failure) = &outcome.failure {
        panic!("seed {seed}: {failure}\nreplay: cargo run -p ox-sim -- {seed}");
    }
    outcome
}
