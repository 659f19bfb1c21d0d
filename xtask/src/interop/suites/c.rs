//! Apache's C client library and its shell, from Debian's packages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::suites::c_packages;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(super) const SUITE: Suite = Suite { name: "c", needs: &["gcc"], prepare, command };

fn prepare(workspace: &Workspace) -> Result<()> {
    c_packages::install_c_client()?;
    let source = workspace.source("c");
    let stamp = workspace.cache("c").join("stamp");
    std::fs::create_dir_all(workspace.cache("c"))?;
    tool::once(&stamp, &[&source], || {
        let mut files = std::fs::read_dir(&source)?
            .map(|entry| Ok(PathBuf::from(entry?.file_name())))
            .collect::<Result<Vec<_>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
        tool::run(
            Command::new("gcc")
                .args([
                    "-std=gnu11",
                    "-O1",
                    "-g",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-DTHREADED",
                    "-I/usr/include/zookeeper",
                ])
                .arg("-o")
                .arg(program(workspace))
                .args(&files)
                .args(["-lzookeeper_mt", "-lpthread"])
                // Failure messages then contain the file names without directories.
                .current_dir(&source),
        )
        .context("build the C suite")
    })
}

fn command(workspace: &Workspace) -> Command {
    let mut command = Command::new(program(workspace));
    command.env("CLI_MT", c_packages::CLI_MT);
    command
}

fn program(workspace: &Workspace) -> PathBuf {
    workspace.cache("c").join("suite")
}
