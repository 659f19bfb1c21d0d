//! The implementations of the server, and how each is downloaded or built.

pub(crate) mod apache;
mod apache38;
pub(crate) mod oxkeeper;

use super::workspace::Workspace;
use anyhow::Result;
use ox_testkit::{Program, ServerSpec};

/// The super user with password `test`, which kazoo's bundled tests need, too: a value of the property
/// `zookeeper.DigestAuthenticationProvider.superDigest`.
pub(crate) const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// An implementation and version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Software {
    /// Apache ZooKeeper 3.9, which [`apache::fetch`] downloads.
    Apache,
    /// Apache ZooKeeper 3.8, the oldest version for mixed ensembles, which [`apache38::fetch`] downloads.
    Apache38,
    /// Our binary, which [`oxkeeper::build`] builds.
    Oxkeeper,
    /// An earlier version of our binary, given by `--previous`.
    Previous,
}

impl std::fmt::Display for Software {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Software::Apache => "Apache ZooKeeper",
            Software::Apache38 => "Apache ZooKeeper 3.8",
            Software::Oxkeeper => "Oxkeeper",
            Software::Previous => "the previous Oxkeeper",
        })
    }
}

impl Software {
    /// Downloads or builds the server. Returns soon if it is up to date.
    pub(crate) fn prepare(self, workspace: &Workspace) -> Result<()> {
        match self {
            Software::Apache => apache::fetch(workspace),
            Software::Apache38 => apache38::fetch(workspace),
            Software::Oxkeeper => oxkeeper::build(workspace, workspace.profile()).map(drop),
            Software::Previous => workspace.previous().map(drop),
        }
    }

    /// The program that runs a server in the foreground.
    pub(crate) fn program(self, workspace: &Workspace) -> Result<Program> {
        let argv = match self {
            Software::Apache => apache::argv(workspace)?,
            Software::Apache38 => apache38::argv(workspace),
            Software::Oxkeeper => oxkeeper::argv(&oxkeeper::binary(workspace)),
            Software::Previous => oxkeeper::argv(workspace.previous()?),
        };
        Ok(Program { name: self.to_string(), argv, serving_line: None })
    }

    /// A standalone server with the base configuration.
    pub(crate) fn spec(self, workspace: &Workspace) -> Result<ServerSpec> {
        Ok(ServerSpec::new(self.program(workspace)?))
    }
}
