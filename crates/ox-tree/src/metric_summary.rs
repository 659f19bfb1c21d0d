//! Aggregation for summary metrics.

/// Count, sum, minimum and maximum of a series of values (Apache's `AvgMinMaxCounter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricSummary {
    pub count: u64,
    pub sum: i64,
    /// 0 if there are no values.
    pub min: i64,
    /// 0 if there are no values.
    pub max: i64,
}

impl MetricSummary {
    pub fn record(&mut self, value: i64) {
        self.merge(&Self { count: 1, sum: value, min: value, max: value });
    }

    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let is_first = self.count == 0;
        self.min = if is_first { other.min } else { self.min.min(other.min) };
        self.max = if is_first { other.max } else { self.max.max(other.max) };
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_is_minimum_and_maximum() {
        let mut summary = MetricSummary::default();
        summary.merge(&MetricSummary::default());
        assert_eq!(summary, MetricSummary::default());
        summary.record(7);
        summary.record(3);
        assert_eq!(summary, MetricSummary { count: 2, sum: 10, min: 3, max: 7 });
    }
}
