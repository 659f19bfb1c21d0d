//! Counters and summaries that many threads add to without waiting for each other.

use super::Reading;
use crate::limits::SERVERS_MEASURED_MAX;
use ox_proto::ServerId;
use ox_replica::NamespaceTraffic;
use ox_replica::limits::NAMESPACES_MAX;
use ox_tree::MetricSummary;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The percentiles that are printed.
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

/// A value as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Double(f64),
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

/// A sum that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`, without an atomic operation if it is 0.
    pub(crate) fn add(&self, count: u64) {
        if count != 0 {
            self.0.fetch_add(count, Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn number(&self) -> Number {
        Number::Int(self.get().cast_signed())
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Count, sum, minimum and maximum. They do not change atomically, so a reader may see an addition in part.
#[derive(Debug)]
pub(crate) struct Summary {
    count: AtomicU64,
    sum: AtomicI64,
    min: AtomicI64,
    max: AtomicI64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum: AtomicI64::new(0),
            min: AtomicI64::new(i64::MAX),
            max: AtomicI64::new(i64::MIN),
        }
    }
}

impl Summary {
    /// Adds the same value `count` times.
    pub(crate) fn note(&self, value: i64, count: u64) {
        let sum = value.saturating_mul(count.cast_signed());
        self.merge(&MetricSummary { count, sum, min: value, max: value });
    }

    /// Adds what a thread has counted.
    pub(crate) fn merge(&self, totals: &MetricSummary) {
        if totals.count == 0 {
            return;
        }
        self.count.fetch_add(totals.count, Relaxed);
        self.sum.fetch_add(totals.sum, Relaxed);
        if totals.min < self.min.load(Relaxed) {
            self.min.fetch_min(totals.min, Relaxed);
        }
        if self.max.load(Relaxed) < totals.max {
            self.max.fetch_max(totals.max, Relaxed);
        }
    }

    pub(crate) fn totals(&self) -> MetricSummary {
        let (min, max) = (self.min.load(Relaxed), self.max.load(Relaxed));
        let (count, sum) = (self.count.load(Relaxed), self.sum.load(Relaxed));
        MetricSummary {
            count,
            sum,
            min: if min == i64::MAX { 0 } else { min },
            max: if max == i64::MIN { 0 } else { max },
        }
    }

    pub(crate) fn reset(&self) {
        let Self { count, sum, min, max } = self;
        count.store(0, Relaxed);
        sum.store(0, Relaxed);
        min.store(i64::MAX, Relaxed);
        max.store(i64::MIN, Relaxed);
    }
}

/// Values below are counted one by one; above, each doubling has half as many buckets (3 % wide).
const EXACT: usize = 64;
const HALF: usize = EXACT / 2;
/// Doublings above the exact values; larger values share the last bucket (12 days in milliseconds).
const DOUBLINGS: usize = 24;
const BUCKETS: usize = EXACT + DOUBLINGS * HALF;

/// A summary with percentiles, from a histogram of everything since the last reset.
#[derive(Debug)]
pub(crate) struct Percentiles {
    summary: Summary,
    buckets: Box<[AtomicU64]>,
}

impl Default for Percentiles {
    fn default() -> Self {
        Self { summary: Summary::default(), buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Percentiles {
    /// Adds the same value `count` times. Negative values, which a clock that was set back can give, count as 0.
    pub(crate) fn note(&self, value: i64, count: u64) {
        let value = value.max(0);
        self.summary.note(value, count);
        if count != 0 {
            self.buckets[bucket(value.unsigned_abs())].fetch_add(count, Relaxed);
        }
    }

    /// Adds what a thread has counted. The distribution gets the mean of these values.
    pub(crate) fn merge(&self, totals: &MetricSummary) {
        if let Some(mean) = totals.sum.checked_div(totals.count.cast_signed()) {
            self.summary.merge(totals);
            self.buckets[bucket(mean.max(0).unsigned_abs())].fetch_add(totals.count, Relaxed);
        }
    }

    pub(crate) fn totals(&self) -> MetricSummary {
        self.summary.totals()
    }

    /// The buckets that have values.
    pub(crate) fn distribution(&self) -> Distribution {
        let counts = self.buckets.iter().enumerate().map(|(index, bucket)| (index, bucket.load(Relaxed)));
        Distribution(counts.filter(|(_, count)| *count != 0).collect())
    }

    pub(crate) fn reading(&self) -> Reading {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let totals = self.summary.totals();
        Reading::Percentiles(totals, QUANTILES.map(|quantile| percentile(&counts, quantile, totals.max)))
    }

    pub(crate) fn reset(&self) {
        self.summary.reset();
        self.buckets.iter().for_each(|bucket| bucket.store(0, Relaxed));
    }
}

/// How many values lie in each bucket, without empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution(Vec<(usize, u64)>);

impl Distribution {
    /// What was added since `earlier`; everything, if there was a reset meanwhile.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let count_in = |index: usize| self.0.iter().find(|(other, _)| *other == index).map_or(0, |(_, count)| *count);
        if earlier.0.iter().any(|(index, count)| count_in(*index) < *count) {
            return self.clone();
        }
        let before = |index: usize| earlier.0.iter().find(|(other, _)| *other == index).map_or(0, |(_, count)| *count);
        let rest = self.0.iter().map(|(index, count)| (*index, count - before(*index)));
        Self(rest.filter(|(_, count)| *count != 0).collect())
    }

    /// The value below which a share of all values lies; `None` without values.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranks are far from 2^52"
    )]
    pub(crate) fn quantile(&self, quantile: f64) -> Option<i64> {
        let total: u64 = self.0.iter().map(|(_, count)| count).sum();
        let rank = ((quantile * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += count;
            rank <= seen
        });
        found.map(|(index, _)| top(*index))
    }

    /// How many values are less than `limit`.
    pub(crate) fn below(&self, limit: i64) -> u64 {
        self.0.iter().filter(|(index, _)| top(*index) < limit).map(|(_, count)| count).sum()
    }
}

fn bucket(value: u64) -> usize {
    let doubling = value.max(1).ilog2().saturating_sub(HALF.ilog2());
    let within = usize::try_from(value >> doubling).expect("below EXACT"); // in the upper half when doubled
    (within + doubling as usize * HALF).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn top(index: usize) -> i64 {
    let doubling = (index / HALF).saturating_sub(1);
    let within = index - doubling * HALF;
    i64::try_from(((within + 1) << doubling) - 1).unwrap_or(i64::MAX)
}

/// The value below which a share of all values lies, interpolated between neighbours as with a reservoir of values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are far from 2^52"
)]
fn percentile(counts: &[u64], quantile: f64, max: i64) -> i64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0;
    }
    let position = quantile * (total + 1) as f64;
    let rank = (position as u64).clamp(1, total);
    let value_at = |rank: u64| {
        let mut seen = 0;
        let index = counts.iter().position(|count| {
            seen += count;
            rank <= seen
        });
        top(index.unwrap_or(BUCKETS - 1)).min(max) as f64
    };
    let (lower, upper) = (value_at(rank), value_at((rank + 1).min(total)));
    let fraction = if (rank as f64) < position { position.fract() } else { 0.0 };
    (lower + fraction * (upper - lower) + 0.5).floor() as i64
}

/// A summary for each top-level node. Their number is bounded.
#[derive(Debug, Default)]
pub(crate) struct Namespaces(Mutex<BTreeMap<Box<str>, MetricSummary>>);

impl Namespaces {
    /// Adds what a thread has counted.
    pub(crate) fn merge(&self, traffic: &mut NamespaceTraffic) {
        if traffic.is_empty() {
            return;
        }
        let mut spaces = self.0.lock();
        traffic.drain(|name, totals| {
            if let Some(space) = spaces.get_mut(name) {
                space.merge(&totals);
            } else if spaces.len() < NAMESPACES_MAX {
                spaces.insert(name.into(), totals);
            }
        });
    }

    pub(crate) fn show(&self, show: &mut dyn FnMut(&str, MetricSummary)) {
        let spaces = self.0.lock().clone();
        spaces.iter().for_each(|(name, totals)| show(name, *totals));
    }

    /// Sets all values to 0; the names stay.
    pub(crate) fn reset(&self) {
        self.0.lock().values_mut().for_each(|totals| *totals = MetricSummary::default());
    }
}

/// A metric for each of several servers. Their number is bounded, because unknown servers can connect, too.
#[derive(Debug)]
pub(crate) struct ByServer<T>(Mutex<BTreeMap<ServerId, Arc<T>>>);

impl<T> Default for ByServer<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> ByServer<T> {
    /// The metric of a server, to be kept by callers that add often; `None` if there are too many.
    pub(crate) fn of(&self, server: ServerId) -> Option<Arc<T>> {
        let mut by_server = self.0.lock();
        if SERVERS_MEASURED_MAX <= by_server.len() && !by_server.contains_key(&server) {
            return None;
        }
        Some(Arc::clone(by_server.entry(server).or_default()))
    }

    /// Calls `take` with each metric and the server's id.
    pub(crate) fn each(&self, mut take: impl FnMut(&str, &T)) {
        let by_server = self.0.lock().clone();
        by_server.iter().for_each(|(server, metric)| take(&server.to_string(), metric));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_narrow() {
        let mut last = 0;
        for value in (0..5000).chain((5000..20_000_000).step_by(7919)) {
            let index = bucket(value);
            assert!(last <= index, "{value}");
            last = index;
            let top = top(index).unsigned_abs();
            assert!(value <= top && top - value <= value / 32, "{value} is shown as {top}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    fn check(values: &[i64], expected: [i64; 4]) {
        let percentiles = Percentiles::default();
        values.iter().for_each(|value| percentiles.note(*value, 1));
        let Reading::Percentiles(totals, found) = percentiles.reading() else { panic!("percentiles") };
        assert_eq!((totals.count, found), (values.len() as u64, expected), "{values:?}");
    }

    #[test]
    fn percentiles_are_interpolated() {
        check(&[], [0; 4]);
        check(&[7], [7; 4]);
        check(&[0, 1], [1, 1, 1, 1]); // the middle is rounded up
        check(&[1, 2, 3, 4, 5], [3, 5, 5, 5]);
        check(&(1..=1000).collect::<Vec<_>>(), [503, 959, 991, 1000]);
        check(&[-5, 0], [0; 4]);
        check(&[100_000], [100_000; 4]);
    }

    #[test]
    fn unknown_servers_add_a_bounded_number_of_metrics() {
        let by_server = ByServer::<Counter>::default();
        for server in 0..10_000 {
            by_server.of(ServerId(server)).iter().for_each(|metric| metric.add(1));
        }
        by_server.of(ServerId(0)).unwrap().add(1);
        let mut shown = Vec::new();
        by_server.each(|server, metric| shown.push((server.to_owned(), metric.get())));
        assert_eq!((shown.len(), &shown[0]), (SERVERS_MEASURED_MAX, &("0".to_owned(), 2)));
    }

    #[test]
    fn reset_summary_is_empty() {
        let summary = Summary::default();
        assert_eq!(summary.totals(), MetricSummary::default());
        summary.note(-3, 1);
        summary.note(4, 2);
        assert_eq!(summary.totals(), MetricSummary { count: 3, sum: 5, min: -3, max: 4 });
        summary.reset();
        assert_eq!(summary.totals(), MetricSummary::default());
    }
}
