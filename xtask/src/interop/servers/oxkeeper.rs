//! Oxkeeper: the release binary of this workspace.

use std::path::Path;
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

/// The command that runs a server in the foreground.
pub(super) fn command(workspace: &Workspace, config: &Path, properties: &[(String, String)]) -> Command {
    let mut command = Command::new(workspace.target().join("release/oxkeeper"));
    command.arg("server").arg(config).args(properties.iter().map(|(name, value)| format!("-D{name}={value}")));
    command
}
