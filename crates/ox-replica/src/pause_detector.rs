//! Detects that the process did not run. After such a pause every session gets its full timeout again
//! ([`crate::ReplicaInput::Pause`]).

/// Shortest delay that counts as a pause, together with the tick. Sessions live for two ticks at least, so a client
/// that sends a ping in every third of its timeout is not expired after a shorter delay.
const PAUSE_MS_MIN: i64 = 100;

/// How often the CPU time of the thread is read. This is a system call, so it is not done in every iteration.
const SAMPLE_MS: i64 = 100;

/// Detects that a loop iterated much later than planned, because the process was stopped or starved. CPU time of the
/// loop itself is no pause, however long. A caller that wants to count it reports none.
#[derive(Clone, Copy, Debug)]
pub struct PauseDetector {
    looked_ms: i64,
    /// A delay beyond this is a pause.
    late_ms_max: i64,
    sampled_ms: i64,
    worked_ms: i64,
}

impl PauseDetector {
    pub fn new(tick_ms: i32, now_ms: i64) -> Self {
        let late_ms_max = pause_ms(tick_ms) - Self::rest_ms(tick_ms);
        Self { looked_ms: now_ms, late_ms_max, sampled_ms: now_ms, worked_ms: 0 }
    }

    /// The longest wait in which no pause goes undetected.
    pub fn rest_ms(tick_ms: i32) -> i64 {
        pause_ms(tick_ms) / 4
    }

    /// Called in each iteration. `meant_ms` is the longest time that the loop planned to wait, `worked_ms` returns the
    /// CPU time of its thread so far. Returns the delay if it is a pause.
    pub fn check(&mut self, now_ms: i64, meant_ms: i64, worked_ms: impl FnOnce() -> i64) -> Option<i64> {
        let late_ms = now_ms - std::mem::replace(&mut self.looked_ms, now_ms) - meant_ms;
        if late_ms <= self.late_ms_max && now_ms - self.sampled_ms < SAMPLE_MS {
            return None;
        }
        self.sampled_ms = now_ms;
        let worked_ms = worked_ms();
        let late_ms = late_ms - (worked_ms - std::mem::replace(&mut self.worked_ms, worked_ms));
        (self.late_ms_max < late_ms).then_some(late_ms)
    }
}

fn pause_ms(tick_ms: i32) -> i64 {
    PAUSE_MS_MIN.max(i64::from(tick_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_wait_is_no_pause() {
        let mut pause_detector = PauseDetector::new(2000, 100);
        assert_eq!(pause_detector.check(1_100, 1_000, || 0), None);
        assert_eq!(pause_detector.check(3_600, 1_000, || 0), None);
        assert_eq!(pause_detector.check(8_000, 1_000, || 0), Some(3_400));
        assert_eq!(pause_detector.check(8_000, 0, || panic!("asked too often")), None);
        assert_eq!(PauseDetector::new(10, 0).check(75, 0, || 0), None);
        assert_eq!(PauseDetector::new(10, 0).check(76, 0, || 0), Some(76));
    }

    /// The pause may begin right after the loop started to wait.
    #[test]
    fn pause_within_wait_is_detected() {
        for tick_ms in [200, 2_000] {
            let mut pause_detector = PauseDetector::new(tick_ms, 0);
            assert!(pause_detector.check(i64::from(tick_ms) + 1, PauseDetector::rest_ms(tick_ms), || 0).is_some());
        }
    }

    #[test]
    fn cpu_time_of_loop_is_no_pause() {
        let mut pause_detector = PauseDetector::new(1_000, 0);
        let (mut now, mut worked, mut pauses) = (0, 0, Vec::new());
        // Long work in every iteration; between two of them the process is stopped for six seconds.
        for turn in 0..10 {
            worked += 4_000;
            now += 4_000 + if turn == 5 { 6_000 } else { 0 };
            pauses.extend(pause_detector.check(now, 0, || worked));
        }
        assert_eq!(pauses, [6_000]);
    }
}
