//! Rate limit for one kind of log line that other hosts can provoke.

use crate::limits::PROVOKED_LINES_AT_ONCE;
use crate::log_limit::Seldom;
use std::time::Instant;

/// A [`Seldom`] on the real clock.
pub(super) struct LineLimit {
    began: Instant,
    lines: Seldom,
}

impl LineLimit {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), lines: Seldom::new(PROVOKED_LINES_AT_ONCE) }
    }

    /// How many lines were suppressed before this one, which may be logged; `None` when it is suppressed, too.
    pub(super) fn may_log(&mut self) -> Option<u64> {
        self.lines.may_say(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
