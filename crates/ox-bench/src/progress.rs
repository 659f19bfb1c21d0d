//! The progress line on the terminal.

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval of the line of a run.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which an early end is checked.
const SLICE: Duration = Duration::from_millis(50);

/// Writes to stderr if that is a terminal, otherwise nothing.
#[derive(Debug)]
pub struct ProgressLine {
    visible: bool,
    prefix: String,
    /// Work that takes less time shows no line.
    patience: Duration,
    every: Duration,
    next: Cell<Instant>,
    is_drawn: Cell<bool>,
}

impl ProgressLine {
    /// Progress of a run; `prefix` identifies it if there are several.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..Self::with_intervals(EVERY, EVERY) }
    }

    /// The first line appears after `patience`, and is replaced after `every`.
    pub fn with_intervals(patience: Duration, every: Duration) -> Self {
        let (prefix, next, is_drawn) = (String::new(), Cell::new(Instant::now() + patience), Cell::new(false));
        Self { visible: stderr().is_terminal(), prefix, patience, every, next, is_drawn }
    }

    /// Progress that is never shown.
    pub fn hidden() -> Self {
        Self { visible: false, ..Self::new("") }
    }

    /// Shows a line, unless the previous one is too recent.
    pub fn show(&self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.visible && self.next.get() <= now {
            self.next.set(now + self.every);
            self.is_drawn.set(true);
            let _ = write!(stderr(), "\r\x1b[K{}{}", self.prefix, line());
        }
    }

    /// Removes the line before other output.
    pub fn clear(&self) {
        if self.is_drawn.take() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        self.next.set(Instant::now() + self.patience);
    }

    /// Waits for `duration` or until `ended`, showing the rate of `count`.
    pub fn wait(&self, doing: &str, duration: Duration, ended: &dyn Fn() -> bool, count: impl Fn() -> u64) {
        let start = Instant::now();
        let mut last = (start, count());
        while !ended() {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            sleep(left.min(SLICE));
            self.show(|| {
                let now = (Instant::now(), count());
                let rate = (now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64();
                last = now;
                format!(
                    "{doing} {:.0} of {:.0} s: {rate:.0} per second",
                    start.elapsed().as_secs_f64(),
                    duration.as_secs_f64()
                )
            });
        }
        self.clear();
    }
}
