//! `cargo xtask dist --check`: installs what was built as a user would, outside the project, and uses it.

mod chart;
mod deb;
mod image;
mod jar;
mod sbom;
mod wheel;

use super::{Artefact, Built, Release, binary};
use crate::catch::catching;
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use ox_testkit::{Process, Program, ServerSpec, ServerUnderTest};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks an artefact. Those of other architectures are started by an emulator where that is possible.
pub(super) fn run(release: &Release, artefact: Artefact, built: &[Built]) -> Result<()> {
    let native = || built.iter().find(|built| built.arch.is_native());
    let needed = || native().context("--check needs the architecture of this machine");
    match artefact {
        Artefact::Binary => built.iter().try_for_each(starts),
        Artefact::Deb => deb::check(release, needed()?),
        Artefact::Image => needed().and_then(|_| image::check(release)),
        Artefact::Chart => chart::check(release),
        Artefact::Crates => return Ok(()), // building it is the check
        Artefact::Sbom => sbom::check(release),
        Artefact::Wheel => wheel::check(release, needed()?),
        Artefact::Jar => needed().and_then(|_| jar::check(release)),
    }?;
    println!("checked: {artefact:?}");
    Ok(())
}

/// Starts a binary, and creates and reads a node.
fn starts(built: &Built) -> Result<()> {
    let run = binary::runs(&built.path, built.arch);
    let words = std::iter::once(run.get_program()).chain(run.get_args()).map(|word| word.display().to_string());
    let argv = words.chain(["server", "{config}", "{properties}"].map(str::to_owned)).collect();
    let program = Program { name: "oxkeeper".to_owned(), argv, serving_line: None };
    let directory = tempfile::tempdir()?;
    let server = ServerSpec::new(program).start_in(directory.path())?;
    if built.arch.is_native() {
        returns_memory(&server)?;
    }
    let address = server.address().to_string();
    create_and_get(|arguments| {
        let mut command = binary::runs(&built.path, built.arch);
        command.args(["cli", "-s", &address]).args(arguments);
        command
    })
}

/// Checks that the allocator's background thread runs, which gives freed memory back while a server is idle. Its build
/// script does not promise that for musl.
fn returns_memory(server: &ServerUnderTest) -> Result<()> {
    let mut names = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{}/task", server.process().id()))? {
        names.push(std::fs::read_to_string(thread?.path().join("comm"))?);
    }
    ensure!(names.iter().any(|name| name.starts_with("jemalloc_bg")), "the allocator has no thread: {names:?}");
    Ok(())
}

/// Creates a node, and reads it. `shell` makes the command that runs one command of the shell.
fn create_and_get(shell: impl Fn(&[&str]) -> Command) -> Result<()> {
    tool::run(&mut shell(&["create", "/dist", "checked"])).context("create a node")?;
    let read = tool::output(&mut shell(&["get", "/dist"])).context("read the node")?;
    ensure!(read.lines().any(|line| line == "checked"), "the node has other data: {read}");
    Ok(())
}

/// Waits for the line that a server logs when it serves, and returns its address for clients.
fn await_ready(process: &mut Process) -> Result<SocketAddr> {
    let line = catching(|| Ok(process.wait_for(" ready mode=")))?;
    let address = line.split_whitespace().find_map(|word| word.strip_prefix("address="));
    address.and_then(|address| address.parse().ok()).with_context(|| format!("no address in {line}"))
}

/// Stops a server as a supervisor does, and checks that it ends cleanly.
fn stop(process: Process) -> Result<()> {
    process.signal("TERM");
    let ended = catching(|| Ok(process.end()))?;
    ensure!(ended.status.code() == Some(0), "it ended with {}\n{}", ended.status, ended.said);
    Ok(())
}

/// A virtual environment of Python in a directory, with these packages.
fn python(directory: &Path, packages: &[&str]) -> Result<PathBuf> {
    let venv = directory.join("venv");
    tool::run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context("create a venv")?;
    tool::run(Command::new(venv.join("bin/pip")).args(["install", "--quiet"]).args(packages))
        .with_context(|| format!("install {}", packages.join(" ")))?;
    Ok(venv.join("bin"))
}

/// Writes an executable file.
fn write_script(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))?;
    Ok(())
}
