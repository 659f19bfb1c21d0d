//! The progress line on the terminal.

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Update interval of the line.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which an early end is checked.
const SLICE: Duration = Duration::from_millis(50);

/// Writes to stderr if that is a terminal, otherwise nothing.
#[derive(Debug)]
pub struct ProgressLine {
    visible: bool,
    prefix: String,
    next: Cell<Instant>,
}

impl ProgressLine {
    /// Progress of a run; `prefix` identifies it if there are several.
    pub fn new(prefix: &str) -> Self {
        Self { visible: stderr().is_terminal(), prefix: prefix.into(), next: Cell::new(Instant::now() + EVERY) }
    }

    /// Progress that is never shown.
    pub fn hidden() -> Self {
        Self { visible: false, ..Self::new("") }
    }

    /// Shows a line, at most once a second.
    pub fn show(&self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.visible && self.next.get() <= now {
            self.next.set(now + EVERY);
            let _ = write!(stderr(), "\r\x1b[K{}{}", self.prefix, line());
        }
    }

    pub fn clear(&self) {
        if self.visible {
            let _ = write!(stderr(), "\r\x1b[K");
        }
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
