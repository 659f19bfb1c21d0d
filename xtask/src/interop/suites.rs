//! The client suites: how to build and start each of them.
//!
//! A suite is a program under `interop/<name>`. Its arguments are the three addresses of [`super::fixture`], its output
//! are the lines of [`super::report`].

mod c;
mod c_packages;
pub(crate) mod debian;
mod go;
pub(crate) mod java;
mod kazoo;
mod node;
mod rust;

use std::process::Command;

use anyhow::{Result, ensure};

use super::tool;
use super::workspace::Workspace;
pub(crate) use go::SUITE as GO;
pub(crate) use java::SUITE as JAVA;
pub(crate) use kazoo::{SUITE as KAZOO, prepare_kerberos as prepare_kazoo_kerberos, program as kazoo_program};
pub(crate) use rust::{SUITE as RUST, program as rust_program};

/// A test program for one client library.
pub(crate) struct Suite {
    /// Its name on the command line, in the summary line and in the table of results.
    pub(crate) name: &'static str,
    /// Programs that must be on PATH.
    needs: &'static [&'static str],
    /// Downloads and builds. Returns soon if everything is in the cache.
    prepare: fn(&Workspace) -> Result<()>,
    /// The command without the addresses.
    command: fn(&Workspace) -> Command,
}

/// All suites, the most extensive first.
pub(crate) const ALL: [Suite; 7] =
    [java::SUITE, kazoo::SUITE, kazoo::BUNDLED_SUITE, c::SUITE, go::SUITE, node::SUITE, rust::SUITE];

impl Suite {
    /// Checks that the required programs exist, then downloads and builds.
    pub(crate) fn prepare(&self, workspace: &Workspace) -> Result<()> {
        for program in self.needs {
            ensure!(tool::exists(program), "`{program}` is not on PATH\nhint: the {} suite needs it", self.name);
        }
        (self.prepare)(workspace)
    }

    /// The command that runs the suite, without the addresses.
    pub(crate) fn command(&self, workspace: &Workspace) -> Command {
        (self.command)(workspace)
    }
}
