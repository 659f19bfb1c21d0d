//! At every instant the disk holds a complete history (P60): power may go now, and a start gets everything back.

use super::Finding;
use crate::jobs::{store_options, tree_options};
use crate::outcome::Kind;
use crate::plan::Plan;
use crate::server::Journal;
use ox_store::Store;
use ox_store::disk::{Keep, SimDisk};
use std::sync::Arc;

pub(crate) fn check(disk: &SimDisk, journal: &Journal, plan: &Plan, seed: u64) -> Result<(), Finding> {
    let copy = disk.fork();
    copy.clear_faults();
    let keep = if seed.is_multiple_of(2) { Keep::Nothing } else { Keep::Random(seed) };
    copy.power_on(keep);
    match Store::open(Arc::new(copy), &store_options(plan, 0), &tree_options(plan), seed) {
        Ok(opened) => journal
            .judge(opened.state.last_zxid(), opened.state.digest())
            .map_err(|finding| Finding::new(Kind::NotRestorable, format!("{} ({keep:?})", finding.detail))),
        Err(error) => Err(Finding::new(Kind::NotRestorable, format!("{error} ({keep:?})"))),
    }
}
