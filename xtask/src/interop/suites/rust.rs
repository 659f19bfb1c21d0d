//! The suite of the Rust crate zookeeper-client, in a separate cargo workspace.

use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(crate) const SUITE: Suite = Suite { name: "rust", needs: &["cargo"], prepare, command };

fn prepare(workspace: &Workspace) -> Result<()> {
    tool::run(
        Command::new("cargo")
            .args(["build", "--quiet", "--locked", "--target-dir"])
            .arg(workspace.cache("rust"))
            .current_dir(workspace.source("rust")),
    )
    .context("build the Rust suite")
}

fn command(workspace: &Workspace) -> Command {
    program(workspace, "suite")
}

/// The command that runs a program of the project.
pub(crate) fn program(workspace: &Workspace, name: &str) -> Command {
    Command::new(workspace.cache("rust").join("debug").join(name))
}
