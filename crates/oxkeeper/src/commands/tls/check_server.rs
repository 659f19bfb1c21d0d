//! What a running server shows: protocols, certificates, and whether it and this client accept each other.

use super::describe::{Finding, Findings};
use super::now;
use crate::four_letter;
use anyhow::{Context, Result};
use ox_client::ClientProperties;
use ox_tls::{CertificateInfo, ChainObserver, ClientTls, PeerEndpoint, StoreFiles, describe_handshake_error};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConnection, Error, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn check(server: &str, properties: &ClientProperties, limit: Duration) -> Result<Findings> {
    let server = four_letter::server_address(server).map_err(anyhow::Error::msg)?;
    let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host).trim_matches(['[', ']']).to_owned();
    let mut findings = Findings::default();
    findings.heading(format!("server {server}"));
    let mut chain = Vec::new();
    for (name, version) in [("TLSv1.3", &rustls::version::TLS13), ("TLSv1.2", &rustls::version::TLS12)] {
        let probed = probe(&server, &host, version, limit)?;
        if chain.is_empty() {
            chain.clone_from(&probed.chain);
        }
        match probed.outcome {
            Ok(suite) => findings.ok(format!("{name} with {suite}")),
            Err(Refusal::Certificate) => findings.ok(format!("{name}; the server requires a client certificate")),
            Err(Refusal::Version) => findings.ok(format!("not {name}")),
            Err(Refusal::NotTls(text)) => {
                findings.add(Finding::Failure, format!("the server does not speak TLS on this port: {text}"));
                return Ok(findings);
            }
            Err(Refusal::Other(text)) => findings.add(Finding::Warning, format!("{name}: {text}")),
        }
    }
    if chain.is_empty() {
        findings.add(Finding::Failure, "neither TLSv1.3 nor TLSv1.2 gives a certificate");
        return Ok(findings);
    }
    findings.chain(&chain, now());
    let has_name = chain[0].is_valid_for(&host);
    match has_name {
        true => findings.ok(format!("valid for {host}")),
        false => {
            findings.add(Finding::Failure, format!("not valid for {host}: clients that verify host names refuse it"))
        }
    }
    check_trust((&server, &host), has_name, properties, limit, &mut findings)?;
    Ok(findings)
}

/// Connects as a client with these properties would.
fn check_trust(
    (server, host): (&str, &str),
    has_name: bool,
    properties: &ClientProperties,
    limit: Duration,
    findings: &mut Findings,
) -> Result<()> {
    let mut properties = properties.clone();
    properties.set("zookeeper.client.secure", "true");
    let Some(settings) = properties.tls_settings()?.filter(|settings| settings.trust_store.location.is_some()) else {
        let hint = "give -Dzookeeper.ssl.trustStore.location=ca.pem";
        findings.add(Finding::Warning, format!("not checked whether a client trusts this chain; {hint}"));
        return Ok(());
    };
    let tls = ClientTls::build(&settings, &StoreFiles::read(&settings)?)?;
    if let Some(certificate) = tls.certificates().first().filter(|certificate| !certificate.is_valid_at(now())) {
        let text = format!("the client's certificate {} is not valid now: check its dates", certificate.subject);
        findings.add(Finding::Failure, text);
    }
    let stream = connect(server, limit)?;
    let names = host.parse::<IpAddr>().is_err().then(|| host.to_owned());
    let endpoint = tls.endpoint(PeerEndpoint::new(stream.peer_addr()?.ip(), names));
    let connection = ClientConnection::new(endpoint.config, endpoint.server_name)?;
    let mut stream = StreamOwned::new(connection, stream);
    // The reply shows that the server has accepted the client, which TLS 1.3 tells only after the handshake.
    let mut reply = [0; 1];
    let talked = stream.write_all(b"srvr").and_then(|()| stream.read(&mut reply));
    match talked {
        Ok(1..) => findings.ok("a client with these settings is accepted, and accepts the server"),
        Ok(0) => findings.add(Finding::Failure, "the server closes the connection of a client with these settings"),
        Err(error) => {
            let hint = if settings.key_store.location.is_none() { "; the client has no key store" } else { "" };
            let reason = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
                // Names that do not match are a finding already.
                Some(Error::InvalidCertificate(CertificateError::Other(_))) if !has_name => return Ok(()),
                Some(error) => describe_handshake_error(error),
                None => error.to_string(),
            };
            let text = format!("a client with these settings cannot connect: {reason}{hint}");
            findings.add(Finding::Failure, text);
        }
    }
    Ok(())
}

/// The result of a handshake with one version.
struct Probe {
    /// What the server has sent, also if the handshake failed later.
    chain: Vec<CertificateInfo>,
    /// The cipher suite, or why there is no connection.
    outcome: Result<String, Refusal>,
}

enum Refusal {
    Certificate,
    Version,
    NotTls(String),
    Other(String),
}

/// A handshake that accepts every certificate, to look at it.
fn probe(server: &str, host: &str, version: &'static SupportedProtocolVersion, limit: Duration) -> Result<Probe> {
    let (observer, config) = ChainObserver::new(version)?;
    let mut stream = connect(server, limit)?;
    let name = ServerName::try_from(host.to_owned()).with_context(|| format!("{host} is not a host name"))?;
    let mut connection = ClientConnection::new(Arc::new(config), name)?;
    let mut talked = Ok(());
    while talked.is_ok() && connection.is_handshaking() {
        talked = connection.complete_io(&mut stream).map(drop);
    }
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str().map(str::to_owned));
    let outcome = match talked {
        Ok(()) => Ok(suite.unwrap_or_default().replacen("TLS13_", "TLS_", 1)),
        Err(error) => Err(refusal(&error)),
    };
    Ok(Probe { chain: observer.chain().context("the server sends a certificate that cannot be read")?, outcome })
}

fn refusal(error: &io::Error) -> Refusal {
    let text = error.to_string();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(AlertDescription::ProtocolVersion)) | Some(Error::PeerIncompatible(_)) => {
            Refusal::Version
        }
        Some(Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::HandshakeFailure,
        )) => Refusal::Certificate,
        Some(Error::InvalidMessage(_)) => Refusal::NotTls("it sends something else".to_owned()),
        Some(_) => Refusal::Other(text),
        None if error.kind() == io::ErrorKind::UnexpectedEof || error.kind() == io::ErrorKind::ConnectionReset => {
            Refusal::NotTls("it closes the connection".to_owned())
        }
        None => Refusal::Other(text),
    }
}

fn connect(server: &str, limit: Duration) -> Result<TcpStream> {
    let stream = four_letter::connect(server, limit).with_context(|| format!("connect to {server}"))?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}
