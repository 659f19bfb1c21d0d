//! Deterministic simulation of whole servers: virtual time, simulated network and disks, injected faults, and checks
//! after every step.
//!
//! A simulation is a function of its seed: the plan ([`Plan::of`]), every delay, every client request and every fault are
//! drawn from it, and [`Outcome::trace_hash`] proves it. The servers are those of production: `ox-replica` and `ox-store`,
//! driven through the steps of `ox-server`, with more interleavings than real threads would have.
//!
//! ```text
//! clients <== links ==> I/O steps <--> replica steps <--> log job ──┐
//!                                           └── snapshot job ───────┴──> simulated disk
//! faults occur anywhere; checkers run after every step; ox-history checks what the clients saw
//! ```
//! [`Plan`] lists what can vary, `engine` contains the event loop, `checkers` the invariants.

#![expect(clippy::wildcard_enum_match_arm, reason = "clients handle a few of two dozen operations at a time")]

mod checkers;
mod client;
mod coverage;
mod disk;
mod engine;
mod env;
mod event;
mod faults;
mod jobs;
mod link;
mod net;
mod outcome;
mod plan;
mod queue;
mod quiesce;
mod server;
mod trace;
mod world;

pub use coverage::CoverageCounts;
pub use engine::running_seed;
pub use outcome::{Failure, FailureKind, Outcome};
pub use plan::{FaultProfile, MeanMs, Plan};

use engine::{SharedWorld, run_until};
use ox_history::Time;
use parking_lot::Mutex;
use std::sync::Arc;
use world::World;

/// How much a simulation prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    Quiet,
    /// Every step, on standard output.
    Trace,
}

/// Simulates one seed without printing.
pub fn run(seed: u64, plan: &Plan) -> Outcome {
    run_with(seed, plan, Verbosity::Quiet)
}

pub fn run_with(seed: u64, plan: &Plan, verbosity: Verbosity) -> Outcome {
    let active_us = plan.active_ms * 1000;
    engine::set_seed(seed);
    let world: SharedWorld = Arc::new(Mutex::new(World::new(seed, plan.clone(), verbosity == Verbosity::Trace)));
    run_until(&world, Time(active_us));
    quiesce::quiesce(&world);
    engine::shut_down(&world);
    let world = world.lock();
    let env = &world.env;
    Outcome {
        seed,
        failure: env.failure.clone(),
        trace_hash: env.trace.hash(),
        steps: env.trace.steps(),
        virtual_us: env.now.0,
        coverage: env.coverage,
    }
}
