//! Median and spread of repeated measurements.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Statistics {
    /// `None` if there are no values or one is not a number.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        if sorted.iter().any(|value| value.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, low, high })
    }

    /// Distance of the extremes in percent of the median.
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median * 100.0 }
    }
}

/// A number with three significant digits and a magnitude: `48.2k`, `1.21M`, `0.72`.
pub fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if 999_500_000.0 <= size => (value / 1e9, "G"),
        size if 999_500.0 <= size => (value / 1e6, "M"),
        size if 9_995.0 <= size => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if 99.95 <= size => 0,
        size if 9.995 <= size => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        let check =
            |values: &[f64], expected| assert_eq!(Statistics::of(values).map(|summary| summary.median), expected);
        check(&[], None);
        check(&[3.0], Some(3.0));
        check(&[9.0, 1.0, 2.0], Some(2.0));
        check(&[4.0, 1.0, 2.0, 9.0], Some(3.0));
        check(&[1.0, f64::NAN], None);
        let summary = Statistics::of(&[90.0, 100.0, 120.0]).unwrap();
        assert_eq!((summary.low, summary.high, summary.spread_percent()), (90.0, 120.0, 30.0));
    }

    #[test]
    fn numbers_have_three_digits() {
        let check = |value, expected: &str| assert_eq!(short(value), expected);
        check(0.0, "0");
        check(0.721, "0.72");
        check(7.0, "7");
        check(48.26, "48.3");
        check(9994.0, "9994");
        check(48_213.0, "48.2k");
        check(100_000.0, "100k");
        check(999_499.0, "999k");
        check(1_214_000.0, "1.21M");
        check(12_000_000.0, "12M");
    }
}
