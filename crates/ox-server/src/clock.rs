//! The clocks of the real world.

use ox_replica::Now;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads both clocks.
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

    /// Milliseconds since the server started.
    pub(crate) fn mono_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

pub(crate) fn wall_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// Processor time that the calling thread has used.
pub(crate) fn thread_worked_ms() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_this_thread_is_counted() {
        let before = thread_worked_ms();
        while thread_worked_ms() < before + 20 {}
        let idle = thread_worked_ms();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread_worked_ms() < idle + 40);
    }
}
