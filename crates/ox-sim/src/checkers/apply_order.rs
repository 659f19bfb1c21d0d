//! Each transaction is applied exactly once, in order, without a gap, and equals the logged one (P16, P17).

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::ReferenceLog;
use crate::server::process::Process;
use ox_proto::Zxid;

pub(crate) fn check(
    process: &Process,
    reference_log: &ReferenceLog,
    before: Zxid,
    applied: usize,
) -> Result<(), Finding> {
    let after = process.state.last_zxid();
    let fail = |detail: String| Err(Finding::new(FailureKind::ApplyOrder, detail));
    let from = reference_log.before(after, applied);
    // The first zxid of an epoch, to which a log may have been truncated, is no transaction.
    if from != before && (before < from || before.counter() != 0) {
        return fail(format!("{applied} transactions led from {before} to {after}"));
    }
    if 0 < applied && reference_log.get(after).is_none() {
        return fail(format!("{after} is applied, but was never given to the disk"));
    }
    if process.status().digest_mismatches() != 0 {
        return fail(format!("a transaction up to {after} met an unexpected tree"));
    }
    Ok(())
}
