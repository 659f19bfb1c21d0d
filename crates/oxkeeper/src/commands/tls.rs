//! `oxkeeper tls`: certificates for development, and what would fail before a server is restarted.

mod check;
mod check_config;
mod check_server;
mod describe;
pub(super) mod init;
mod server_settings;

use anyhow::Result;
pub(super) use describe::TlsProblem;
use ox_config::SystemProperties;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TlsCommand {
    /// Make a development CA and certificates for an ensemble
    Init(init::Args),
    /// Explain the TLS settings of a zoo.cfg or of a running server, and report what would fail
    Check(check::Args),
}

pub(crate) fn run(command: &TlsCommand) -> ExitCode {
    match command {
        TlsCommand::Init(args) => init::run(args),
        TlsCommand::Check(args) => check::run(args),
    }
}

/// What would fail, or deserves a warning, with the certificates of a `zoo.cfg`.
pub(super) fn problems(file: &Path, system: &SystemProperties) -> Result<Vec<TlsProblem>> {
    Ok(check_config::check(file, system)?.problems())
}

/// The current time in seconds since 1970.
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
