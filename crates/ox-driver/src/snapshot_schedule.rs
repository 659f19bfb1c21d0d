//! When snapshots are written: one at a time, with pauses.
//!
//! A snapshot is due after a number of transactions, but its cost grows with the tree. Under many writes to a large
//! tree the server would do nothing else; so each snapshot is followed by a pause of a multiple of its duration. A
//! failed snapshot is retried at growing intervals until one succeeds.

use crate::limits::{SNAPSHOT_REST, SNAPSHOT_RETRY, SNAPSHOT_RETRY_MAX};
use ox_proto::Zxid;
use std::error::Error;
use std::time::Duration;

#[derive(Debug, Default)]
pub struct SnapshotSchedule {
    /// A snapshot is due when this zxid is applied.
    due: Option<Zxid>,
    is_writing: bool,
    rests_until: Duration,
    failure: Option<Failure>,
}

/// The failure of the last attempt.
#[derive(Debug)]
struct Failure {
    /// Text of the innermost error.
    cause: String,
    pause: Duration,
}

impl SnapshotSchedule {
    /// The log reports that a snapshot is due when `zxid` is applied.
    pub fn on_due(&mut self, zxid: Zxid) {
        self.due = Some(zxid);
    }

    /// Whether a snapshot is being written.
    pub fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Whether to start a snapshot: one is due or the last one failed, and the pause is over. A server that does not
    /// serve may hold uncommitted transactions, and have to truncate them (K24).
    pub fn is_wanted(&self, now: Duration, is_serving: bool) -> bool {
        let is_idle = is_serving && !self.is_writing && self.rests_until <= now;
        is_idle && (self.due.is_some() || self.failure.is_some())
    }

    /// Whether to start a snapshot of the state now: one is wanted, and all transactions that it is due after are
    /// applied.
    pub fn take_due(&mut self, now: Duration, is_serving: bool, applied: Zxid) -> bool {
        let starts = self.is_wanted(now, is_serving) && self.due.is_none_or(|due| due <= applied);
        if starts {
            self.due = None;
        }
        starts
    }

    /// A snapshot is being written from now on.
    pub fn on_started(&mut self) {
        self.is_writing = true;
    }

    /// The snapshot is written, or could not be: the log still contains everything. Logs a failure once, however often
    /// it repeats with the same cause.
    pub fn on_finished(&mut self, now: Duration, took: Duration, failure: Option<&(dyn Error + 'static)>) {
        self.is_writing = false;
        self.rests_until = now + took.saturating_mul(SNAPSHOT_REST);
        let before = self.failure.take();
        let Some(error) = failure else { return };
        let cause = cause(error);
        if before.as_ref().is_none_or(|before| before.cause != cause) {
            tracing::error!(%error, "snapshot failed; it will be retried. No data is lost, because the log is kept");
        }
        let pause = before.map_or(SNAPSHOT_RETRY, |before| (before.pause * 2).min(SNAPSHOT_RETRY_MAX));
        self.failure = Some(Failure { cause, pause });
        self.rests_until = self.rests_until.max(now + pause);
    }
}

/// The innermost error, which has no file names.
fn cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn snapshot_starts_when_its_transactions_are_applied_and_the_server_serves() {
        let mut schedule = SnapshotSchedule::default();
        assert!(!schedule.take_due(SECOND, true, Zxid(9)), "none is due");
        schedule.on_due(Zxid(5));
        assert!(!schedule.take_due(SECOND, true, Zxid(4)) && !schedule.take_due(SECOND, false, Zxid(5)));
        assert!(schedule.take_due(SECOND, true, Zxid(5)) && !schedule.take_due(SECOND, true, Zxid(5)));
    }

    #[test]
    fn snapshots_are_written_one_at_a_time_with_pauses() {
        let mut schedule = SnapshotSchedule::default();
        schedule.on_started();
        schedule.on_due(Zxid(1));
        assert!(!schedule.take_due(SECOND, true, Zxid(1)), "one is being written");
        schedule.on_finished(2 * SECOND, SECOND, None);
        assert!(!schedule.take_due(5 * SECOND, true, Zxid(1)) && schedule.take_due(6 * SECOND, true, Zxid(1)));
    }

    #[test]
    fn failed_snapshot_is_retried_at_growing_intervals() {
        let (mut schedule, error) = (SnapshotSchedule::default(), std::io::Error::other("full"));
        let mut now = Duration::ZERO;
        for pause in [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            schedule.on_started();
            schedule.on_finished(now, Duration::ZERO, Some(&error));
            now += pause * SECOND;
            assert!(!schedule.take_due(now - SECOND, true, Zxid(1)) && schedule.take_due(now, true, Zxid(1)));
        }
        schedule.on_finished(now, Duration::ZERO, None);
        assert!(!schedule.take_due(2 * now, true, Zxid(1)), "a success ends the retries");
    }
}
