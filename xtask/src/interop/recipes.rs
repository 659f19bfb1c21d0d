//! Tests `ox-client` and `ox-recipes` with Apache's server and with Curator.
//!
//! The tests of both crates run on an Apache server. Then, on either implementation, Rust tasks and a Java process with
//! Curator ([`curator_worker`]) use the same locks, elections, counters, barriers and queues. The checks rely on nodes
//! that both sides write ([`critical_section`]): a lock never has two owners, no increment is lost, and no queue item
//! is lost or taken twice.

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
use case::RecipeRunner;

/// The name of the case that runs [`crate_tests`].
const CRATE_TESTS: &str = "crate tests";

/// Rounds of each client that competes for a lock: without and with `--full`.
const ROUNDS: [usize; 2] = [12, 100];

/// Runs all cases on Apache and on Oxkeeper, or on a running server.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    suites::JAVA.prepare(workspace)?;
    let failed = match args.server {
        Target::Running(address) => run_on(workspace, args, &address.to_string(), address)?,
        Target::Start(_) => {
            let mut failed = 0;
            for software in [Software::Apache, Software::Oxkeeper] {
                software.prepare(workspace)?;
                let home = tempfile::Builder::new().prefix("oxkeeper-interop-").tempdir()?;
                let server = standard_spec(workspace, software)?.start_in(home.path())?;
                failed += run_on(workspace, args, &software.to_string(), server.address())?;
            }
            failed
        }
    };
    ensure!(failed == 0, "{failed} recipe cases failed\nhint: Curator's log is in target/interop/curator.log");
    Ok(())
}

/// Runs all cases on one server. Returns the number of failures.
fn run_on(workspace: &Workspace, args: &Args, name: &str, server: SocketAddr) -> Result<usize> {
    let (start, only) = (Instant::now(), args.only.as_deref());
    let mut failed = 0;
    // `cargo test` has run these tests on Oxkeeper.
    if name != Software::Oxkeeper.to_string() && only.is_none_or(|only| CRATE_TESTS.contains(only)) {
        failed += usize::from(!print_result(CRATE_TESTS, name, crate_tests::run(workspace, server)));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    failed += runtime.block_on(async {
        let mut runner = RecipeRunner::start(workspace, name, server, ROUNDS[usize::from(args.full)], only)?;
        locks::run(&mut runner).await;
        coordination::run(&mut runner).await;
        queues::run(&mut runner).await;
        locks::run_last(&mut runner).await;
        anyhow::Ok(runner.failed())
    })?;
    eprintln!("recipes on {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(failed)
}

/// Prints the result of a case. Returns whether it passed.
fn print_result(case: &str, server: &str, result: Result<()>) -> bool {
    match &result {
        Ok(()) => println!("recipes: ok   {case} on {server}"),
        Err(e) => println!("recipes: fail {case} on {server}: {e:#}"),
    }
    result.is_ok()
}
