//! Whether the server has been running.

/// A delay that may not be an accident of scheduling, and not less than a tick. Sessions live for two ticks at least,
/// so whoever speaks every third part of that is heard in time after any delay that goes unnoticed.
const PAUSE_MS_MIN: i64 = 100;

/// Notices that a loop came around much later than it meant to: the process was stopped, or starved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    looked_ms: i64,
    pause_ms: i64,
}

impl Pulse {
    pub(crate) fn new(tick_ms: i32, now_ms: i64) -> Self {
        Self { looked_ms: now_ms, pause_ms: PAUSE_MS_MIN.max(i64::from(tick_ms)) }
    }

    /// The loop has come around, and meant to wait for `meant_ms` at most. Returns by how much it is late, if that is
    /// a pause.
    pub(crate) fn beat(&mut self, now_ms: i64, meant_ms: i64) -> Option<i64> {
        let late_ms = now_ms - std::mem::replace(&mut self.looked_ms, now_ms) - meant_ms;
        (self.pause_ms < late_ms).then_some(late_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_no_pause_if_it_was_meant() {
        let mut pulse = Pulse::new(2000, 100);
        assert_eq!(pulse.beat(1_100, 1_000), None);
        assert_eq!(pulse.beat(4_100, 1_000), None); // late by a tick
        assert_eq!(pulse.beat(8_000, 1_000), Some(2_900));
        assert_eq!(pulse.beat(8_000, 0), None);
        assert_eq!(Pulse::new(10, 0).beat(100, 0), None);
        assert_eq!(Pulse::new(10, 0).beat(101, 0), Some(101));
    }
}
