//! TLS and SASL with real peers: `cargo xtask interop security`.

mod c_client;
mod certificates;
mod client;
mod client_kerberos;
mod client_stores;
mod client_transcripts;
mod kdc;
mod migration;
mod quorum;
mod sasl;
mod ticket_lifetime;
mod tls_suites;

pub(super) use migration::ProtectedWriter;

use std::time::Instant;

use anyhow::{Result, ensure};

use super::Args;
use super::workspace::Workspace;
use crate::catch::catching;

/// A case runs in an empty directory.
struct Case {
    name: &'static str,
    run: fn(&Workspace, &std::path::Path) -> Result<()>,
}

/// Runs all cases, or those whose name contains `only`; without that, also clients over TLS, and our client and tools
/// with Apache servers. `--full`, or its name with `--only`, adds the C client, which is built first.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let only = args.only.as_deref();
    let is_selected = |case: &&Case| only.is_none_or(|only| case.name.contains(only));
    if sasl::CASES.iter().any(|case| is_selected(&case)) {
        sasl::prepare(workspace)?;
    }
    let certificates = [Case { name: "certificates", run: certificates::run }];
    let c_client = (args.full || only.is_some()).then_some(Case { name: "C client", run: c_client::run });
    let cases = sasl::CASES.iter().chain(&certificates).chain(quorum::CASES).chain(&c_client).filter(is_selected);
    let (mut count, mut failures) = (0, 0);
    for Case { name, run } in cases {
        let home = tempfile::Builder::new().prefix("oxkeeper-security-").tempdir()?;
        let start = Instant::now();
        let result = catching(|| run(workspace, home.path()));
        let seconds = start.elapsed().as_secs_f64();
        count += 1;
        match result {
            Ok(()) => println!("ok   {name}, {seconds:.1} s"),
            Err(e) => {
                failures += 1;
                println!("fail {name}: {e:#}\nfiles kept in {}, {seconds:.1} s", home.keep().display());
            }
        }
    }
    println!("security: {} of {count} passed", count - failures);
    ensure!(0 < count, "no case matches --only");
    ensure!(failures == 0, "{failures} of {count} cases failed");
    if only.is_some() {
        return Ok(());
    }
    tls_suites::run(workspace, args.verbose)?;
    client::run(workspace)
}
