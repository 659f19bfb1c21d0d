//! `oxkeeper 4lw`: sends a four-letter command.

use super::output::{BAD, GOOD, UNKNOWN, conclude};
use crate::four_letter::{self, Reply};
use ox_config::FOUR_LETTER_COMMANDS;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: srvr, stat, mntr, ruok, isro, conf, cons, dirs, dump, envi, hash, wchs, wchc, wchp, srst, crst, gtmk,
and stmk=MASK, which sets the trace mask, as stmk=306.
Servers execute srvr always, and others that 4lw.commands.whitelist contains.
With zookeeper.client.secure=true in CLIENT_JVMFLAGS or --client-configuration the command goes over TLS, with the
stores of zookeeper.ssl.*.
Exit code: 0 with a reply, 1 if the server does not execute the command, 2 without a reply.")]
pub(crate) struct Args {
    /// The four-letter command, as srvr or mntr
    #[arg(value_parser = check_command)]
    command: FourLetterCommand,
    /// Client port of the server to ask; of a list, the first one is asked.
    /// Default: OXKEEPER_SERVER, the server of the profile OXKEEPER_PROFILE, or 127.0.0.1:2181
    #[arg(value_name = "HOST:PORT")]
    server: Option<String>,
    /// A properties file with the TLS and SASL settings of a client, as zkCli takes it
    #[arg(long, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    /// The same by an option, as for other commands
    #[arg(short = 's', long = "server", value_name = "HOST:PORT", conflicts_with = "server")]
    named: Option<String>,
    /// Seconds to wait for the reply
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// The only command with an argument: the trace mask, in eight bytes.
const SET_TRACE_MASK: &str = "stmk";

/// A server closes the connection after an unknown command, without a reply.
fn check_command(text: &str) -> Result<FourLetterCommand, String> {
    let (name, mask) = text.split_once('=').map_or((text, None), |(name, mask)| (name, Some(mask)));
    let mut bytes = name.as_bytes().to_vec();
    match (mask.map(str::parse::<i64>), name == SET_TRACE_MASK) {
        _ if name.len() != 4 => return Err("a command has four letters, for example srvr".to_owned()),
        _ if !FOUR_LETTER_COMMANDS.contains(&name) => {
            return Err(format!("it is not a command; the commands are {}", FOUR_LETTER_COMMANDS.join(", ")));
        }
        (Some(Ok(mask)), true) => bytes.extend(mask.to_be_bytes()),
        (_, true) => return Err("the trace mask is missing, for example stmk=306".to_owned()),
        (Some(_), false) => return Err(format!("{name} takes no argument")),
        (None, false) => (),
    }
    Ok(FourLetterCommand { name: name.to_owned(), bytes })
}

#[derive(Clone, Debug)]
pub(crate) struct FourLetterCommand {
    name: String,
    /// The bytes that are sent.
    bytes: Vec<u8>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let Args { command: FourLetterCommand { name: command, bytes }, timeout, .. } = args;
    let (server, client_configuration) = match target(args) {
        Ok(target) => target,
        Err(error) => {
            crate::say(format_args!("error: {error}"));
            return ExitCode::from(UNKNOWN);
        }
    };
    conclude(|out| {
        let tls = four_letter::tls(&four_letter::client_properties_with(client_configuration.as_deref())?)?;
        match four_letter::ask(&server, bytes, tls.as_ref(), Duration::from_secs(*timeout)) {
            Ok(Reply::Text(text)) => {
                write!(out, "{text}{}", if text.ends_with('\n') { "" } else { "\n" })?;
                Ok(GOOD)
            }
            Ok(Reply::NotAllowed(_)) => {
                crate::say(format_args!(
                    "error: {server} does not execute {command}: add it to 4lw.commands.whitelist, then reload the server by \
                     SIGHUP (restart one of Apache)\n\
                     hint: without a zoo.cfg, start the server with -Dzookeeper.4lw.commands.whitelist=srvr,{command}"
                ));
                Ok(BAD)
            }
            Err(error) => {
                crate::say(format_args!("error: no reply from {server}: {}", ox_shell::four_letter::cause(&error)));
                if let Some(hint) = four_letter::hint(&server, &error) {
                    crate::say(format_args!("{hint}"));
                }
                Ok(UNKNOWN)
            }
        }
    })
}

/// The server to ask, and the file with the settings of a client.
fn target(args: &Args) -> Result<(String, Option<PathBuf>), String> {
    let given = args.named.as_ref().or(args.server.as_ref());
    let profile = ox_shell::named_server(given.cloned(), None)?;
    let servers = profile.server.unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let server = four_letter::server_addresses(&servers)?.swap_remove(0);
    Ok((server, args.client_configuration.clone().or(profile.client_configuration.map(PathBuf::from))))
}
