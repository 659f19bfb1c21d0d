//! `oxkeeper cli`: the interactive shell.

use std::process::ExitCode;

/// The shell parses its own options, because `zkCli.sh` accepts long options with one dash.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oxkeeper cli [-server host:port[,host:port][/chroot]] [-timeout ms] [-r] [-waitforconnection] [--json] [--yes] [command...]",
    after_help = "\
Options of zkCli.sh:
  -server <host:port,...[/chroot]>  Servers, localhost:2181 unless told
  -timeout <ms>                     Session timeout, 30000 unless told
  -r                                A server that lost the others will do for reading
  -waitforconnection                Wait for the connection before anything else
  -client-configuration <file>      Accepted; TLS and SASL are not there yet

And ours:
  --json                            Listings as JSON
  --yes                             Do not ask before much is deleted

Without a command, commands are read from the terminal or from standard input; `help` lists them."
)]
pub(crate) struct Args {
    /// Options, and a command with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: Args) -> ExitCode {
    ExitCode::from(ox_shell::main(args.words))
}
