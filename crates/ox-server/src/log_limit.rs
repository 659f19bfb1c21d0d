//! Rate limit for log lines that remote peers can trigger.

use std::num::NonZeroU64;

/// Interval of the lines after a burst.
const INTERVAL_MS: i64 = 1000;

/// Allows a burst of lines of one kind, then one per interval, and counts the suppressed ones.
#[derive(Clone, Debug)]
pub(crate) struct LogLimit {
    burst: i64,
    /// When the next line would be due at one line per interval; each allowed line moves it.
    next_free_ms: i64,
    suppressed: u64,
}

impl LogLimit {
    /// `burst` is the number of lines allowed without a pause.
    pub(crate) fn new(burst: i64) -> Self {
        Self { burst, next_free_ms: 0, suppressed: 0 }
    }

    /// Counts events that are not logged individually.
    pub(crate) fn suppress(&mut self, count: u64) {
        self.suppressed += count;
    }

    /// `None` if the line is suppressed, else the number of lines suppressed before it, which a log line with the
    /// field `suppressed` shows unless it is 0.
    pub(crate) fn allow(&mut self, now_ms: i64) -> Option<Option<NonZeroU64>> {
        let next_free_ms = self.next_free_ms.max(now_ms) + INTERVAL_MS;
        if now_ms + self.burst * INTERVAL_MS < next_free_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_free_ms = next_free_ms;
        Some(NonZeroU64::new(std::mem::take(&mut self.suppressed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(burst: i64, expected: &[u64]) {
        let mut limit = LogLimit::new(burst);
        let allowed = (0..2500).filter_map(|now_ms| limit.allow(now_ms));
        let allowed: Vec<_> = allowed.map(|suppressed| suppressed.map_or(0, NonZeroU64::get)).collect();
        assert_eq!(allowed, expected, "a line per millisecond, bursts of {burst}");
    }

    #[test]
    fn k164_remote_peers_do_not_fill_the_log() {
        check(1, &[0, 999, 999]);
        check(4, &[0, 0, 0, 0, 996, 999]);
    }

    #[test]
    fn burst_is_allowed_again_after_a_pause() {
        let mut limit = LogLimit::new(2);
        let mut allowed = |now_ms| (0..9).filter_map(|_| limit.allow(now_ms)).count();
        assert_eq!([allowed(0), allowed(900), allowed(1000), allowed(60_000)], [2, 0, 1, 2]);
    }
}
