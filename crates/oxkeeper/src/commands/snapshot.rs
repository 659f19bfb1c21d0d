//! `oxkeeper snapshot`: examines, checks, summarises and compares snapshots.

mod check;
mod compare;
mod dump;
mod source;
mod summary;

pub(crate) use compare::{SnapshotComparison, compare_as_apache};
pub(crate) use dump::dump_as_apache;
pub(crate) use summary::summarize_as_apache;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Print sessions and nodes, in the format of Apache's toolkit
    Dump(dump::Args),
    /// Verify checksums, structure and digest
    Check(check::Args),
    /// Nodes and bytes by subtree, in the format of Apache's toolkit
    Summary(summary::Args),
    /// Show how two snapshots or directories differ
    Compare(compare::Args),
}

pub(crate) fn run(command: &SnapshotCommand) -> ExitCode {
    match command {
        SnapshotCommand::Dump(args) => dump::run(args),
        SnapshotCommand::Check(args) => check::run(args),
        SnapshotCommand::Summary(args) => summary::run(args),
        SnapshotCommand::Compare(args) => compare::run(args),
    }
}
