//! Counting without a clock or a lock: what a summary metric is made of.

/// Some numbers, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: i64,
    /// The smallest, 0 when there are none.
    pub min: i64,
    /// The largest, 0 when there are none.
    pub max: i64,
}

impl Tally {
    /// Adds a number.
    pub fn note(&mut self, value: i64) {
        self.merge(&Self { count: 1, sum: value, min: value, max: value });
    }

    /// Adds the numbers of another tally.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let is_first = self.count == 0;
        self.min = if is_first { other.min } else { self.min.min(other.min) };
        self.max = if is_first { other.max } else { self.max.max(other.max) };
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_smallest_and_largest() {
        let mut tally = Tally::default();
        tally.merge(&Tally::default());
        assert_eq!(tally, Tally::default());
        tally.note(7);
        tally.note(3);
        assert_eq!(tally, Tally { count: 2, sum: 10, min: 3, max: 7 });
    }
}
