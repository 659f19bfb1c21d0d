//! Ensembles of the built binary.

use ox_testkit::{Filters, MemberRole, Network, PeerAddresses, Program, TestEnsemble};
use std::net::Ipv4Addr;
use std::path::Path;

/// The built binary. A member says by its log that it serves clients.
pub(crate) fn program() -> Program {
    let argv = [env!("CARGO_BIN_EXE_oxkeeper"), "server", "{config}", "{properties}"];
    Program { serving_line: Some(" - broadcast"), ..Program::new("Oxkeeper", &argv) }
}

fn members(voters: usize, observers: usize) -> Vec<(Program, MemberRole)> {
    let roles = [vec![MemberRole::Participant; voters], vec![MemberRole::Observer; observers]].concat();
    roles.into_iter().map(|role| (program(), role)).collect()
}

/// Starts voters and observers.
pub(crate) fn start(voters: usize, observers: usize, settings: &str) -> TestEnsemble {
    prepare(voters, observers, settings, &[]).start()
}

/// Starts voters and observers with further arguments of the program.
pub(crate) fn start_with(voters: usize, observers: usize, arguments: &[&str]) -> TestEnsemble {
    let mut members = members(voters, observers);
    for (program, _) in &mut members {
        program.argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }
    TestEnsemble::temporary(members, "preAllocSize=1024\n", &[]).start()
}

/// Prepares voters and observers, with system properties.
pub(crate) fn prepare(voters: usize, observers: usize, settings: &str, properties: &[&str]) -> TestEnsemble {
    TestEnsemble::temporary(members(voters, observers), &format!("preAllocSize=1024\n{settings}"), properties)
}

/// The same in a directory of the caller.
pub(crate) fn prepare_in(
    home: &Path,
    voters: usize,
    observers: usize,
    settings: &str,
    properties: &[&str],
) -> TestEnsemble {
    TestEnsemble::new(home, members(voters, observers), &format!("preAllocSize=1024\n{settings}"), properties)
}

/// Starts an ensemble on a network that can fail.
pub(crate) fn start_on(mut ensemble: TestEnsemble, network: &Network) -> TestEnsemble {
    ensemble.route(|from, to, target| {
        let through =
            |address| if from == to { address } else { network.proxy(from, to, address, |_| Filters::default()) };
        at_localhost(target).map(through)
    });
    ensemble.start()
}

/// The address at which proxies listen: the lines for a member have one address for both ports.
pub(crate) fn at_localhost(target: PeerAddresses) -> PeerAddresses {
    target.map(|address| (Ipv4Addr::LOCALHOST, address.port()).into())
}
