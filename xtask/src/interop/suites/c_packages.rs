//! Installs the Debian packages of the C client library and its shell.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::interop::tool;

/// A Debian package, and a file that exists if it is installed.
struct Package {
    name: &'static str,
    file: &'static str,
}

const C_CLIENT: [Package; 2] = [
    Package { name: "libzookeeper-mt-dev", file: "/usr/include/zookeeper/zookeeper.h" },
    Package { name: "zookeeper-bin", file: CLI_MT },
];

/// The C client's interactive shell.
pub(crate) const CLI_MT: &str = "/usr/lib/zookeeper/bin/cli_mt";

/// Installs the packages that are missing.
pub(crate) fn install_c_client() -> Result<()> {
    let missing: Vec<&str> = C_CLIENT.iter().filter(|p| !Path::new(p.file).exists()).map(|p| p.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    if !tool::exists("apt-get") {
        bail!("{wanted}: not installed, and apt-get does not exist\nhint: install the ZooKeeper C client by hand");
    }
    eprintln!("installing {wanted}");
    let install = |command: &mut Command| {
        tool::run(command.args(["apt-get", "install", "--yes", "--no-install-recommends"]).args(&missing))
    };
    let installed = if is_root() {
        install(&mut Command::new("env"))
    } else if tool::exists("sudo") {
        install(Command::new("sudo").arg("--non-interactive"))
    } else {
        bail!("{wanted}: not installed\nhint: run `apt-get install {wanted}` as root");
    };
    installed.map_err(|e| e.context(format!("install {wanted}\nhint: run `apt-get install {wanted}` as root")))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
