//! Short simulations: random seeds, single kinds of faults, and seeds that failed before.

mod determinism;
mod ensembles;
mod faults;
mod random_seeds;
mod regressions;

use ox_sim::{Outcome, Plan, run};

/// Runs one seed; a failure prints the command that replays it.
#[track_caller]
pub(crate) fn survives(seed: u64, plan: &Plan) -> Outcome {
    let outcome = run(seed, plan);
    if let Some(failure) = &outcome.failure {
        panic!("seed {seed}: {failure}\nreplay: cargo run -p ox-sim -- {seed}");
    }
    outcome
}
