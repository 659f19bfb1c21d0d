//! Performance goals of our server.

use ox_bench::statistics::{Statistics, short};
use serde::{Deserialize, Serialize};

/// The goal of one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// At least this many times the baseline's value.
    Times(f64),
    /// At most the baseline's value divided by this.
    OneIn(f64),
    AtMost(f64),
    AtLeast(f64),
    /// No goal; shown for information.
    None,
}

impl Goal {
    /// Whether `ours` meets it; `None` if there is no goal.
    pub(crate) fn is_met(self, ours: &Statistics, baseline: &Statistics) -> Option<bool> {
        match self {
            Self::Times(factor) => Some(baseline.median * factor <= ours.median),
            Self::OneIn(divisor) => Some(ours.median <= baseline.median / divisor),
            Self::AtMost(limit) => Some(ours.median <= limit),
            Self::AtLeast(limit) => Some(limit <= ours.median),
            Self::None => None,
        }
    }

    /// Text for the table.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Times(factor) => format!("{} x", short(factor)),
            Self::OneIn(divisor) => format!("1/{}", short(divisor)),
            Self::AtMost(limit) => format!("at most {}", short(limit)),
            Self::AtLeast(limit) => format!("at least {}", short(limit)),
            Self::None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_compares_medians() {
        let summary = |median| Statistics { median, low: 0.0, high: 1e9 };
        let check = |goal: Goal, ours, baseline, expected| {
            assert_eq!(goal.is_met(&summary(ours), &summary(baseline)), expected, "{goal:?}");
        };
        check(Goal::Times(3.0), 150.0, 50.0, Some(true));
        check(Goal::Times(3.0), 149.0, 50.0, Some(false));
        check(Goal::OneIn(20.0), 0.03, 0.72, Some(true));
        check(Goal::OneIn(20.0), 0.04, 0.72, Some(false));
        check(Goal::AtMost(40.0), 40.0, 1.0, Some(true));
        check(Goal::AtMost(40.0), 41.0, 1.0, Some(false));
        check(Goal::AtLeast(0.55), 0.55, 9.0, Some(true));
        check(Goal::AtLeast(0.55), 0.5, 0.1, Some(false));
        check(Goal::None, 1.0, 1.0, None);
        assert_eq!(Goal::OneIn(20.0).text(), "1/20");
    }
}
