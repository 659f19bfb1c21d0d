//! Whether the server has been running.

/// A delay that may not be an accident of scheduling, and not less than a tick. Sessions live for two ticks at least,
/// so whoever speaks every third part of that is heard in time after any delay that goes unnoticed.
const PAUSE_MS_MIN: i64 = 100;

/// How often the thread's work is asked for: that costs a system call, so not at every turn of a loop.
const SAMPLE_MS: i64 = 100;

/// Notices that a loop came around much later than it meant to: the process was stopped, or starved. What the loop
/// itself takes is no pause, however long: only time in which it neither waited as it meant to nor worked counts. Whoever
/// wants its own work to count as well says that it has not worked.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    looked_ms: i64,
    pause_ms: i64,
    sampled_ms: i64,
    worked_ms: i64,
}

impl Pulse {
    /// A loop in a server with this tick begins now.
    pub fn new(tick_ms: i32, now_ms: i64) -> Self {
        let pause_ms = PAUSE_MS_MIN.max(i64::from(tick_ms));
        Self { looked_ms: now_ms, pause_ms, sampled_ms: now_ms, worked_ms: 0 }
    }

    /// The longest wait in which no pause can hide.
    pub fn rest_ms(&self) -> i64 {
        self.pause_ms / 4
    }

    /// The loop has come around, and meant to wait for `meant_ms` at most; `worked_ms` tells how much of the processor
    /// its thread has used so far. Returns by how much it is late, if that is a pause.
    pub fn beat(&mut self, now_ms: i64, meant_ms: i64, worked_ms: impl FnOnce() -> i64) -> Option<i64> {
        let late_ms = now_ms - std::mem::replace(&mut self.looked_ms, now_ms) - meant_ms;
        let late_ms_max = self.pause_ms - self.rest_ms();
        if late_ms <= late_ms_max && now_ms - self.sampled_ms < SAMPLE_MS {
            return None;
        }
        self.sampled_ms = now_ms;
        let worked_ms = worked_ms();
        let late_ms = late_ms - (worked_ms - std::mem::replace(&mut self.worked_ms, worked_ms));
        (late_ms_max < late_ms).then_some(late_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_no_pause_if_it_was_meant() {
        let mut pulse = Pulse::new(2000, 100);
        assert_eq!(pulse.beat(1_100, 1_000, || 0), None);
        assert_eq!(pulse.beat(3_600, 1_000, || 0), None);
        assert_eq!(pulse.beat(8_000, 1_000, || 0), Some(3_400));
        assert_eq!(pulse.beat(8_000, 0, || panic!("asked too often")), None);
        assert_eq!(Pulse::new(10, 0).beat(75, 0, || 0), None);
        assert_eq!(Pulse::new(10, 0).beat(76, 0, || 0), Some(76));
    }

    /// It may have begun just after the loop went to sleep.
    #[test]
    fn a_pause_does_not_hide_in_a_wait() {
        for tick_ms in [200, 2_000] {
            let mut pulse = Pulse::new(tick_ms, 0);
            assert!(pulse.beat(i64::from(tick_ms) + 1, pulse.rest_ms(), || 0).is_some());
        }
    }

    #[test]
    fn own_work_is_no_pause() {
        let mut pulse = Pulse::new(1_000, 0);
        let (mut now, mut worked, mut pauses) = (0, 0, Vec::new());
        // Long work, turn after turn; between two of them the process is stopped for six seconds.
        for turn in 0..10 {
            worked += 4_000;
            now += 4_000 + if turn == 5 { 6_000 } else { 0 };
            pauses.extend(pulse.beat(now, 0, || worked));
        }
        assert_eq!(pauses, [6_000]);
    }
}
