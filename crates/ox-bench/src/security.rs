//! TLS and SASL of the load, by the properties of Apache's client.

use anyhow::{Context, Result, bail};
use ox_client::ClientProperties;
use ox_sasl::jaas::modules::{DigestCredentials, InitiatorLogin};
use ox_tls::{ClientEndpoint, ClientTls, PeerEndpoint, StoreFiles};
use rustls::ClientConnection;
use rustls::client::Resumption;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// How connections to one server are protected.
#[derive(Debug)]
pub struct BenchSecurity {
    tls: Option<ClientEndpoint>,
    sasl: Option<DigestCredentials>,
}

/// Whether a session of TLS is resumed by the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsResumption {
    On,
    Off,
}

impl BenchSecurity {
    /// `None` if the properties ask for neither TLS nor SASL.
    pub fn new(
        properties: &ClientProperties,
        host: &str,
        address: SocketAddr,
        resumption: TlsResumption,
    ) -> Result<Option<Self>> {
        let tls = match properties.tls_settings()? {
            None => None,
            Some(settings) => {
                let tls = ClientTls::build(&settings, &StoreFiles::read(&settings)?)?;
                let names = host.parse::<IpAddr>().is_err().then(|| host.to_owned());
                let mut endpoint = tls.endpoint(PeerEndpoint::new(address.ip(), names));
                if resumption == TlsResumption::Off {
                    Arc::make_mut(&mut endpoint.config).resumption = Resumption::disabled();
                }
                Some(endpoint)
            }
        };
        let sasl = match properties.sasl_login()?.map(|login| login.login().clone()) {
            None => None,
            Some(InitiatorLogin::DigestMd5(credentials)) => Some(credentials),
            Some(InitiatorLogin::Gssapi(_)) => bail!("the load generator knows DIGEST-MD5, but not Kerberos"),
        };
        Ok((tls.is_some() || sasl.is_some()).then_some(Self { tls, sasl }))
    }

    /// TLS for one more connection.
    pub fn tls(&self) -> Result<Option<ClientConnection>> {
        let connect = |tls: &ClientEndpoint| ClientConnection::new(Arc::clone(&tls.config), tls.server_name.clone());
        self.tls.as_ref().map(connect).transpose().context("begin TLS")
    }

    pub fn sasl(&self) -> Option<&DigestCredentials> {
        self.sasl.as_ref()
    }
}
