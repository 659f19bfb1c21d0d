//! `oxkeeper tls init`: a development CA, and a key store for each server and for clients.
//!
//! ```text
//! DIR/ca.pem             the CA's certificate: trust store of all
//! DIR/ca-key.pem         its key; only this command needs it
//! DIR/server.N.pem       key store of a server
//! DIR/client.pem         key store of clients
//! DIR/client.properties  settings of clients, for --client-configuration
//! ```

use super::now;
use super::server_settings;
use crate::commands::output::{GOOD, conclude};
use anyhow::{Context, Result, ensure};
use ox_tls::CertificateInfo;
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;
/// Certificates are valid a little before they are made, because clocks differ.
const CLOCK_MARGIN_SECONDS: i64 = 60 * 60;
const CA_DAYS: i64 = 3650;
/// Names with which every server can be reached from its own machine.
pub(crate) const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The settings of clients, in the directory.
pub(crate) const CLIENT_PROPERTIES: &str = "client.properties";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For development and tests: the key of the CA is not encrypted, and nothing renews the certificates.
An existing CA and existing certificates are kept, so that servers can be added later.
Every server's certificate is also valid for localhost.

Examples:
  oxkeeper tls init --config conf/zoo.cfg             a certificate for each server.N line
  oxkeeper tls init zk1.example.com zk2.example.com   server.1 and server.2")]
pub(crate) struct Args {
    /// Host names or addresses, one server each
    #[arg(value_name = "HOST", conflicts_with = "config")]
    hosts: Vec<String>,
    /// Take the servers from the server.N lines of this zoo.cfg, or of its dynamicConfigFile
    #[arg(long, value_name = "zoo.cfg")]
    config: Option<PathBuf>,
    /// Directory for the files
    #[arg(long, value_name = "DIR", default_value = "tls")]
    out: PathBuf,
    /// Name of the client certificate, which is its x509 identity CN=NAME
    #[arg(long, value_name = "NAME", default_value = "client")]
    client: String,
    /// Days until the certificates expire
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Replace certificates that exist; the CA is kept
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let servers = servers(args)?;
        let files = DevelopmentFiles { servers: &servers, client: &args.client, days: args.days, force: args.force };
        let directory = files.write(&args.out, out)?;
        next_steps(&directory, &servers, out)?;
        Ok(GOOD)
    })
}

/// The files of a development CA.
pub(crate) struct DevelopmentFiles<'a> {
    /// Names of servers, with the names and addresses that their certificates are for.
    pub(crate) servers: &'a BTreeMap<String, Vec<String>>,
    /// Name of the client certificate.
    pub(crate) client: &'a str,
    pub(crate) days: u32,
    /// Replace certificates that exist.
    pub(crate) force: bool,
}

impl DevelopmentFiles<'_> {
    /// Whether the files were made for another place: they name each other by absolute paths.
    pub(crate) fn are_moved(directory: &Path) -> Result<bool> {
        let read = fs::read_to_string(directory.join(CLIENT_PROPERTIES));
        let text = read.with_context(|| format!("read {CLIENT_PROPERTIES} in {}", directory.display()))?;
        Ok(text != client_properties(&directory.canonicalize()?))
    }

    /// Writes what is missing, and returns the absolute path of the directory.
    pub(crate) fn write(&self, directory: &Path, out: &mut dyn Write) -> Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("create the directory {}", directory.display()))?;
        let directory = directory.canonicalize().with_context(|| format!("open {}", directory.display()))?;
        let ca = authority(&directory, out)?;
        let validity = validity(i64::from(self.days));
        let mut issue = |name: &str, subject: &CertificateSubject, hosts: &[String], text: &str| -> Result<()> {
            let file = directory.join(format!("{name}.pem"));
            if file.exists() && !self.force {
                writeln!(out, "kept {}, which exists; --force replaces it", file.display())?;
                let missing = missing_names(&file, hosts);
                if !missing.is_empty() {
                    writeln!(out, "warning: it is not valid for {}", missing.join(", "))?;
                }
                return Ok(());
            }
            write_secret(&file, &ca.issue(subject, validity)?.key_store())?;
            writeln!(out, "wrote {}, {text}", file.display())?;
            Ok(())
        };
        for (name, hosts) in self.servers {
            issue(name, &subject(hosts), hosts, &format!("valid for {}", hosts.join(", ")))?;
        }
        let client = CertificateSubject { common_name: self.client.to_owned(), host_names: vec![], addresses: vec![] };
        issue("client", &client, &[], &format!("of the client CN={}", self.client))?;
        let properties = directory.join(CLIENT_PROPERTIES);
        fs::write(&properties, client_properties(&directory))
            .with_context(|| format!("write {}", properties.display()))?;
        writeln!(out, "wrote {}", properties.display())?;
        Ok(directory)
    }
}

/// The names for which the certificate of a key store is not valid.
fn missing_names<'a>(file: &Path, hosts: &'a [String]) -> Vec<&'a str> {
    let certificate = CertificateDer::from_pem_file(file).ok().and_then(|der| CertificateInfo::parse(&der).ok());
    let is_missing = |host: &str| certificate.as_ref().is_none_or(|certificate| !certificate.is_valid_for(host));
    hosts.iter().map(String::as_str).filter(|host| is_missing(host)).collect()
}

/// Names of servers, with the names and addresses that their certificates are for.
fn servers(args: &Args) -> Result<BTreeMap<String, Vec<String>>> {
    let mut servers = BTreeMap::new();
    if let Some(config) = &args.config {
        let mut lines = server_settings::read_lines(config)?;
        server_settings::add_dynamic_file(&mut lines)?;
        for (id, hosts) in server_settings::hosts(&lines)? {
            servers.insert(format!("server.{}", id.0), hosts);
        }
    }
    for (host, number) in args.hosts.iter().zip(1..) {
        servers.insert(format!("server.{number}"), vec![host.clone()]);
    }
    if servers.is_empty() {
        servers.insert("server.1".to_owned(), Vec::new()); // a standalone server on this machine
    }
    for (name, hosts) in &mut servers {
        for host in hosts.iter() {
            ensure!(is_host(host), "{name}: `{host}` is not a host name or an address");
        }
        hosts.extend(
            LOCAL_NAMES
                .iter()
                .filter(|name| !hosts.iter().any(|host| host == **name))
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        );
    }
    Ok(servers)
}

fn is_host(host: &str) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    host.parse::<IpAddr>().is_ok() || (!host.is_empty() && host.chars().all(is_name))
}

fn subject(hosts: &[String]) -> CertificateSubject {
    let (addresses, host_names): (Vec<_>, Vec<_>) = hosts.iter().partition(|host| host.parse::<IpAddr>().is_ok());
    CertificateSubject {
        common_name: hosts.first().cloned().unwrap_or_default(),
        host_names: host_names.into_iter().cloned().collect(),
        addresses: addresses.into_iter().filter_map(|address| address.parse().ok()).collect(),
    }
}

fn validity(days: i64) -> Validity {
    let now = now();
    Validity { not_before: now - CLOCK_MARGIN_SECONDS, not_after: now + days * SECONDS_PER_DAY }
}

/// The CA of the directory; a new one if there is none.
fn authority(directory: &Path, out: &mut dyn Write) -> Result<DevelopmentCa> {
    let (certificate, key) = (directory.join("ca.pem"), directory.join("ca-key.pem"));
    let read = |file: &Path| fs::read_to_string(file).with_context(|| format!("read {}", file.display()));
    if certificate.exists() || key.exists() {
        let missing = [&certificate, &key].into_iter().find(|file| !file.exists());
        ensure!(
            missing.is_none(),
            "{} is missing\nhint: put it back; or make a new CA in another directory by --out, and replace the \
             certificates of all servers and clients",
            missing.unwrap_or(&key).display()
        );
        let ca = DevelopmentCa::load(&read(&certificate)?, &zeroize::Zeroizing::new(read(&key)?))?;
        writeln!(out, "using the CA {}", certificate.display())?;
        return Ok(ca);
    }
    let ca = DevelopmentCa::create("Oxkeeper development CA", validity(CA_DAYS))?;
    write_secret(&key, &ca.key())?;
    fs::write(&certificate, ca.certificate()).with_context(|| format!("write {}", certificate.display()))?;
    writeln!(out, "wrote the CA {} and its key {}", certificate.display(), key.display())?;
    Ok(ca)
}

/// Writes a file that only its owner may read. The name is replaced at the end, so that a reader never sees a half.
fn write_secret(file: &Path, text: &str) -> Result<()> {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(".new");
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => (),
        }
        let mut out = options.open(&temporary)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&temporary, file)
    };
    write().with_context(|| format!("write {}", file.display()))
}

fn client_properties(directory: &Path) -> String {
    let line = |key: &str, value: &str| ox_proto::properties::line(key, value);
    let path = |name: &str| directory.join(name).display().to_string();
    [
        line("zookeeper.client.secure", "true"),
        line("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
        line("zookeeper.ssl.trustStore.location", &path("ca.pem")),
        line("zookeeper.ssl.keyStore.location", &path("client.pem")),
    ]
    .concat()
}

fn next_steps(directory: &Path, servers: &BTreeMap<String, Vec<String>>, out: &mut dyn Write) -> Result<()> {
    let directory = directory.display();
    let first = servers.keys().next().map_or("server.1", String::as_str);
    writeln!(out, "\nAdd to the zoo.cfg of each server, with its own key store ({first}.pem is that of {first}):\n")?;
    writeln!(out, "secureClientPort=2281")?;
    for prefix in ["ssl.", "ssl.quorum."] {
        if prefix == "ssl.quorum." {
            if servers.len() < 2 {
                continue;
            }
            writeln!(out, "sslQuorum=true")?;
        }
        writeln!(out, "{prefix}keyStore.location={directory}/{first}.pem")?;
        writeln!(out, "{prefix}trustStore.location={directory}/ca.pem")?;
    }
    let host = servers.values().next().and_then(|hosts| hosts.first()).map_or("localhost", String::as_str);
    writeln!(out, "\nNext:")?;
    writeln!(out, "  oxkeeper tls check zoo.cfg                  what would fail, before a restart")?;
    writeln!(out, "  oxkeeper cli -s {host}:2281 --client-configuration {directory}/client.properties")?;
    writeln!(
        out,
        "A running ensemble changes to sslQuorum in three rolling restarts: docs/operate/quorum-security.md."
    )?;
    Ok(())
}
