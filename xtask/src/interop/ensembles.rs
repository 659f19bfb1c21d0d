//! Ensembles of Oxkeeper and Apache servers: who leads whom, how learners catch up, and the way from one software to
//! the other and back under load.
//!
//! At the end of each case nothing that was acknowledged is missing, no session is lost, and every server shows the
//! same tree.

mod cases;
mod failover_client;
mod faults;
mod lifecycle;
mod load;
mod mixed_ensemble;
mod network;
mod reconfig;
mod roles;
mod small_disk;

use std::time::Instant;

use anyhow::{Result, ensure};

use super::servers::Software;
use super::workspace::Workspace;
use cases::Case;

/// Runs some of the cases, or all, or those with `only` in their names.
pub(super) fn run(workspace: &Workspace, full: bool, only: Option<&str>) -> Result<()> {
    for software in [Software::Apache, Software::Apache38, Software::Oxkeeper] {
        software.prepare(workspace)?;
    }
    let (start, mut failures, mut count) = (Instant::now(), 0, 0);
    let wanted = |case: &Case| only.map_or(full || case.is_short, |only| case.name.contains(only));
    for Case { name, run, .. } in cases::all().into_iter().filter(wanted) {
        let home = tempfile::Builder::new().prefix("oxkeeper-ensemble-").tempdir()?;
        let start = Instant::now();
        let done = run(workspace, home.path());
        let seconds = start.elapsed().as_secs_f64();
        count += 1;
        match done {
            Ok(result) => println!("ok   {name}: {result}, {seconds:.1} s"),
            Err(e) => {
                failures += 1;
                println!("fail {name}: {e:#}\nfiles kept in {}, {seconds:.1} s", home.keep().display());
            }
        }
    }
    println!("ensembles: {} of {count} passed, {:.0} s", count - failures, start.elapsed().as_secs_f64());
    ensure!(0 < count, "no mixed ensemble is called so");
    ensure!(failures == 0, "{failures} of {count} mixed ensembles failed");
    Ok(())
}
