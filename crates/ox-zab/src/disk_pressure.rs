//! Disk pressure: when a leader steps down.
//!
//! A leader whose disk is low refuses writes, so it steps down while a quorum can continue without it. It cannot know
//! whether the disks of the others are low too. If all are, a leader that refuses writes is better than none, so the
//! time between two attempts doubles.

/// The longest time between two attempts, in units of the first.
const PAUSE_MAX: i64 = 64;

/// Whether the disk is low, and the attempts to step down for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskPressure {
    is_low: bool,
    /// When the leader last stepped down, and how long it does not do so again.
    stepped_down: Option<(i64, i64)>,
}

impl DiskPressure {
    /// Records a measurement of free space.
    pub(crate) fn set_low(&mut self, is_low: bool) {
        self.is_low = is_low;
        if !is_low {
            self.stepped_down = None;
        }
    }

    pub(crate) fn is_low(&self) -> bool {
        self.is_low
    }

    /// Whether a leader that can be replaced steps down now.
    pub(crate) fn should_step_down(&mut self, now_ms: i64, pause_ms: i64) -> bool {
        let is_due = self.stepped_down.is_none_or(|(at_ms, wait_ms)| wait_ms <= now_ms - at_ms);
        if !self.is_low || !is_due {
            return false;
        }
        let wait_ms = self.stepped_down.map_or(pause_ms, |(_, wait_ms)| wait_ms * 2);
        self.stepped_down = Some((now_ms, wait_ms.min(pause_ms * PAUSE_MAX)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_attempts_doubles() {
        let mut pressure = DiskPressure::default();
        assert!(!pressure.should_step_down(0, 10), "there is pressure");
        pressure.set_low(true);
        let mut steps =
            |range: std::ops::Range<i64>| range.filter(|now_ms| pressure.should_step_down(*now_ms, 10)).collect();
        let at: Vec<i64> = steps(5..100);
        assert_eq!(at, [5, 15, 35, 75]);
        let at: Vec<i64> = steps(100..3_000);
        assert_eq!(at, [155, 315, 635, 1_275, 1_915, 2_555]);
        pressure.set_low(false);
        assert!(!pressure.should_step_down(4_000, 10));
        pressure.set_low(true);
        assert!(pressure.should_step_down(4_000, 10), "the interval starts again after relief");
    }
}
