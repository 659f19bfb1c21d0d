//! Latencies by operation, for Prometheus's page.
//!
//! I/O threads count in plain fields and add here once per iteration, as for all statistics.

use ox_proto::OpCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of the buckets, as text in seconds and in milliseconds. Values are whole milliseconds, rounded down.
pub(crate) const BOUNDS: [(&str, i64); 14] = [
    ("0.001", 1),
    ("0.002", 2),
    ("0.005", 5),
    ("0.01", 10),
    ("0.025", 25),
    ("0.05", 50),
    ("0.1", 100),
    ("0.25", 250),
    ("0.5", 500),
    ("1.0", 1_000),
    ("2.5", 2_500),
    ("5.0", 5_000),
    ("10.0", 10_000),
    ("30.0", 30_000),
];

/// One for each operation code from -12 to 115; no operation has another one.
const SLOTS: usize = 128;
const LOWEST_CODE: i32 = -12;

/// Operations counted since the last iteration, with their latency. Few different ones occur at a time.
#[derive(Debug, Default)]
pub(crate) struct OpRuns(Vec<OpRun>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpRun {
    op: i32,
    latency_ms: i64,
    count: u64,
}

/// Different pairs of operation and latency between two publications; more are not counted.
const RUNS_MAX: usize = 256;

impl OpRuns {
    pub(crate) fn note(&mut self, op: i32, latency_ms: i64, count: u64) {
        // The last one is usually the same.
        let same = self.0.iter().rposition(|run| run.op == op && run.latency_ms == latency_ms);
        match same {
            Some(at) => self.0[at].count += count,
            None if self.0.len() < RUNS_MAX => self.0.push(OpRun { op, latency_ms, count }),
            None => (),
        }
    }

    /// Moves everything into another list, with a latency that is known only now.
    pub(crate) fn drain_into(&mut self, other: &mut Self, latency_ms: i64) {
        self.0.drain(..).for_each(|run| other.note(run.op, latency_ms, run.count));
    }

    pub(crate) fn publish(&mut self, latencies: &OpLatencies) {
        self.0.drain(..).for_each(|run| latencies.note(run));
    }
}

/// A histogram for each operation.
#[derive(Debug)]
pub(crate) struct OpLatencies(Box<[OpHistogram]>);

impl Default for OpLatencies {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| OpHistogram::default()).collect())
    }
}

impl OpLatencies {
    fn note(&self, OpRun { op, latency_ms, count }: OpRun) {
        let slot = usize::try_from(op.saturating_sub(LOWEST_CODE)).ok();
        let Some(histogram) = slot.and_then(|slot| self.0.get(slot)) else { return };
        let latency_ms = latency_ms.max(0);
        let bucket = BOUNDS.iter().position(|(_, bound_ms)| latency_ms < *bound_ms).unwrap_or(BOUNDS.len());
        histogram.buckets[bucket].fetch_add(count, Relaxed);
        histogram.sum_ms.fetch_add(latency_ms.unsigned_abs().saturating_mul(count), Relaxed);
    }

    /// The operations that have been executed, with their histograms.
    pub(crate) fn executed(&self) -> impl Iterator<Item = (&'static str, OpCounts)> {
        let all = (LOWEST_CODE..).zip(&self.0).filter_map(|(code, histogram)| {
            let op = OpCode::try_from(code).ok()?;
            Some((op.name(), histogram.counts()))
        });
        all.filter(|(_, counts)| 0 < counts.all)
    }
}

#[derive(Debug, Default)]
struct OpHistogram {
    /// The last one has the values above all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ms: AtomicU64,
}

/// The values of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpCounts {
    /// How many values are below each bound.
    pub(crate) below: [u64; BOUNDS.len()],
    pub(crate) all: u64,
    pub(crate) sum_ms: u64,
}

impl OpHistogram {
    fn counts(&self) -> OpCounts {
        let (mut below, mut all) = ([0; BOUNDS.len()], 0);
        for (at, bucket) in self.buckets.iter().enumerate() {
            all += bucket.load(Relaxed);
            if let Some(below) = below.get_mut(at) {
                *below = all;
            }
        }
        OpCounts { below, all, sum_ms: self.sum_ms.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_by_operation() {
        let (mut direct, mut runs, latencies) = (OpRuns::default(), OpRuns::default(), OpLatencies::default());
        direct.note(OpCode::GetData.code(), 0, 1);
        direct.note(OpCode::Exists.code(), 0, 1);
        direct.note(OpCode::GetData.code(), 0, 1);
        direct.drain_into(&mut runs, 3);
        runs.note(OpCode::Create.code(), 60_000, 5);
        runs.note(i32::MIN, 1, 1);
        runs.note(i32::MAX, 1, 1);
        runs.publish(&latencies);
        let executed: Vec<_> = latencies.executed().map(|(op, counts)| (op, counts.all, counts.sum_ms)).collect();
        assert_eq!(executed, [("create", 5, 300_000), ("exists", 1, 3), ("getData", 2, 6)]);
        let (_, create) = latencies.executed().next().unwrap();
        assert_eq!(create.below, [0; BOUNDS.len()]);
        let (_, get) = latencies.executed().last().unwrap();
        assert_eq!((get.below[1], get.below[2]), (0, 2), "3 ms are above 2 and below 5");
    }

    #[test]
    fn different_latencies_are_bounded() {
        let mut runs = OpRuns::default();
        (0..10_000).for_each(|ms| runs.note(1, ms, 1));
        assert_eq!(runs.0.len(), RUNS_MAX);
    }
}
