//! Waiting for a condition that no event reports.

use std::time::{Duration, Instant};

/// Longer than any start, stop or election takes; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(10);

/// Waits until a condition holds. Panics with `expectation` after [`PATIENCE`].
pub fn wait_until(expectation: &str, mut condition: impl FnMut() -> bool) {
    wait_for(|| condition().then_some(())).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {expectation}"));
}

/// Waits for a value; `None` after [`PATIENCE`].
pub fn wait_for<T>(mut value: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = value();
        if found.is_some() || until < Instant::now() {
            return found;
        }
        std::thread::sleep(POLL);
    }
}
