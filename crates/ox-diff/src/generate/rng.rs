//! Random numbers from a seed.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// A fixed algorithm, so that seeds survive upgrades.
#[derive(Debug)]
pub(super) struct Rng(Pcg64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// A number from 0 to `bound` - 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("usize has at most 64 bits");
        usize::try_from(self.0.next_u64() % bound).expect("below a usize")
    }

    /// True in `percent` of all cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of `items`, in proportion to its weight.
    pub(super) fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut roll = self.below(items.iter().map(|(weight, _)| weight).sum());
        for &(weight, item) in items {
            match roll.checked_sub(weight) {
                Some(rest) => roll = rest,
                None => return item,
            }
        }
        items[0].1
    }
}
