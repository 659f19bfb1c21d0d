//! Every transaction is applied once, one after the other without a hole, and is the one that was logged (P16, P17).

use super::Finding;
use crate::outcome::Kind;
use crate::server::Journal;
use crate::server::process::Process;
use ox_proto::Zxid;

pub(crate) fn check(process: &Process, journal: &Journal, before: Zxid, applied: usize) -> Result<(), Finding> {
    let after = process.state.last_zxid();
    let fail = |detail: String| Err(Finding::new(Kind::ApplyOrder, detail));
    let from = journal.before(after, applied);
    // The start of an epoch, where a history may have been cut, is no transaction.
    if from != before && (before < from || before.counter() != 0) {
        return fail(format!("{applied} transactions led from {before} to {after}"));
    }
    if 0 < applied && journal.get(after).is_none() {
        return fail(format!("{after} is applied, but was never handed to the disk"));
    }
    if process.replica.digest_mismatches() != 0 {
        return fail(format!("by {after} the tree was not what a transaction had been made for"));
    }
    Ok(())
}
