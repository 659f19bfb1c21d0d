//! The log files contain exactly the bytes that were written, without a gap in the retained part. An old log that a
//! purge failed to delete may remain.

use super::Finding;
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::{ExpectedDisk, ReferenceLog};
use ox_proto::txn::TxnHeader;
use ox_proto::{Reader, Zxid};
use ox_store::Store;
use ox_store::disk::SimDisk;
use ox_store::log_reader::LogReader;
use ox_store::names;
use ox_store::purge::RETAIN_MIN;

pub(crate) fn check(
    disk: &SimDisk,
    store: &Store,
    (reference_log, expected): (&ReferenceLog, &ExpectedDisk),
    plan: &Plan,
) -> Result<(), Finding> {
    let fail = |detail: String| Err(Finding::new(FailureKind::LogDiffers, detail));
    let unreadable = |error: ox_store::StoreError| Finding::new(FailureKind::LogDiffers, error.to_string());
    let disk = disk.fork();
    disk.clear_faults();
    let listing = names::list(&disk, store.dirs()).map_err(unreadable)?;
    let retained = listing.snapshots.iter().take(plan.retain.max(RETAIN_MIN)).map(|snapshot| snapshot.last);
    let kept_from = retained.min().filter(|_| plan.purge_ms != 0).unwrap_or(Zxid::ZERO);
    let mut last: Option<Zxid> = None;
    for log in &listing.logs {
        let mut reader = LogReader::open(&disk, &log.path).map_err(unreadable)?;
        while let Some(frame) = reader.next_frame().map_err(unreadable)? {
            let Ok(header) = Reader::from_disk(frame.record).get::<TxnHeader>() else {
                return fail(format!("a record of {} has no header", log.path.display()));
            };
            let zxid = header.zxid;
            if last.is_some_and(|last| !zxid.follows(last)) && kept_from.0 + 1 < zxid.0 {
                return fail(format!("{zxid} follows {last:?} in {}", log.path.display()));
            }
            last = Some(zxid);
            if reference_log.get(zxid).is_none_or(|entry| entry.record != frame.record) {
                return fail(format!("{zxid} differs in {}", log.path.display()));
            }
        }
    }
    let newest = listing.snapshots.iter().map(|snapshot| snapshot.last).max().filter(|_| plan.is_ensemble());
    if last.is_some_and(|last| last.max(newest.unwrap_or(last)) < expected.synced) {
        return fail(format!("the logs end at {last:?}, fsynced up to {}", expected.synced));
    }
    Ok(())
}
