//! `oxkeeper cli`: the interactive shell.

use std::process::ExitCode;

/// The shell parses its own options, because `zkCli.sh` accepts long options with one dash.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oxkeeper cli [options] [command...]",
    after_help = "\
Servers:
  -s, --server <servers>            host:port,...[/chroot], default localhost:2181; zkCli's -server works, too
  --profile <name>                  Server, timeout and credentials from ~/.config/oxkeeper/cli.conf
  OXKEEPER_SERVER, OXKEEPER_PROFILE The same, from the environment; if both are set, OXKEEPER_SERVER wins

Behaviour:
  -timeout, --timeout <ms>          Session timeout; default 30000
  -r, --read-only                   Accept a read-only server
  -e                                Stop a script at the first command that fails
  -waitforconnection, --wait        Wait for the connection before running a command
  --json                            Print listings as JSON
  --yes                             Skip confirmations; only the shell on a terminal asks, single commands and scripts do not
  --zkcli                           Output, prompt and errors of zkCli, byte for byte; also if called zkCli.sh

TLS and SASL, by the properties of Apache's client:
  --client-configuration <file>     Properties, as zookeeper.client.secure=true and zookeeper.ssl.*
  -Dname=value                      One property; the JAAS file is java.security.auth.login.config
  CLIENT_JVMFLAGS, JVMFLAGS         -D words, from the environment

Examples:
  oxkeeper cli                      A shell; `help` lists its commands
  oxkeeper cli ls /                 One command; only data on standard output
  oxkeeper cli -e < commands.txt    Commands from a file

Without a command, the shell reads commands from the terminal or from standard input."
)]
pub(crate) struct Args {
    /// Options, and a command with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: Args) -> ExitCode {
    ExitCode::from(ox_shell::main(args.words))
}

/// Runs the shell in the style of `zkCli`.
pub(crate) fn run_as_zkcli(words: &[String]) -> ExitCode {
    ExitCode::from(ox_shell::main(
        std::iter::once("--zkcli").chain(words.iter().map(String::as_str)).map(str::to_owned),
    ))
}
