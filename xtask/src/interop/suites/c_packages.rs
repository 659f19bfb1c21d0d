//! The Debian packages of the C client library and its shell.

use super::debian::{self, Package};
use anyhow::Result;

const C_CLIENT: [Package; 2] = [
    Package { name: "libzookeeper-mt-dev", file: "/usr/include/zookeeper/zookeeper.h" },
    Package { name: "zookeeper-bin", file: CLI_MT },
];

/// The C client's interactive shell.
pub(crate) const CLI_MT: &str = "/usr/lib/zookeeper/bin/cli_mt";

/// Installs the packages that are missing.
pub(crate) fn install_c_client() -> Result<()> {
    debian::install(&C_CLIENT)
}
