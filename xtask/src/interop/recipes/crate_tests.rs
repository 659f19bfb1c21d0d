//! Runs the tests of `ox-client` and `ox-recipes` on a given server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::interop::tool;
use crate::interop::workspace::Workspace;

/// The crates whose tests can run on any server.
const CRATES: [&str; 2] = ["ox-client", "ox-recipes"];

/// The environment variable with the address of that server.
const SERVER: &str = "OX_TEST_SERVER";

pub(super) fn run(workspace: &Workspace, server: SocketAddr) -> Result<()> {
    let run = &|program: PathBuf| tool::run(Command::new(program).env(SERVER, server.to_string()));
    let programs = programs(workspace)?;
    // In parallel, because the tests mostly wait.
    std::thread::scope(|scope| {
        let running: Vec<_> = programs.into_iter().map(|program| scope.spawn(move || run(program))).collect();
        running.into_iter().try_for_each(|running| running.join().expect("no panic"))
    })
}

/// Builds the tests and returns the programs of [`CRATES`]. Builds the whole workspace, as `cargo test --workspace`
/// does, so that cargo can reuse its output.
fn programs(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let arguments = ["test", "--workspace", "--no-run", "--quiet", "--message-format=json", "--test", "it"];
    let output = Command::new("cargo").args(arguments).current_dir(workspace.root()).output().context("run cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let found: Vec<PathBuf> = String::from_utf8(output.stdout)?.lines().filter_map(program).collect();
    ensure!(found.len() == CRATES.len(), "expected {} test programs, found {found:?}", CRATES.len());
    Ok(found)
}

/// The test program in a JSON line of cargo, if it belongs to [`CRATES`].
fn program(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let package = message["package_id"].as_str()?;
    let is_ours = CRATES.iter().any(|name| package.contains(&format!("/crates/{name}#")));
    message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_json_of_cargo() {
        let line = |name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///x/crates/{name}#0.1.0","executable":"/t/it-1"}}"#
            )
        };
        assert_eq!(program(&line("ox-client")), Some(PathBuf::from("/t/it-1")));
        assert_eq!(program(&line("ox-server")), None);
        assert_eq!(program(r#"{"package_id":"path+file:///x/crates/ox-client#0.1.0","executable":null}"#), None);
    }
}
