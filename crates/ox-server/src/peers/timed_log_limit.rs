//! Rate limit for one kind of log line that other hosts can provoke.

use crate::limits::LOG_LINES_BURST;
use crate::log_limit::LogLimit;
use std::time::Instant;

/// A [`Seldom`] on the real clock.
pub(super) struct TimedLogLimit {
    began: Instant,
    lines: LogLimit,
}

impl TimedLogLimit {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), lines: LogLimit::new(LOG_LINES_BURST) }
    }

    /// How many lines were suppressed before this one, which may be logged; `None` when it is suppressed, too.
    pub(super) fn allow(&mut self) -> Option<u64> {
        self.lines.allow(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
