//! The only source of randomness in a simulation.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// A seeded generator with a fixed algorithm, so that seeds keep their meaning.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Pcg64Mcg);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, or 0 if `bound` is 0. The modulo bias does not matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(high.abs_diff(low) + 1)).unwrap_or(0)
    }

    /// True with a probability of `per_mille` in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// A number up to `high` from a long-tailed distribution: usually much smaller.
    pub(crate) fn skewed(&mut self, high: i64) -> i64 {
        let squeeze = self.below(4);
        (0..squeeze).fold(self.between(0, high), |value, _| value * self.between(0, 1000) / 1000)
    }
}
