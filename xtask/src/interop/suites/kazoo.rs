//! kazoo: our suite, and the tests that are bundled with kazoo.

use std::path::{Path, PathBuf};
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
        install(workspace, &requirements).context("install kazoo")
    })
}

/// Installs what kazoo needs for Kerberos, which is compiled against MIT's library.
pub(crate) fn prepare_kerberos(workspace: &Workspace) -> Result<()> {
    let cache = workspace.cache("kazoo");
    let requirements = workspace.source("kazoo").join("requirements-kerberos.txt");
    // The environment is made again when its own stamp changes.
    tool::once(&cache.join("stamp-kerberos"), &[&requirements, &cache.join("stamp")], || {
        install(workspace, &requirements).context("install kerberos\nhint: it needs krb5-config of libkrb5-dev")
    })
}

fn install(workspace: &Workspace, requirements: &Path) -> Result<()> {
    let mut pip = Command::new(python(workspace));
    tool::run(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(requirements))
}

fn command(workspace: &Workspace) -> Command {
    program(workspace, "main.py")
}

fn bundled_command(workspace: &Workspace) -> Command {
    program(workspace, "bundled_tests.py")
}

/// The command that runs a Python file of the project.
pub(crate) fn program(workspace: &Workspace, file: &str) -> Command {
    let mut command = Command::new(python(workspace));
    // -B: no byte code in the source directory; -u: unbuffered output.
    command.args(["-B", "-u"]).arg(workspace.source("kazoo").join(file));
    command
}

fn python(workspace: &Workspace) -> PathBuf {
    workspace.cache("kazoo").join("venv/bin/python")
}
