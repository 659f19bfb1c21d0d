//! `cargo xtask interop security`: TLS and SASL with real peers.

mod client;
mod client_kerberos;
mod client_stores;
mod client_transcripts;

use super::workspace::Workspace;
use anyhow::Result;

/// Runs all parts. `profile` is the Cargo profile of our binary.
pub(crate) fn run(workspace: &Workspace, profile: &str) -> Result<()> {
    client::run(workspace, profile)
}
