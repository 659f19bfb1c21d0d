//! Copies of the distributions at past times, so that quantiles cover the last minutes and not the whole run.

use crate::status::metrics::{Distribution, MetricItem, Metrics};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time between two copies.
pub(crate) const ROTATION: Duration = Duration::from_secs(120);
/// Copies that are kept: with the time since the last one they cover ten minutes.
const COPIES: usize = 5;

/// The copies of all metrics, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuantileWindows(VecDeque<BTreeMap<(&'static str, Option<String>), Distribution>>);

impl QuantileWindows {
    /// Copies the distributions. Called once per [`ROTATION`].
    pub(crate) fn rotate(&mut self, metrics: &Metrics) {
        let mut copy = BTreeMap::new();
        metrics.visit(&mut |name, _, item| {
            if let MetricItem::Measured(key, measured) = item {
                copy.insert((name, key.map(str::to_owned)), measured.distribution());
            }
        });
        self.0.push_back(copy);
        if COPIES < self.0.len() {
            self.0.pop_front();
        }
    }

    /// The oldest copy of a metric; empty until there are enough copies.
    pub(super) fn oldest(&self, name: &'static str, key: Option<&str>) -> Distribution {
        if self.0.len() < COPIES {
            return Distribution::default();
        }
        let oldest = self.0.front().and_then(|copy| copy.get(&(name, key.map(str::to_owned))));
        oldest.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_last_minutes_count() {
        let (metrics, mut windows) = (Metrics::default(), QuantileWindows::default());
        let median = |windows: &QuantileWindows| {
            metrics.readlatency.distribution().since(&windows.oldest("readlatency", None)).quantile(0.5)
        };
        assert_eq!(median(&windows), None);
        metrics.readlatency.note(50, 3);
        for _ in 0..COPIES {
            windows.rotate(&metrics);
            metrics.readlatency.note(2, 1);
        }
        assert_eq!(median(&windows), Some(2), "the values before the first copy are too old");
        metrics.readlatency.reset();
        metrics.readlatency.note(7, 1);
        assert_eq!(median(&windows), Some(7), "after a reset only new values count");
    }
}
