//! Lines that strangers can provoke, without letting them fill the disk with them.

/// From now on one more line may be said in each such time.
const EVERY_MS: i64 = 1000;

/// Lets some lines of a kind through at once, then one now and then, and counts the others.
#[derive(Clone, Debug)]
pub(crate) struct Seldom {
    at_once: i64,
    /// When nothing is owed any more: each line said adds to it.
    settled_ms: i64,
    held_back: u64,
}

impl Seldom {
    /// `at_once` is how many may come without a pause.
    pub(crate) fn new(at_once: i64) -> Self {
        Self { at_once, settled_ms: 0, held_back: 0 }
    }

    /// Counts some that are not worth to be said one by one.
    pub(crate) fn hold_back(&mut self, count: u64) {
        self.held_back += count;
    }

    /// How many were held back before this one, which may be said; `None` when it may not.
    pub(crate) fn may_say(&mut self, now_ms: i64) -> Option<u64> {
        let settled_ms = self.settled_ms.max(now_ms) + EVERY_MS;
        if now_ms + self.at_once * EVERY_MS < settled_ms {
            self.held_back += 1;
            return None;
        }
        self.settled_ms = settled_ms;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at_once: i64, expected: &[u64]) {
        let mut seldom = Seldom::new(at_once);
        let said: Vec<_> = (0..2500).filter_map(|now_ms| seldom.may_say(now_ms)).collect();
        assert_eq!(said, expected, "a line per millisecond, {at_once} at once");
    }

    #[test]
    fn k164_strangers_do_not_fill_the_log() {
        check(1, &[0, 999, 999]);
        check(4, &[0, 0, 0, 0, 996, 999]);
    }

    #[test]
    fn after_a_while_some_may_come_at_once_again() {
        let mut seldom = Seldom::new(2);
        let mut said = |now_ms| (0..9).filter_map(|_| seldom.may_say(now_ms)).count();
        assert_eq!([said(0), said(900), said(1000), said(60_000)], [2, 0, 1, 2]);
    }
}
