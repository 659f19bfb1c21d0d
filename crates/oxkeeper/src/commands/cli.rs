//! `oxkeeper cli`: the interactive shell.

use std::process::ExitCode;

/// The shell parses its own options, because `zkCli.sh` accepts long options with one dash.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oxkeeper cli [-server host:port[,host:port][/chroot]] [-timeout ms] [-r] [-waitforconnection] [--json] [--yes] [command...]",
    after_help = "\
Options of zkCli.sh:
  -server <host:port,...[/chroot]>  Servers; default localhost:2181
  -timeout <ms>                     Session timeout; default 30000
  -r                                Accept a read-only server
  -waitforconnection                Wait for the connection before running a command
  -client-configuration <file>      Must exist; TLS and SASL are not supported yet

Options of Oxkeeper:
  --json                            Print listings as JSON
  --yes                             Skip confirmations

Without a command, the shell reads commands from the terminal or from standard input; `help` lists them."
)]
pub(crate) struct Args {
    /// Options, and a command with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: Args) -> ExitCode {
    ExitCode::from(ox_shell::main(args.words))
}
