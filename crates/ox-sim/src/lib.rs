//! Whole servers in one thread: virtual time, simulated network and disks, faults by plan, and checks at every step.
//!
//! A run is a function of its seed: the plan ([`Plan::of`]), every delay, every request of a client and every fault
//! come from it, and [`Outcome::trace_hash`] is the proof. The servers are the production ones: `ox-replica` and
//! `ox-store` driven through the steps of `ox-server`, cut finer than threads would be.
//!
//! ```text
//! clients <== links ==> I/O steps <--> replica steps <--> log job ──┐
//!                                           └── snapshot job ───────┴──> simulated disk
//! faults strike anywhere; checkers look after every step; ox-history judges what the clients saw
//! ```
//! Read [`Plan`] for what can vary, `engine` for how everything takes its turn, `checkers` for what must hold.

#![expect(clippy::wildcard_enum_match_arm, reason = "clients look at a few of two dozen operations at a time")]

mod checkers;
mod client;
mod rng;
mod disk;
mod engine;
mod env;
mod event;
mod faults;
mod quiesce;
mod jobs;
mod link;
mod coverage;
mod net;
mod outcome;
mod plan;
mod queue;
mod server;
mod trace;
mod world;

pub use engine::running_seed;
pub use coverage::Marks;
pub use outcome::{Failure, Kind, Outcome};
pub use plan::{MeanMs, Plan, Storm};

use engine::{SharedWorld, pump};
use ox_history::Time;
use parking_lot::Mutex;
use std::sync::Arc;
use world::World;

/// How much of a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Only the outcome.
    Outcome,
    /// Every step, on standard output.
    Everything,
}

/// Runs one seed.
pub fn run(seed: u64, plan: &Plan) -> Outcome {
    run_told(seed, plan, Told::Outcome)
}

/// Runs one seed and tells about it.
pub fn run_told(seed: u64, plan: &Plan, told: Told) -> Outcome {
    let active_us = plan.active_ms * 1000;
    engine::set_seed(seed);
    let world: SharedWorld = Arc::new(Mutex::new(World::new(seed, plan.clone(), told == Told::Everything)));
    pump(&world, Time(active_us));
    quiesce::finish(&world);
    engine::dismiss(&world);
    let world = world.lock();
    let env = &world.env;
    Outcome {
        seed,
        failure: env.failure.clone(),
        trace_hash: env.trace.hash(),
        steps: env.trace.steps(),
        virtual_us: env.now.0,
        marks: env.marks,
    }
}
