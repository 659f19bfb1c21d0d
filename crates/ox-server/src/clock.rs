//! The monotonic clock and the wall clock of the system.

use ox_replica::Now;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads both clocks; the monotonic one starts at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_ms: self.mono_ms(), wall_ms: wall_ms() }
    }

    /// The time since the server started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant at the given time since the server started.
    pub(crate) fn instant(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }

    /// Milliseconds since the server started.
    pub(crate) fn mono_ms(&self) -> i64 {
        i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

pub(crate) fn wall_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// CPU time of the calling thread.
pub(crate) fn thread_worked_ms() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_thread_uses_no_cpu_time() {
        let before = thread_worked_ms();
        while thread_worked_ms() < before + 20 {}
        let idle = thread_worked_ms();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread_worked_ms() < idle + 40);
    }
}
