//! The Debian package on a bare Debian with systemd, in a container: install, start, hang, upgrade, remove, purge.

use super::super::{Built, Release, deb};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of Debian, and what a server needs besides the minimal system.
const SUITE: &str = "bookworm";
const PACKAGES: &str = "procps,systemd";
/// What is checked, as a script of the container.
const SCRIPT: &str = include_str!("deb.sh");
/// Runs the script when the container has started, and ends the container afterwards.
const UNIT: &str = "\
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/check.sh
StandardOutput=file:/check.log
StandardError=file:/check.log
TimeoutStartSec=300
[Install]
WantedBy=multi-user.target
";

pub(super) fn check(release: &Release, built: &Built) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let root = debian(release, directory.path())?;
    std::fs::copy(deb::path(release, built), root.join("package.deb")).context("copy the package")?;
    super::write_script(&root.join("check.sh"), SCRIPT)?;
    std::fs::write(root.join("etc/systemd/system/check.service"), UNIT)?;
    tool::run(Command::new("systemctl").arg("--root").arg(&root).args(["enable", "check.service"]))?;
    let mut container = Command::new("systemd-nspawn");
    container.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "--directory"]);
    let ended = tool::run(container.arg(&root));
    let log = std::fs::read_to_string(root.join("check.log")).unwrap_or_default();
    ended.with_context(|| format!("the script failed; its last lines are\n{}", last_lines(&log)))?;
    ensure!(!log.is_empty(), "the script did not run");
    Ok(())
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// A fresh copy of a minimal Debian, which `debootstrap` downloads once.
fn debian(release: &Release, directory: &Path) -> Result<PathBuf> {
    let template = release.cache("debian");
    if !template.join("etc/debian_version").is_file() {
        let partial = release.cache("debian-partial");
        let _ = std::fs::remove_dir_all(&partial); // may be missing
        std::fs::create_dir_all(&partial)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include", PACKAGES, SUITE]).arg(&partial);
        tool::run(&mut debootstrap).context("make a bare system\nhint: this needs root and the package debootstrap")?;
        std::fs::rename(&partial, &template)?;
    }
    let root = directory.join("root");
    tool::run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(&template).arg(&root))?;
    Ok(root)
}
