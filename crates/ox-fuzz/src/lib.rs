//! Fuzzing without a special toolchain: applies random mutations to valid inputs and feeds them to all code that
//! decodes untrusted bytes.
//!
//! A target is a corpus and a function that must not panic, hang or violate its assertions for any input. Inputs are
//! derived from a seed, so that a failure can be replayed: it is printed as `target seed iteration`.

mod mutate;
mod targets;

pub use targets::{FuzzTarget, TARGETS};

use mutate::mutate;
use ox_testkit::Rng;
use std::time::{Duration, Instant};

/// When a run of inputs stops.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a number of inputs.
    Inputs(u64),
    /// After an amount of time.
    Elapsed(Duration),
}

/// Feeds inputs to a target and returns their number. A panic of the target is a finding.
pub fn run(target: &FuzzTarget, seed: u64, until: Until) -> u64 {
    let corpus = (target.corpus)();
    assert!(!corpus.is_empty(), "{} has a corpus", target.name);
    let started = Instant::now();
    let mut count = 0;
    loop {
        let done = match until {
            Until::Inputs(inputs) => inputs <= count,
            Until::Elapsed(time) => time <= started.elapsed(),
        };
        if done {
            return count;
        }
        run_input(target, &corpus, seed, count);
        count += 1;
    }
}

pub fn replay(target: &FuzzTarget, seed: u64, iteration: u64) {
    run_input(target, &(target.corpus)(), seed, iteration);
}

fn run_input(target: &FuzzTarget, corpus: &[Vec<u8>], seed: u64, iteration: u64) {
    let mut random = Rng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ iteration);
    let input = mutate(corpus, &mut random);
    let bomb = ReplayHint(target.name, seed, iteration);
    (target.run)(&input);
    std::mem::forget(bomb);
}

/// Prints how to replay the current input if the target panics.
struct ReplayHint(&'static str, u64, u64);

impl Drop for ReplayHint {
    fn drop(&mut self) {
        let Self(target, seed, iteration) = self;
        eprintln!("replay: cargo run -p ox-fuzz -- {target} --seed {seed} --only {iteration}");
    }
}
