//! TLS to the servers: stores that are read again before each connection, and one rustls configuration per server, so
//! that sessions of TLS are resumed.

use crate::connect_failure::ConnectCause;
use crate::limits::ENDPOINTS_MAX;
use crate::server_list::ServerAddress;
use crate::tls_failure::TlsFailure;
use ox_tls::{
    CertificateInfo, ClientEndpoint, ClientTls, PeerDecision, PeerEndpoint, ReloadOutcome, Reloader, TlsError,
};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use ox_tls::{SettingsGroup, StorePassword, StoreSettings, TlsSettings};

/// What a client was told about TLS.
#[derive(Clone, Debug)]
pub(crate) enum TlsOption {
    Settings(Box<TlsSettings>),
    Config(Arc<ClientConfig>),
}

/// Adds TLS to connections.
#[derive(Debug)]
pub(crate) enum TlsDialer {
    /// The caller's configuration, which decides what is verified.
    Config(Arc<ClientConfig>),
    Stores(Arc<Mutex<Stores>>),
}

/// What the `ssl.*` settings and their files give.
pub(crate) struct Stores {
    reloader: Reloader<ClientTls>,
    /// By host and address, the newest last.
    endpoints: Vec<(String, IpAddr, ClientEndpoint)>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("endpoints", &self.endpoints.len()).finish_non_exhaustive()
    }
}

impl Stores {
    /// The configuration for a server, and the settings that it comes from.
    fn endpoint(&mut self, server: &ServerAddress, address: IpAddr) -> (ClientEndpoint, Arc<ClientTls>) {
        match self.reloader.poll() {
            Ok(ReloadOutcome::Unchanged) => (),
            Ok(ReloadOutcome::Replaced) => self.endpoints.clear(),
            Err(error) => tracing::warn!(%error, "changed TLS stores cannot be used; the client keeps the old ones"),
        }
        let tls = Arc::clone(self.reloader.current());
        let is_known = |(host, at, _): &&(String, IpAddr, ClientEndpoint)| *host == server.host && *at == address;
        if let Some((_, _, endpoint)) = self.endpoints.iter().find(is_known) {
            return (endpoint.clone(), tls);
        }
        let endpoint = tls.endpoint(peer_endpoint(server, address));
        if ENDPOINTS_MAX <= self.endpoints.len() {
            self.endpoints.remove(0);
        }
        self.endpoints.push((server.host.clone(), address, endpoint.clone()));
        (endpoint, tls)
    }
}

impl TlsDialer {
    pub(crate) fn new(option: TlsOption) -> Result<Self, TlsError> {
        Ok(match option {
            TlsOption::Config(config) => Self::Config(config),
            TlsOption::Settings(settings) => {
                let reloader = Reloader::new(*settings, ClientTls::build)?;
                reloader.current().warnings().iter().for_each(|warning| tracing::warn!(%warning, "TLS settings"));
                Self::Stores(Arc::new(Mutex::new(Stores { reloader, endpoints: Vec::new() })))
            }
        })
    }

    /// Performs the handshake on a connection. Returns whether the client has a certificate as well.
    pub(crate) async fn connect(
        &self,
        server: &ServerAddress,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, bool), ConnectCause> {
        let address = stream.peer_addr()?.ip();
        let (endpoint, tls) = match self {
            Self::Config(config) => {
                let server_name = ServerName::try_from(server.host.clone()).map_err(|_| ConnectCause::UnknownHost)?;
                (ClientEndpoint { config: Arc::clone(config), server_name }, None)
            }
            Self::Stores(stores) => {
                let (stores, server) = (Arc::clone(stores), server.clone());
                let found = tokio::task::spawn_blocking(move || stores.lock().endpoint(&server, address)).await;
                let (endpoint, tls) = found.map_err(std::io::Error::other)?;
                (endpoint, Some(tls))
            }
        };
        let has_certificate = endpoint.config.client_auth_cert_resolver.has_certs();
        let connector = TlsConnector::from(endpoint.config);
        let stream = connector
            .connect(endpoint.server_name, stream)
            .await
            .map_err(|error| TlsFailure::in_handshake(&error, has_certificate))?;
        if let Some(tls) = tls {
            check_resumed(&tls, &stream, &peer_endpoint(server, address))?;
        }
        Ok((stream, has_certificate))
    }
}

/// Checks names and dates again: a resumed session skips the verification of its first handshake.
fn check_resumed(tls: &ClientTls, stream: &TlsStream<TcpStream>, endpoint: &PeerEndpoint) -> Result<(), TlsFailure> {
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let Some(info) = certificate.and_then(|certificate| CertificateInfo::parse(certificate).ok()) else {
        return Err(TlsFailure::Other("the server has no certificate that can be read".to_owned()));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    match tls.check_peer(&info, endpoint, i64::try_from(now).unwrap_or(i64::MAX)) {
        PeerDecision::Accept | PeerDecision::AcceptMismatch(_) => Ok(()),
        PeerDecision::Refuse(mismatch) => Err(TlsFailure::WrongHostName(mismatch.to_string())),
        PeerDecision::RefuseExpired => Err(TlsFailure::Expired),
        PeerDecision::LookUpName(address) => Err(TlsFailure::WrongHostName(format!("no name is known for {address}"))),
    }
}

fn peer_endpoint(server: &ServerAddress, address: IpAddr) -> PeerEndpoint {
    let is_name = server.host.parse::<IpAddr>().is_err();
    PeerEndpoint::new(address, is_name.then(|| server.host.clone()))
}
