//! The Java library in a program of another project, with Curator.

use super::super::{Release, jar};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub(super) fn check(release: &Release) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let source = release.source("java/example");
    let pom = source.join("pom.xml");
    let libraries = release.cache("java-example");
    tool::once(&libraries.join("stamp"), &[&pom], || {
        let output = format!("-DoutputDirectory={}", libraries.display());
        let goal = ["--batch-mode", "--quiet", "dependency:copy-dependencies", "--file"];
        tool::run(Command::new("mvn").args(goal).arg(&pom).arg(output)).context("download the libraries")
    })?;
    let path = format!("{}:{}/*:{}", jar::path(release).display(), libraries.display(), directory.path().display());
    let mut compiler = Command::new("javac");
    compiler.args(["-Xlint:-options", "-cp", &path, "-d"]).arg(directory.path()).arg(source.join("Example.java"));
    tool::run(&mut compiler).context("compile the program")?;
    let said = tool::output(Command::new("java").args(["-cp", &path, "Example"]).current_dir(directory.path()))?;
    ensure!(said.lines().any(|line| line == "all passed"), "the program printed {said}");
    Ok(())
}
