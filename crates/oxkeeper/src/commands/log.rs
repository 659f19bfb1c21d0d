//! `oxkeeper log`: prints, checks and recovers transaction logs.

mod check;
mod describe;
mod dump;
mod recover;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Print every transaction, in the format of Apache's toolkit
    Dump(dump::Args),
    /// Verify every record, and whether a server would start
    Check(check::Args),
    /// Show which records of a damaged log can be saved, and write them to a new file
    Recover(recover::Args),
}

pub(crate) fn run(command: &LogCommand) -> ExitCode {
    match command {
        LogCommand::Dump(args) => dump::run(args),
        LogCommand::Check(args) => check::run(args),
        LogCommand::Recover(args) => recover::run(args),
    }
}
