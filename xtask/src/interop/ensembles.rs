//! Mixed ensembles of Oxkeeper and Apache servers: roles, synchronisation, reconfiguration, faults, and the migration
//! from one implementation to the other and back.
//!
//! Each case checks that no acknowledged write and no session is lost, and that all servers show the same tree.

mod cases;
mod faults;
mod lifecycle;
mod mixed_ensemble;
mod network;
mod reconfig;
mod roles;

pub(super) use lifecycle::migrates_protected;

use std::time::Instant;

use anyhow::{Result, ensure};

use super::servers::Software;
use super::workspace::Workspace;
use crate::catch::catching;
use cases::Case;

/// Runs a selection of the cases, all of them, or those whose name contains `only`.
pub(super) fn run(workspace: &Workspace, full: bool, only: Option<&str>) -> Result<()> {
    for software in [Software::Apache, Software::Apache38, Software::Oxkeeper] {
        software.prepare(workspace)?;
    }
    let (run_start, mut failures, mut count) = (Instant::now(), 0, 0);
    let wanted = |case: &Case| only.map_or(full || case.is_short, |only| case.name.contains(only));
    for Case { name, run, .. } in cases::all(workspace).into_iter().filter(wanted) {
        let home = tempfile::Builder::new().prefix("oxkeeper-ensemble-").tempdir()?;
        let start = Instant::now();
        let result = catching(|| run(workspace, home.path()));
        let seconds = start.elapsed().as_secs_f64();
        count += 1;
        match result {
            Ok(figures) => println!("ok   {name}: {figures}, {seconds:.1} s"),
            Err(e) => {
                failures += 1;
                println!("fail {name}: {e:#}\nfiles kept in {}, {seconds:.1} s", home.keep().display());
            }
        }
    }
    println!("ensembles: {} of {count} passed, {:.0} s", count - failures, run_start.elapsed().as_secs_f64());
    ensure!(0 < count, "no mixed ensemble matches --only");
    ensure!(failures == 0, "{failures} of {count} mixed ensembles failed");
    Ok(())
}
