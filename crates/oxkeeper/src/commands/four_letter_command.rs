//! `oxkeeper 4lw`: sends a four-letter command.

use super::output::{BAD, GOOD, UNKNOWN, conclude};
use crate::four_letter::{self, Reply};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: srvr, stat, mntr, ruok, isro, conf, cons, dirs, dump, envi, hash, wchs, wchc, wchp, srst, crst, gtmk.
Servers execute srvr always, and others that 4lw.commands.whitelist contains.
With zookeeper.client.secure=true in CLIENT_JVMFLAGS or --client-configuration the command goes over TLS, with the
stores of zookeeper.ssl.*.
Exit code: 0 with a reply, 1 if the server does not execute the command, 2 without a reply.")]
pub(crate) struct Args {
    /// The four-letter command, as srvr or mntr
    #[arg(value_parser = check_command)]
    command: String,
    /// Client port of the server to ask; of a list, the first one is asked
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:2181", env = "OXKEEPER_SERVER")]
    server: String,
    /// A properties file with the TLS and SASL settings of a client, as zkCli takes it
    #[arg(long, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    /// Seconds to wait for the reply
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// A server waits for more bytes after three letters, and takes five for the start of a request.
fn check_command(text: &str) -> Result<String, String> {
    match text.len() == 4 && text.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        true => Ok(text.to_owned()),
        false => Err("a command has four letters, for example srvr".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let Args { command, server, client_configuration, timeout } = args;
    let server = four_letter::with_port(server.split([',', '/']).next().unwrap_or_default().trim());
    conclude(|out| {
        let tls = four_letter::tls(&four_letter::client_properties_with(client_configuration.as_deref())?)?;
        match four_letter::ask(&server, command, tls.as_ref(), Duration::from_secs(*timeout)) {
            Ok(Reply::Text(text)) => {
                write!(out, "{text}{}", if text.ends_with('\n') { "" } else { "\n" })?;
                Ok(GOOD)
            }
            Ok(Reply::NotAllowed(_)) => {
                crate::say(format_args!(
                    "error: {server} does not execute {command}: add it to 4lw.commands.whitelist and restart the server"
                ));
                Ok(BAD)
            }
            Err(error) => {
                crate::say(format_args!("error: no reply from {server}: {}", ox_shell::four_letter::cause(&error)));
                Ok(UNKNOWN)
            }
        }
    })
}
