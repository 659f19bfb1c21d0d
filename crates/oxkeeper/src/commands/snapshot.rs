//! `oxkeeper snapshot`: what is in a snapshot, whether it is whole, what takes the space, and what two of them differ in.

mod check;
mod compare;
mod dump;
mod source;
mod summary;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Print sessions and nodes, in the format of Apache's toolkit
    Dump(dump::Args),
    /// Verify checksums, structure and digest
    Check(check::Args),
    /// Nodes and bytes by subtree, in the format of Apache's toolkit
    Summary(summary::Args),
    /// What two snapshots, or two directories, differ in
    Compare(compare::Args),
}

/// Runs a snapshot command.
pub(crate) fn run(command: &SnapshotCommand) -> ExitCode {
    match command {
        SnapshotCommand::Dump(args) => dump::run(args),
        SnapshotCommand::Check(args) => check::run(args),
        SnapshotCommand::Summary(args) => summary::run(args),
        SnapshotCommand::Compare(args) => compare::run(args),
    }
}
