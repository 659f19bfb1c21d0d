//! `oxkeeper 4lw`: sends a four-letter command.

use super::output::{BAD, GOOD, UNKNOWN, conclude};
use crate::four_letter::{self, Reply};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: srvr, stat, mntr, ruok, isro, conf, cons, dirs, dump, envi, hash, wchs, wchc, wchp, srst, crst, gtmk.
Servers execute srvr always, and others that 4lw.commands.whitelist contains.
With -Dzookeeper.client.secure=true in CLIENT_JVMFLAGS the command goes over TLS, with the stores of zookeeper.ssl.*.
Exit code: 0 with a reply, 1 if the server does not execute the command, 2 without a reply.")]
pub(crate) struct Args {
    /// The four-letter command, as srvr or mntr
    command: String,
    /// Client port of the server to ask
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:2181")]
    server: String,
    /// Seconds to wait for the reply
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let limit = Duration::from_secs(args.timeout);
        let tls = four_letter::tls(&four_letter::client_properties())?;
        match four_letter::ask(&args.server, &args.command, tls.as_ref(), limit) {
            Ok(Reply::Text(text)) => {
                write!(out, "{text}{}", if text.ends_with('\n') { "" } else { "\n" })?;
                Ok(GOOD)
            }
            Ok(Reply::NotAllowed(_)) => {
                let Args { command, server, .. } = args;
                crate::say(format_args!(
                    "error: {server} does not execute {command}: add it to 4lw.commands.whitelist and restart the server"
                ));
                Ok(BAD)
            }
            Err(error) => {
                let server = four_letter::with_port(&args.server);
                crate::say(format_args!("error: no reply from {server}: {}", ox_shell::four_letter::cause(&error)));
                Ok(UNKNOWN)
            }
        }
    })
}
