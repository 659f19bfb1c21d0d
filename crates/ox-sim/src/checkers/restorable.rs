//! At every instant the disk holds a complete history (P60): power may go now, and a start gets everything back.

use super::Finding;
use crate::jobs::{member_options, store_options, tree_options};
use crate::outcome::Kind;
use crate::plan::Plan;
use crate::server::{Journal, Track};
use ox_store::disk::{Keep, SimDisk};
use ox_store::{OpenOutcome, Store};
use std::sync::Arc;

pub(crate) fn check(
    disk: &SimDisk,
    number: usize,
    (journal, track): (&Journal, &Track),
    plan: &Plan,
    seed: u64,
) -> Result<(), Finding> {
    let copy = disk.fork();
    copy.clear_faults();
    let keep = if seed.is_multiple_of(2) { Keep::Nothing } else { Keep::Random(seed) };
    copy.power_on(keep);
    let fail = |text: String| Err(Finding::new(Kind::NotRestorable, format!("{text} ({keep:?})")));
    let (options, tree) = (store_options(plan, 0), tree_options(plan));
    if !plan.is_ensemble() {
        return match Store::open(Arc::new(copy), &options, &tree, seed) {
            Ok(opened) => journal
                .judge(track, opened.state.last_zxid(), opened.state.digest())
                .or_else(|finding| fail(finding.detail)),
            Err(error) => fail(error.to_string()),
        };
    }
    match Store::open_member(Arc::new(copy), &options, &member_options(plan, number), &tree, seed) {
        Ok(opened) => match opened.outcome {
            OpenOutcome::Loaded(loaded) => {
                let (least, most, found) = (track.epochs, track.epochs_begun, opened.log.epochs());
                let is_within = least.accepted <= found.accepted && found.accepted <= most.accepted.max(least.accepted);
                if !is_within || found.current < least.current {
                    return fail(format!("epochs are {found:?}, not from {least:?} to {most:?}"));
                }
                let state = &loaded.state;
                journal.judge_member(track, state.last_zxid(), state.digest()).or_else(|finding| fail(finding.detail))
            }
            OpenOutcome::Empty => fail("nothing is there".to_owned()),
            OpenOutcome::Quarantined(quarantine) => fail(quarantine.reason),
        },
        Err(error) => fail(error.to_string()),
    }
}
