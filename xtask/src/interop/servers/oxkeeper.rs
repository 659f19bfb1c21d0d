//! Oxkeeper: the release binary of this workspace.

use std::process::Command;

use anyhow::{Context, Result};

use crate::interop::tool;
use crate::interop::workspace::Workspace;

/// Builds the release binary if the sources have changed.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    tool::run(
        Command::new("cargo").args(["build", "--quiet", "--release", "-p", "oxkeeper"]).current_dir(workspace.root()),
    )
    .context("build oxkeeper")
}

/// The command line of a server in the foreground.
pub(super) fn argv(workspace: &Workspace) -> Vec<String> {
    let binary = workspace.target().join("release/oxkeeper").display().to_string();
    [&binary, "server", "{config}", "{properties}"].map(str::to_owned).to_vec()
}
