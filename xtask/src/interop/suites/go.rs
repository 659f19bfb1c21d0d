//! The suite of the Go client go-zookeeper.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(crate) const SUITE: Suite = Suite { name: "go", needs: &["go"], prepare, command };

fn prepare(workspace: &Workspace) -> Result<()> {
    let source = workspace.source("go");
    tool::once(&workspace.cache("go").join("stamp"), &[&source], || {
        tool::run(
            Command::new("go")
                // By default the module cache is read-only, so that `rm -r` fails.
                .args(["build", "-modcacherw", "-o"])
                .arg(program(workspace))
                .arg(".")
                .env("GOMODCACHE", workspace.cache("go").join("modules"))
                .current_dir(&source),
        )
        .context("build the Go suite")
    })
}

fn command(workspace: &Workspace) -> Command {
    Command::new(program(workspace))
}

fn program(workspace: &Workspace) -> PathBuf {
    workspace.cache("go").join("suite")
}
