//! `cargo xtask sim`: builds the simulator and runs a range of seeds on all cores.
//!
//! The profile `sim` is as fast as `dist` but unwinds, so that a panic fails one seed and not the whole run.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Flags of `cargo xtask sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Flags of the simulator, which `cargo run -p ox-sim -- --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    eprintln!("building the simulator (the first build takes some minutes)");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--profile", "sim", "--package", "ox-sim", "--"]).args(&args.flags);
    if !command.status().context("run cargo")?.success() {
        bail!("some seeds failed");
    }
    Ok(())
}
