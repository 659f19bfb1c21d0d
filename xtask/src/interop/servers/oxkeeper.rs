//! Oxkeeper: the binary of this workspace, with the profile of the interop tests, or `dist` for measurements.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::interop::tool;
use crate::interop::workspace::Workspace;

/// Builds the binary with a profile of the workspace, if the sources have changed, and returns its path.
pub(crate) fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--profile", profile, "-p", "oxkeeper"];
    tool::run(Command::new("cargo").args(arguments).current_dir(workspace.root())).context("build oxkeeper")?;
    Ok(path(workspace, profile))
}

fn path(workspace: &Workspace, profile: &str) -> PathBuf {
    let directory = if profile == "dev" { "debug" } else { profile };
    workspace.target().join(directory).join("oxkeeper")
}

/// The binary of the interop tests, after it has been built.
pub(crate) fn binary(workspace: &Workspace) -> PathBuf {
    path(workspace, workspace.profile())
}

/// The command line of a server in the foreground.
pub(super) fn argv(binary: &Path) -> Vec<String> {
    let binary = binary.display().to_string();
    [&binary, "server", "{config}", "{properties}"].map(str::to_owned).to_vec()
}
