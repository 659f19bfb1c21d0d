//! What the TLS settings of a `zoo.cfg` amount to, and what would fail with them.

use super::describe::{Finding, Findings};
use super::now;
use super::server_settings::ServerTlsSettings;
use anyhow::Result;
use ox_config::SystemProperties;
use ox_proto::ServerId;
use ox_tls::{
    CertificateInfo, PeerEndpoint, PeerTls, ServerTls, StoreFiles, TlsError, TlsSettings, TlsWarning,
    describe_handshake_error,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Stands for an address that is not known before a connection.
const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(super) fn check(file: &Path, system: &SystemProperties) -> Result<Findings> {
    let configured = ServerTlsSettings::read(file, system)?;
    let mut findings = Findings::default();
    if configured.client.is_none() && configured.quorum.is_none() {
        findings.heading(format!("{}: no port uses TLS", file.display()));
        findings.ok("plain text on all ports; secureClientPort and sslQuorum=true turn TLS on");
        return Ok(findings);
    }
    if let Some(settings) = &configured.client {
        findings.heading(format!("clients: {}", configured.client_port));
        check_client_port(settings, &configured, &mut findings);
    }
    if let Some(settings) = &configured.quorum {
        let (connects, accepts) = match (configured.is_quorum_tls, configured.is_quorum_unified) {
            (true, false) => ("TLS", "TLS only"),
            (true, true) => ("TLS", "TLS and plain text"),
            (false, _) => ("plain text", "TLS and plain text"),
        };
        findings.heading(format!("servers: connects with {connects}, accepts {accepts}"));
        if configured.is_quorum_unified {
            findings.add(Finding::Warning, "portUnification=true: meant for a rolling change; turn it off afterwards");
        }
        check_quorum(settings, &configured, &mut findings);
    }
    Ok(findings)
}

fn check_client_port(settings: &TlsSettings, configured: &ServerTlsSettings, findings: &mut Findings) {
    let built = StoreFiles::read(settings).and_then(|files| ServerTls::build(settings, &files));
    let Some(tls) = usable(built, settings, findings) else { return };
    warnings(tls.warnings(), findings);
    findings.chain(tls.certificates(), now());
    let auth = settings.client_auth.as_deref().unwrap_or("need");
    findings.ok(format!("clientAuth={auth}: {}", auth_text(auth)));
    let Some(certificate) = tls.certificates().first() else { return };
    let Some(hosts) = configured.my_id.and_then(|id| configured.hosts.get(&id)) else { return };
    for host in hosts.iter().filter(|host| !certificate.is_valid_for(host)) {
        findings.add(Finding::Warning, format!("not valid for {host}: clients that connect by this name refuse it"));
    }
}

fn check_quorum(settings: &TlsSettings, configured: &ServerTlsSettings, findings: &mut Findings) {
    let built = StoreFiles::read(settings).and_then(|files| PeerTls::build(settings, &files));
    let Some(tls) = usable(built, settings, findings) else { return };
    warnings(tls.server.warnings(), findings);
    let certificates = tls.server.certificates();
    findings.chain(certificates, now());
    let Some(certificate) = certificates.first() else { return };
    match configured.my_id.and_then(|id| Some((id, configured.hosts.get(&id)?))) {
        Some((id, hosts)) => check_names(settings, certificate, id, hosts, findings),
        None => {
            let file = configured.my_id_file.display();
            let hint = if configured.my_id_file.is_absolute() { "" } else { "; run this where the server is started" };
            let text = format!("{file} has no id of a server.N line: names of this server are not checked{hint}");
            findings.add(Finding::Warning, text);
        }
    }
    // Members usually share one CA, so what this server cannot verify, the others cannot either.
    match handshake_with_itself(&tls, certificate) {
        Ok(()) => findings.ok("issued by a CA of the trust store, which the other servers should share"),
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => findings.add(
            Finding::Failure,
            "not issued by a CA of the trust store: servers with the same trust store refuse it; add its CA there",
        ),
        Err(error) => {
            let reason = describe_handshake_error(&error);
            let text = format!("servers with the same trust store refuse this certificate: {reason}");
            findings.add(Finding::Failure, text);
        }
    }
}

fn check_names(
    settings: &TlsSettings,
    certificate: &CertificateInfo,
    id: ServerId,
    hosts: &[String],
    findings: &mut Findings,
) {
    let unknown: Vec<&str> = hosts.iter().map(String::as_str).filter(|host| !certificate.is_valid_for(host)).collect();
    let text = format!("not valid for {} of server.{}", unknown.join(", "), id.0);
    match (unknown.is_empty(), settings.hostname_verification, settings.fips_mode) {
        (true, _, _) => findings.ok(format!("valid for {} of server.{}", hosts.join(", "), id.0)),
        (false, false, _) => findings.add(Finding::Warning, format!("{text}; hostnameVerification=false hides it")),
        (false, true, true) => {
            findings.add(Finding::Warning, format!("{text}: accepted with a warning, because fips-mode is on"));
        }
        (false, true, false) => {
            findings.add(Finding::Failure, format!("{text}: the other servers refuse it; issue one with these names"));
        }
    }
}

fn describe(settings: &TlsSettings, findings: &mut Findings) {
    let store = |name: &str, store: &ox_tls::StoreSettings| match &store.location {
        Some(path) => format!("{name} {}", path.display()),
        None => format!("no {name}"),
    };
    findings.ok(format!(
        "{}, {}",
        store("key store", &settings.key_store),
        store("trust store", &settings.trust_store)
    ));
    let protocols = settings.enabled_protocols.as_deref().unwrap_or(match settings.protocol.as_deref() {
        None | Some("TLSv1.3" | "TLS") => "TLSv1.3,TLSv1.2",
        Some(protocol) => protocol,
    });
    let suites = settings.cipher_suites.as_deref().unwrap_or("all that are secure");
    findings.ok(format!("protocols {protocols}; cipher suites: {suites}"));
}

/// Describes usable settings; adds all reasons why a server would not start with others.
fn usable<T>(built: Result<T, TlsError>, settings: &TlsSettings, findings: &mut Findings) -> Option<T> {
    match built {
        Ok(built) => {
            describe(settings, findings);
            Some(built)
        }
        Err(error) => {
            for error in error.each() {
                findings.add(Finding::Failure, format!("the server does not start: {error}"));
            }
            None
        }
    }
}

fn warnings(warnings: &[TlsWarning], findings: &mut Findings) {
    for warning in warnings {
        // The default of fips-mode; the names of this server are checked apart.
        let is_default = *warning == TlsWarning::HostNamesNotEnforced;
        findings.add(if is_default { Finding::Ok } else { Finding::Warning }, warning.to_string());
    }
}

fn auth_text(auth: &str) -> &'static str {
    match auth.to_ascii_lowercase().as_str() {
        "none" => "clients need no certificate",
        "want" => "clients may have a certificate of the trust store's CAs",
        _ => "clients must have a certificate of the trust store's CAs",
    }
}

/// The time at which a handshake takes place.
#[derive(Debug)]
struct FixedTime(UnixTime);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

impl FixedTime {
    /// Now, or the nearest time at which the certificate is valid: its dates are checked apart.
    fn within(certificate: &CertificateInfo) -> Arc<Self> {
        let seconds = now().max(certificate.not_before).min(certificate.not_after);
        Arc::new(Self(UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap_or_default()))))
    }
}

/// A handshake in memory between two servers with these settings.
fn handshake_with_itself(tls: &PeerTls, certificate: &CertificateInfo) -> Result<(), Error> {
    let address = certificate.addresses.first().copied().unwrap_or(UNKNOWN_ADDRESS);
    // Names are checked apart; here the certificate's own ones are used.
    let names = certificate.dns_names.iter().chain(&certificate.common_name).map(|name| name.replacen('*', "x", 1));
    let endpoint = tls.client.endpoint(PeerEndpoint::new(address, names));
    let (mut client, mut server) = (ClientConfig::clone(&endpoint.config), ServerConfig::clone(tls.server.config()));
    (client.time_provider, server.time_provider) = (FixedTime::within(certificate), FixedTime::within(certificate));
    let mut client = ClientConnection::new(Arc::new(client), endpoint.server_name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut records = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut records).map_err(general)?;
        }
        let sent = records.len();
        feed(&records, |rest| {
            server.read_tls(rest).map_err(general).and_then(|_| server.process_new_packets().map(drop))
        })?;
        records.clear();
        while server.wants_write() {
            server.write_tls(&mut records).map_err(general)?;
        }
        feed(&records, |rest| {
            client.read_tls(rest).map_err(general).and_then(|_| client.process_new_packets().map(drop))
        })?;
        if sent + records.len() == 0 {
            return Err(Error::General("the handshake does not end".to_owned()));
        }
    }
    Ok(())
}

fn feed(records: &[u8], mut read: impl FnMut(&mut &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut rest = records;
    while !rest.is_empty() {
        read(&mut rest)?;
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn general(error: std::io::Error) -> Error {
    Error::General(error.to_string())
}
