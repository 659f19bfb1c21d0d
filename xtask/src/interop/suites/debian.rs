//! Installs Debian packages that tests need.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::interop::tool;

/// A Debian package, and a file that exists if it is installed.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
}

/// Installs the packages that are missing.
pub(crate) fn install(packages: &[Package]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().filter(|p| !Path::new(p.file).exists()).map(|p| p.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    if !tool::exists("apt-get") {
        bail!("{wanted}: not installed, and apt-get does not exist\nhint: install it by hand");
    }
    eprintln!("installing {wanted}");
    let install_with = |command: &mut Command| {
        tool::run(command.args(["apt-get", "install", "--yes", "--no-install-recommends"]).args(&missing))
    };
    let installed = if is_root() {
        install_with(&mut Command::new("env"))
    } else if tool::exists("sudo") {
        install_with(Command::new("sudo").arg("--non-interactive"))
    } else {
        bail!("{wanted}: not installed\nhint: run `apt-get install {wanted}` as root");
    };
    installed.map_err(|e| e.context(format!("install {wanted}\nhint: run `apt-get install {wanted}` as root")))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
