//! kazoo: our suite, and the tests that are bundled with kazoo.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(crate) const SUITE: Suite = Suite { name: "kazoo", needs: &["python3"], prepare, command };
pub(super) const BUNDLED_SUITE: Suite =
    Suite { name: "kazoo-bundled", needs: &["python3"], prepare, command: bundled_command };

fn prepare(workspace: &Workspace) -> Result<()> {
    let requirements = workspace.source("kazoo").join("requirements.txt");
    let venv = workspace.cache("kazoo").join("venv");
    tool::once(&workspace.cache("kazoo").join("stamp"), &[&requirements], || {
        tool::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv)).context("create a venv")?;
        tool::run(
            Command::new(python(workspace))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
                .arg(&requirements),
        )
        .context("install kazoo")
    })
}

fn command(workspace: &Workspace) -> Command {
    program(workspace, "main.py")
}

fn bundled_command(workspace: &Workspace) -> Command {
    program(workspace, "bundled_tests.py")
}

fn program(workspace: &Workspace, file: &str) -> Command {
    let mut command = Command::new(python(workspace));
    // -B: no byte code in the source directory; -u: unbuffered output.
    command.args(["-B", "-u"]).arg(workspace.source("kazoo").join(file));
    command
}

fn python(workspace: &Workspace) -> PathBuf {
    workspace.cache("kazoo").join("venv/bin/python")
}
