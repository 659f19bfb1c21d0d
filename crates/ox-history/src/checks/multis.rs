//! A multi takes effect as a whole or not at all, and its results are in the order of its operations (P30).

use super::results::differs_in_stat_only;
use crate::history::LoggedTxn;
use crate::op::{ElementResult, Op, OpResult, ReplyBody};
use crate::violation::ViolationKind;

/// Why the reply to a multi is wrong; `None` if the fault is not specific to multis.
pub(crate) fn classify(op: &Op, expected: &OpResult, seen: &OpResult, logged: &LoggedTxn) -> Option<ViolationKind> {
    let Op::Multi(_) = op else { return None };
    let (ReplyBody::Multi(expected), ReplyBody::Multi(seen)) = (&expected.body, &seen.body) else { return None };
    let failed = |results: &[ElementResult]| results.iter().any(|result| result.err != 0);
    if failed(seen) && !logged.is_error() {
        return Some(ViolationKind::FailedMultiTookEffect);
    }
    let same_shape = expected.len() == seen.len()
        && expected.iter().zip(seen).all(|(expected, seen)| (expected.op, expected.err) == (seen.op, seen.err));
    if !same_shape {
        return Some(ViolationKind::MultiResults);
    }
    let mut different = expected.iter().zip(seen).filter(|(expected, seen)| expected != seen);
    let stats_only = different.all(|(expected, seen)| {
        differs_in_stat_only(&OpResult::ok(expected.body.clone()), &OpResult::ok(seen.body.clone()))
    });
    Some(if stats_only { ViolationKind::WrongStat } else { ViolationKind::MultiResults })
}

/// The states within a multi, by the number of elements applied.
pub(crate) fn inner_states(op: &Op) -> std::ops::Range<usize> {
    match op {
        Op::Multi(elements) => 1..elements.len().max(1),
        _ => 0..0,
    }
}
