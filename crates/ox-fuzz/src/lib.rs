//! Fuzzing without a special toolchain: good inputs, bent at random, thrown at everything that reads foreign bytes.
//!
//! A target is a corpus and a function that must not panic, hang or break its own promise, whatever it is given.
//! Inputs come from a seed, so that a failure replays: it is printed as `target seed iteration`.

mod mutate;
mod targets;

pub use targets::{TARGETS, Target};

use mutate::mutate;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::time::{Duration, Instant};

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So many inputs.
    Inputs(u64),
    /// So much time.
    Elapsed(Duration),
}

/// Throws inputs at a target and returns how many. A panic of the target is the finding.
pub fn run(target: &Target, seed: u64, until: Until) -> u64 {
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
        one(target, &corpus, seed, count);
        count += 1;
    }
}

/// Replays one input.
pub fn replay(target: &Target, seed: u64, iteration: u64) {
    one(target, &(target.corpus)(), seed, iteration);
}

fn one(target: &Target, corpus: &[Vec<u8>], seed: u64, iteration: u64) {
    let mut random = Pcg64::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ iteration);
    let input = mutate(corpus, &mut random);
    let bomb = Bomb(target.name, seed, iteration);
    (target.run)(&input);
    std::mem::forget(bomb);
}

/// Says how to replay the input that was being tried when the target panicked.
struct Bomb(&'static str, u64, u64);

impl Drop for Bomb {
    fn drop(&mut self) {
        let Self(target, seed, iteration) = self;
        eprintln!("replay: cargo run -p ox-fuzz -- {target} --seed {seed} --only {iteration}");
    }
}
