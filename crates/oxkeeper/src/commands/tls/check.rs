//! `oxkeeper tls check`: a configuration before a restart, or a running server.

use super::describe::{Finding, Findings};
use super::{check_config, check_server};
use crate::commands::output::{BAD, GOOD, conclude};
use crate::commands::server::system_properties;
use crate::terminal::Paint;
use clap::builder::ArgAction;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a zoo.cfg: reads the settings as oxkeeper server does, with SERVER_JVMFLAGS and JVMFLAGS, opens the stores, and checks
chains, names of server.N, expiry, protocols and cipher suites.
For a server: shows its certificates and protocols. The trust and key stores of zookeeper.ssl.*, given by -D, by a file or by
CLIENT_JVMFLAGS, decide whether this client and the server accept each other.
Exit code: 0 if nothing fails, 1 if something does, 2 if it could not be determined.

Examples:
  oxkeeper tls check conf/zoo.cfg
  oxkeeper tls check zk1.example.com:2281 --client-configuration client.properties")]
pub(crate) struct Args {
    /// A zoo.cfg, or the address of a server
    #[arg(value_name = "zoo.cfg|HOST:PORT")]
    subject: String,
    /// A system property, e.g. -Dzookeeper.ssl.trustStore.location=ca.pem
    #[arg(short = 'D', value_name = "name=value", action = ArgAction::Append)]
    define: Vec<String>,
    /// A properties file of a client, as zkCli takes it
    #[arg(long, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    /// Seconds to wait for a server
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let paint = Paint::of(&std::io::stdout());
    conclude(|out| {
        let file = Path::new(&args.subject);
        let is_address = !file.exists() && args.subject.contains(':');
        let findings = if is_address {
            let properties = client_properties(args)?;
            check_server::check(&args.subject, &properties, Duration::from_secs(args.timeout))?
        } else {
            check_config::check(file, &system_properties(&args.define))?
        };
        if args.json {
            writeln!(out, "{}", findings.in_json())?;
        } else {
            findings.print(paint, out)?;
            writeln!(out, "{}", summary(&findings))?;
        }
        Ok(if findings.has_failure() { BAD } else { GOOD })
    })
}

fn client_properties(args: &Args) -> anyhow::Result<ox_client::ClientProperties> {
    let mut properties = crate::four_letter::client_properties_with(args.client_configuration.as_deref())?;
    args.define.iter().for_each(|definition| properties.add_flags(&format!("-D{definition}")));
    Ok(properties)
}

fn summary(findings: &Findings) -> String {
    let counts = [(Finding::Failure, "failure"), (Finding::Warning, "warning")];
    let [failures, warnings] = counts.map(|(finding, word)| {
        let count = findings.count(finding);
        format!("{count} {word}{}", if count == 1 { "" } else { "s" })
    });
    format!("{failures}, {warnings}")
}
