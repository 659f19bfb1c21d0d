//! A multi is done whole or not at all, and its results stand where its operations stood (P30).

use super::results::differs_in_stat_only;
use crate::history::LoggedTxn;
use crate::op::{Answer, Body, Element, Op};
use crate::violation::Reason;

/// Why the answer to a multi is not the expected one; `None` when that is not about multis.
pub(crate) fn judge(op: &Op, expected: &Answer, seen: &Answer, logged: &LoggedTxn) -> Option<Reason> {
    let Op::Multi(_) = op else { return None };
    let (Body::Multi(expected), Body::Multi(seen)) = (&expected.body, &seen.body) else { return None };
    let failed = |results: &[Element]| results.iter().any(|result| result.err != 0);
    if failed(seen) && !logged.is_error() {
        return Some(Reason::FailedMultiTookEffect);
    }
    let same_shape = expected.len() == seen.len()
        && expected.iter().zip(seen).all(|(expected, seen)| (expected.op, expected.err) == (seen.op, seen.err));
    if !same_shape {
        return Some(Reason::MultiResults);
    }
    let mut different = expected.iter().zip(seen).filter(|(expected, seen)| expected != seen);
    let stats_only = different.all(|(expected, seen)| {
        differs_in_stat_only(&Answer::ok(expected.body.clone()), &Answer::ok(seen.body.clone()))
    });
    Some(if stats_only { Reason::WrongStat } else { Reason::MultiResults })
}

/// The states that lie inside a multi: after how many of its elements.
pub(crate) fn inner_states(op: &Op) -> std::ops::Range<usize> {
    match op {
        Op::Multi(elements) => 1..elements.len().max(1),
        _ => 0..0,
    }
}
