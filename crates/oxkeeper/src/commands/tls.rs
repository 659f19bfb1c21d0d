//! `oxkeeper tls`: certificates for development, and what would fail before a server is restarted.

mod check;
mod check_config;
mod check_server;
mod describe;
pub(super) mod init;
mod server_settings;

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

/// The current time in seconds since 1970.
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
