//! The disk contains a complete history at every moment (P60): a start after a power cut recovers everything.

use super::Finding;
use crate::jobs::{member_options, store_options, tree_options};
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::{ExpectedDisk, ReferenceLog};
use ox_store::disk::{KeepUnsynced, SimDisk};
use ox_store::{OpenOutcome, Store};
use std::sync::Arc;

pub(crate) fn check(
    disk: &SimDisk,
    number: usize,
    (reference_log, expected): (&ReferenceLog, &ExpectedDisk),
    plan: &Plan,
    seed: u64,
) -> Result<(), Finding> {
    let copy = disk.fork();
    copy.clear_faults();
    let keep = if seed.is_multiple_of(2) { KeepUnsynced::Nothing } else { KeepUnsynced::Random(seed) };
    copy.power_on(keep);
    let fail = |text: String| Err(Finding::new(FailureKind::NotRestorable, format!("{text} ({keep:?})")));
    let (options, tree) = (store_options(plan, 0), tree_options(plan));
    if !plan.is_ensemble() {
        return match Store::open(Arc::new(copy), &options, &tree, seed) {
            Ok(opened) => reference_log
                .judge(expected, opened.state.last_zxid(), opened.state.digest())
                .or_else(|finding| fail(finding.detail)),
            Err(error) => fail(error.to_string()),
        };
    }
    match Store::open_member(Arc::new(copy), &options, &member_options(plan, number), &tree, seed) {
        Ok(opened) => match opened.outcome {
            OpenOutcome::Loaded(loaded) => {
                let (least, most, found) = (expected.epochs, expected.epochs_begun, opened.log.epochs());
                let is_within = least.accepted <= found.accepted && found.accepted <= most.accepted.max(least.accepted);
                if !is_within || found.current < least.current {
                    return fail(format!("epochs are {found:?}, not between {least:?} and {most:?}"));
                }
                let state = &loaded.state;
                reference_log
                    .judge_member(expected, state.last_zxid(), state.digest())
                    .or_else(|finding| fail(finding.detail))
            }
            OpenOutcome::Empty => fail("the data directory is empty".to_owned()),
            OpenOutcome::Quarantined(quarantine) => fail(quarantine.reason),
        },
        Err(error) => fail(error.to_string()),
    }
}
