//! Random numbers from a seed; the only source of randomness in a simulation.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// A seeded generator with a fixed algorithm, so that seeds keep their meaning.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn byte(&mut self) -> u8 {
        self.next_u64().to_be_bytes()[0]
    }

    /// A number below `bound`, or 0 if `bound` is 0. The modulo bias does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(high.abs_diff(low) + 1)).unwrap_or(0)
    }

    /// True with a probability of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// A number up to `high` from a long-tailed distribution: usually much smaller.
    pub fn skewed(&mut self, high: i64) -> i64 {
        let squeeze = self.below(4);
        (0..squeeze).fold(self.between(0, high), |value, _| value * self.between(0, 1000) / 1000)
    }

    /// One of `items`, in proportion to its weight.
    pub fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut roll = self.index(items.iter().map(|(weight, _)| weight).sum());
        for &(weight, item) in items {
            match roll.checked_sub(weight) {
                Some(rest) => roll = rest,
                None => return item,
            }
        }
        items[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of known failures must keep their meaning.
    #[test]
    fn sequence_of_a_seed_is_fixed() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.next_u64(), rng.next_u64()], [15_803_641_690_485_367_939, 2_537_432_388_316_380_799]);
    }

    #[test]
    fn weighted_item_without_weight_is_never_chosen() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.weighted(&[(1, 'a'), (0, 'b'), (2, 'c')]) != 'b'));
    }
}
