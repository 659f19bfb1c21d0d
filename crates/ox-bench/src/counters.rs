//! Counts and latencies recorded while a load runs.

use crate::operation::Operation;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Higher latencies are recorded as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Latencies by operation and errors by code.
#[derive(Debug)]
pub struct Counters {
    latencies: Vec<Histogram<u64>>,
    /// Replies with an error, by code.
    pub errors: BTreeMap<i32, u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { latencies: Operation::ALL.iter().map(|_| histogram()).collect(), errors: BTreeMap::new() }
    }
}

/// An empty histogram of latencies in nanoseconds, exact to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}

impl Counters {
    /// Records `count` replies of equal latency.
    pub fn record(&mut self, operation: Operation, latency_ns: u64, count: u64) {
        self.latencies[operation as usize].saturating_record_n(latency_ns.max(1), count);
    }

    pub fn record_error(&mut self, code: i32) {
        *self.errors.entry(code).or_default() += 1;
    }

    /// Latencies of one operation.
    pub fn latencies(&self, operation: Operation) -> &Histogram<u64> {
        &self.latencies[operation as usize]
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs).expect("both have the same bounds");
        }
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    pub fn clear(&mut self) {
        self.latencies.iter_mut().for_each(Histogram::reset);
        self.errors.clear();
    }
}
