//! Lines that strangers can provoke, without letting them fill the disk with them.

/// From now on one more line may be said in each such time.
const INTERVAL_MS: i64 = 1000;

/// Lets some lines of a kind through at once, then one now and then, and counts the others.
#[derive(Clone, Debug)]
pub(crate) struct LogLimit {
    burst: i64,
    /// When nothing is owed any more: each line said adds to it.
    next_free_ms: i64,
    suppressed: u64,
}

impl LogLimit {
    /// `at_once` is how many may come without a pause.
    pub(crate) fn new(burst: i64) -> Self {
        Self { burst, next_free_ms: 0, suppressed: 0 }
    }

    /// Counts some that are not worth to be said one by one.
    pub(crate) fn suppress(&mut self, count: u64) {
        self.suppressed += count;
    }

    /// How many were held back before this one, which may be said; `None` when it may not.
    pub(crate) fn allow(&mut self, now_ms: i64) -> Option<u64> {
        let next_free_ms = self.next_free_ms.max(now_ms) + INTERVAL_MS;
        if now_ms + self.burst * INTERVAL_MS < next_free_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_free_ms = next_free_ms;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(burst: i64, expected: &[u64]) {
        let mut limit = LogLimit::new(burst);
        let allowed: Vec<_> = (0..2500).filter_map(|now_ms| limit.allow(now_ms)).collect();
        assert_eq!(allowed, expected, "a line per millisecond, {burst} at once");
    }

    #[test]
    fn k164_strangers_do_not_fill_the_log() {
        check(1, &[0, 999, 999]);
        check(4, &[0, 0, 0, 0, 996, 999]);
    }

    #[test]
    fn after_a_while_some_may_come_at_once_again() {
        let mut limit = LogLimit::new(2);
        let mut allowed = |now_ms| (0..9).filter_map(|_| limit.allow(now_ms)).count();
        assert_eq!([allowed(0), allowed(900), allowed(1000), allowed(60_000)], [2, 0, 1, 2]);
    }
}
