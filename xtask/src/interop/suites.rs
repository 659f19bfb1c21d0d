//! The client suites: how each is prepared and started.
//!
//! A suite is a program under `interop/<name>` that takes three addresses (see [`super::fixture`]) and prints the lines
//! of [`super::report`].

mod c;
mod c_packages;
mod go;
pub(crate) mod java;
mod kazoo;
mod node;
mod rust;

use std::process::Command;

use anyhow::{Result, ensure};

use super::tool;
use super::workspace::Workspace;
pub(crate) use java::SUITE as JAVA;

/// One client program.
pub(crate) struct Suite {
    /// Name in command line, closing line and summary.
    pub(crate) name: &'static str,
    /// Programs that must be on PATH.
    needs: &'static [&'static str],
    /// Downloads and builds; cheap when there is nothing to do.
    prepare: fn(&Workspace) -> Result<()>,
    /// The program, without its arguments.
    command: fn(&Workspace) -> Command,
}

/// All suites, the broadest first.
pub(crate) const ALL: [Suite; 7] =
    [java::SUITE, kazoo::SUITE, kazoo::OWN_SUITE, c::SUITE, go::SUITE, node::SUITE, rust::SUITE];

impl Suite {
    /// Makes the suite ready to run.
    pub(crate) fn prepare(&self, workspace: &Workspace) -> Result<()> {
        for program in self.needs {
            ensure!(tool::exists(program), "`{program}` is not on PATH\nhint: the {} suite needs it", self.name);
        }
        (self.prepare)(workspace)
    }

    /// The command that runs it.
    pub(crate) fn command(&self, workspace: &Workspace) -> Command {
        (self.command)(workspace)
    }
}
