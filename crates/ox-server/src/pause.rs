//! Noticing that the process did not run: it was stopped, moved, or starved.

use rustix::time::{ClockId, clock_gettime};

/// How often the processor's clock is read. It costs a system call, so not at every turn of a loop.
const SAMPLE_MS: i64 = 100;

/// Watches over a loop that waits and works. What the loop itself takes is no pause, however long: only time in which
/// it neither waited as it meant to nor used the processor counts.
#[derive(Debug)]
pub(crate) struct PauseWatch {
    looked_ms: i64,
    sampled_ms: i64,
    worked_ms: i64,
}

impl PauseWatch {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self { looked_ms: now_ms, sampled_ms: now_ms, worked_ms: 0 }
    }

    /// To be called at every turn of the loop, after it waited for `meant_ms` at most; `worked_ms` tells how much of the
    /// processor its thread has used. Returns how long it was kept from running, if that is at least `min_ms`.
    pub(crate) fn look(
        &mut self,
        now_ms: i64,
        meant_ms: i64,
        min_ms: i64,
        worked_ms: impl FnOnce() -> i64,
    ) -> Option<i64> {
        let late_ms = now_ms - std::mem::replace(&mut self.looked_ms, now_ms) - meant_ms;
        if late_ms < min_ms && now_ms - self.sampled_ms < SAMPLE_MS {
            return None;
        }
        self.sampled_ms = now_ms;
        let worked_ms = worked_ms();
        let late_ms = late_ms - (worked_ms - std::mem::replace(&mut self.worked_ms, worked_ms));
        (min_ms <= late_ms).then_some(late_ms)
    }
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
    fn own_work_is_no_pause() {
        let mut watch = PauseWatch::new(0);
        let mut worked = 0;
        let (mut now, mut pauses) = (0, Vec::new());
        // Long work, turn after turn; between two of them the process is stopped for six seconds.
        for turn in 0..10 {
            worked += 4_000;
            now += 4_000 + if turn == 5 { 6_000 } else { 0 };
            pauses.extend(watch.look(now, 0, 1_000, || worked));
        }
        assert_eq!(pauses, [6_000]);
    }

    #[test]
    fn a_stop_while_it_waits_or_works() {
        let mut watch = PauseWatch::new(0);
        assert_eq!(watch.look(1_000, 1_000, 500, || 0), None, "as it meant to");
        assert_eq!(watch.look(1_050, 0, 500, || panic!("asked too often")), None);
        assert_eq!(watch.look(4_050, 1_000, 500, || 10), Some(1_990));
        assert_eq!(watch.look(4_060, 1_000, 500, || panic!("asked too often")), None, "it was woken");
    }

    #[test]
    fn the_clock_counts_this_thread() {
        let before = thread_worked_ms();
        while thread_worked_ms() < before + 20 {}
        let idle = thread_worked_ms();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread_worked_ms() < idle + 40);
    }
}
