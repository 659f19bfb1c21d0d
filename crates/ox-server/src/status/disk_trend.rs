//! How free disk space changes, and when it would be used up.

use std::collections::VecDeque;
use std::time::Duration;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_secs(60);
/// Samples of the last hour.
const SAMPLES_MAX: usize = 60;

/// Free space of the last hour.
#[derive(Debug, Default)]
pub(crate) struct DiskTrend {
    samples: VecDeque<(Duration, u64)>,
    last: Option<(Duration, u64)>,
}

impl DiskTrend {
    /// Notes how much space is free at a time of the monotonic clock.
    pub(crate) fn note(&mut self, now: Duration, free_bytes: u64) {
        self.last = Some((now, free_bytes));
        if self.samples.back().is_none_or(|(at, _)| INTERVAL <= now.saturating_sub(*at)) {
            self.samples.push_back((now, free_bytes));
            if SAMPLES_MAX < self.samples.len() {
                self.samples.pop_front();
            }
        }
    }

    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.last.map(|(_, free)| free)
    }

    /// Seconds until no space is free, if it decreases as in the last hour; infinite if it does not decrease.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn seconds_left(&self) -> f64 {
        let (Some((then, before)), Some((now, free))) = (self.samples.front(), self.last) else { return f64::INFINITY };
        let (used, seconds) = (before.saturating_sub(free), now.saturating_sub(*then).as_secs_f64());
        if used == 0 || seconds < INTERVAL.as_secs_f64() {
            return f64::INFINITY;
        }
        free as f64 * seconds / used as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_space_is_extrapolated_from_the_last_hour() {
        let mut trend = DiskTrend::default();
        assert_eq!((trend.free_bytes(), trend.seconds_left()), (None, f64::INFINITY));
        let minute = |minute: u64| Duration::from_secs(minute * 60);
        trend.note(minute(0), 5_000);
        assert_eq!(trend.seconds_left(), f64::INFINITY, "too little is known");
        for at in 1..=100 {
            trend.note(minute(at), 5_000 - at * 10);
        }
        assert_eq!((trend.free_bytes(), trend.seconds_left()), (Some(4_000), 4_000.0 / 10.0 * 60.0));
        trend.note(minute(101), 9_000);
        assert_eq!(trend.seconds_left(), f64::INFINITY, "space was freed");
        assert_eq!(trend.samples.len(), SAMPLES_MAX);
    }
}
