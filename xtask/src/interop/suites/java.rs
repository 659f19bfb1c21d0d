//! The suite of Apache's Java client and Curator. Maven compiles it once; later runs do not need Maven.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(crate) const SUITE: Suite = Suite { name: "java", needs: &["java", "mvn"], prepare, command };

fn prepare(workspace: &Workspace) -> Result<()> {
    let source = workspace.source("java");
    let cache = workspace.cache("java");
    let pom = source.join("pom.xml");
    let maven = |goals: &[&str]| {
        tool::run(
            Command::new("mvn")
                .args(["--batch-mode", "--quiet"])
                .args(goals)
                .arg("--file")
                .arg(&pom)
                .arg(format!("-DoutputDirectory={}", lib(workspace).display()))
                .arg(format!("-Dinterop.build={}", cache.join("build").display())),
        )
    };
    tool::once(&cache.join("stamp"), &[&pom, &source.join("src")], || {
        maven(&["compile", "dependency:copy-dependencies"]).context("build the Java suite")
    })
}

fn command(workspace: &Workspace) -> Command {
    java_command(workspace, "oxkeeper.interop.Main")
}

/// The command that runs a main class of the project.
pub(crate) fn java_command(workspace: &Workspace, main: &str) -> Command {
    let classes = workspace.cache("java").join("build/classes");
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-cp"]).arg(format!("{}:{}/*", classes.display(), lib(workspace).display())).arg(main);
    command
}

fn lib(workspace: &Workspace) -> PathBuf {
    workspace.cache("java").join("lib")
}
