//! Rate limit for log lines of the peers thread that remote hosts can trigger.

use crate::limits::LOG_LINES_BURST;
use crate::log_limit::LogLimit;
use std::num::NonZeroU64;
use std::time::Instant;

/// A [`LogLimit`] on the monotonic clock.
pub(super) struct TimedLogLimit {
    began: Instant,
    lines: LogLimit,
}

impl TimedLogLimit {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), lines: LogLimit::new(LOG_LINES_BURST) }
    }

    /// The same as [`LogLimit::allow`], with the time since this limit was made.
    pub(super) fn allow(&mut self) -> Option<Option<NonZeroU64>> {
        self.lines.allow(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
