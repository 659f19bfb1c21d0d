//! Our client and recipes with a server and with partners that are not ours.
//!
//! The test programs of `ox-client` and `ox-recipes` run on Apache's server. Then, on either server, Rust tasks and a Java program with Curator
//! ([`curator_worker`]) use the same locks, elections, counters, barriers and queues. What is promised is checked from what the server
//! itself saw ([`critical_section`]): never two owners, no addition lost, no item lost or taken twice.

mod case;
mod coordination;
mod crate_tests;
mod critical_section;
mod curator_worker;
mod locks;
mod queues;

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::clients::standard_spec;
use super::servers::Software;
use super::workspace::Workspace;
use super::{Args, Target, suites};
use case::Stage;

/// The name of the first case.
const OWN_TESTS: &str = "own tests";

/// Turns of every program in a contest: some, or many.
const ROUNDS: [usize; 2] = [12, 100];

/// Runs everything on Apache and on Oxkeeper, or on a server that somebody else runs.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    suites::JAVA.prepare(workspace)?;
    let failed = match args.server {
        Target::Running(address) => run_on(workspace, args, &address.to_string(), address)?,
        Target::Start(_) => {
            let mut failed = 0;
            for software in [Software::Apache, Software::Oxkeeper] {
                software.prepare(workspace)?;
                let home = tempfile::Builder::new().prefix("oxkeeper-interop-").tempdir()?;
                let server = standard_spec(workspace, software).start_in(home.path())?;
                failed += run_on(workspace, args, &software.to_string(), server.address())?;
            }
            failed
        }
    };
    ensure!(failed == 0, "{failed} cases of recipes failed\nhint: what Curator says is in target/interop/partner.log");
    Ok(())
}

/// Runs everything on one server; how much has failed.
fn run_on(workspace: &Workspace, args: &Args, name: &str, server: SocketAddr) -> Result<usize> {
    let (start, only) = (Instant::now(), args.only.as_deref());
    let mut failed = 0;
    // They have run on ours without any help.
    if name != Software::Oxkeeper.to_string() && only.is_none_or(|only| OWN_TESTS.contains(only)) {
        failed += usize::from(!told(OWN_TESTS, name, crate_tests::run(workspace, server)));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    failed += runtime.block_on(async {
        let mut stage = Stage::start(workspace, name, server, ROUNDS[usize::from(args.full)], only)?;
        locks::run(&mut stage).await;
        coordination::run(&mut stage).await;
        queues::run(&mut stage).await;
        locks::run_last(&mut stage).await;
        anyhow::Ok(stage.failed())
    })?;
    eprintln!("recipes on {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(failed)
}

/// Prints what became of a case; true when it passed.
fn told(case: &str, server: &str, done: Result<()>) -> bool {
    match &done {
        Ok(()) => println!("recipes: ok   {case} on {server}"),
        Err(e) => println!("recipes: fail {case} on {server}: {e:#}"),
    }
    done.is_ok()
}
