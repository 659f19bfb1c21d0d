//! At most one call per interval.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Admits the first call, and each one that comes an interval or more after the last admitted one.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl RateLimiter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::new(None) }
    }

    pub(crate) fn admit(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let is_admitted = last.is_none_or(|last| self.interval <= now.saturating_duration_since(last));
        if is_admitted {
            *last = Some(now);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_per_interval_is_admitted() {
        let (limiter, start) = (RateLimiter::new(Duration::from_millis(300)), Instant::now());
        let admitted = [0, 1, 299, 300, 599, 601].map(|ms| limiter.admit(start + Duration::from_millis(ms)));
        assert_eq!(admitted, [true, false, false, true, false, true]);
    }
}
