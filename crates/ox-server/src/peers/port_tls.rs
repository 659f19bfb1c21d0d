//! TLS of the election and quorum ports: the present certificates, their reload, and which certificate a server may
//! have.

use crate::io::client_port_tls::tls_settings;
use crate::limits::{EXPIRY_WARN_DAYS, EXPIRY_WARN_INTERVAL, STORE_CHECK_INTERVAL};
use crate::shared::Shared;
use crate::store_reloads::{self, StoreFailure, StoreReload, StoreReloads};
use crate::watchdog::Heartbeat;
use ox_config::{Config, QuorumTlsConfig};
use ox_tls::{
    CertificateInfo, ClientEndpoint, HostNameMismatch, PeerDecision, PeerEndpoint, PeerTls, Reloader, SettingsGroup,
    TlsError,
};
use parking_lot::RwLock;
use rustls::Connection;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// The stores of TLS between servers, which may be read again.
pub(crate) type PeerStores = Reloader<PeerTls>;

/// What the threads share about TLS between servers.
pub(crate) struct PeerPortTls {
    config: QuorumTlsConfig,
    /// Replaced when stores are reloaded; each handshake uses the one with which it began.
    current: RwLock<Arc<PeerTls>>,
    reloads: StoreReloads,
}

/// Which side of a connection the other server is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerSide {
    Acceptor,
    Initiator,
}

impl PeerPortTls {
    pub(crate) fn new(config: &QuorumTlsConfig, stores: &PeerStores) -> Self {
        let current = RwLock::new(Arc::clone(stores.current()));
        Self { config: config.clone(), current, reloads: StoreReloads::default() }
    }

    /// Reads the stores again, and waits until that is done.
    pub(crate) fn reload(&self) -> StoreReload {
        self.reloads.request()
    }

    pub(super) fn config(&self) -> &QuorumTlsConfig {
        &self.config
    }

    pub(super) fn current(&self) -> Arc<PeerTls> {
        Arc::clone(&self.current.read())
    }

    /// What a handshake with a server at this address needs, if connections are made with TLS.
    pub(super) fn endpoint(&self, address: IpAddr, host: &str) -> Option<ClientEndpoint> {
        let endpoint = PeerEndpoint::new(address, [host.to_owned()]);
        self.config.dials_tls.then(|| self.current().client.endpoint(endpoint))
    }

    /// Checks the certificate of a server whose handshake is complete: it must name a host of the configuration, or the
    /// address. Returns a mismatch that is only to be reported.
    pub(super) fn check(
        &self,
        tls: &Connection,
        side: PeerSide,
        address: IpAddr,
        hosts: impl IntoIterator<Item = String>,
        now_seconds: i64,
    ) -> Result<Option<HostNameMismatch>, String> {
        let Some(certificate) = tls.peer_certificates().and_then(<[_]>::first) else { return Ok(None) };
        let info = CertificateInfo::parse(certificate).map_err(|problem| problem.to_string())?;
        let mut endpoint = PeerEndpoint::new(address, hosts);
        // Names come from the configuration only: a reverse lookup proves nothing that the configuration does not.
        endpoint.is_looked_up = true;
        let current = self.current();
        let decision = match side {
            PeerSide::Acceptor => current.client.check_peer(&info, &endpoint, now_seconds),
            PeerSide::Initiator => current.server.check_peer(&info, &endpoint, now_seconds),
        };
        match decision {
            PeerDecision::Accept => Ok(None),
            PeerDecision::AcceptMismatch(mismatch) => Ok(Some(mismatch)),
            PeerDecision::Refuse(mismatch) => Err(mismatch.to_string()),
            PeerDecision::RefuseExpired => Err("the certificate has expired".to_owned()),
            PeerDecision::LookUpName(_) => Err("no host name is known for the address".to_owned()),
        }
    }

    /// Full days until the first certificate of the key store expires; negative when it has expired.
    pub(crate) fn days_left(&self, wall_ms: i64) -> i64 {
        self.current().server.days_left(wall_ms.div_euclid(1000)).unwrap_or_default()
    }
}

/// Reads the stores of TLS between servers; `None` if it is not possible.
pub(crate) fn load(config: &Config) -> Result<Option<PeerStores>, TlsError> {
    let Some(tls) = config.member.as_ref().and_then(|member| member.tls.as_ref()) else { return Ok(None) };
    let stores = Reloader::new(tls_settings(&tls.keys, SettingsGroup::Quorum), PeerTls::build)?;
    stores.current().server.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(Some(stores))
}

/// Reloads the stores when their content changes, and warns of certificates that expire, until the server stops.
pub(crate) fn watch_stores(shared: &Shared, tls: &PeerPortTls, mut stores: PeerStores, heartbeat: &Heartbeat) {
    let (mut warned, mut failure): (Option<Instant>, Option<String>) = (None, None);
    while !shared.is_stopping() {
        heartbeat.beat();
        if warned.is_none_or(|at| EXPIRY_WARN_INTERVAL <= at.elapsed()) {
            warned = Some(Instant::now());
            warn_of_expiry(tls, shared.clock.now().wall_ms);
        }
        shared.sleep(STORE_CHECK_INTERVAL);
        let requests = tls.reloads.take();
        if tls.config.reloads || !requests.is_empty() {
            let polled = store_reloads::poll(&mut stores, &mut failure, |current| replace(tls, current));
            let outcome = polled.map_err(|failure| {
                let StoreFailure { reason, is_known } = failure;
                if !is_known {
                    tracing::error!("certificates for other servers not reloaded, the old ones stay: {reason}");
                }
                reason
            });
            if outcome == Ok(true) {
                warned = None;
            }
            // Fails when the caller has stopped waiting.
            requests.into_iter().for_each(|request| _ = request.send(outcome.clone()));
        }
    }
}

fn replace(tls: &PeerPortTls, current: &Arc<PeerTls>) {
    current.server.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let subject = current.server.certificates().first().map(|certificate| certificate.subject.clone());
    tracing::info!(subject, "certificates for other servers reloaded; open connections keep theirs");
    *tls.current.write() = Arc::clone(current);
}

fn warn_of_expiry(tls: &PeerPortTls, wall_ms: i64) {
    let days = tls.days_left(wall_ms);
    if tls.current().server.is_early(wall_ms.div_euclid(1000)) {
        tracing::error!("the certificate for other servers is not valid yet; they refuse it; check the clock");
    } else if days < 0 {
        tracing::error!("the certificate for other servers has expired; they refuse it; renew it");
    } else if days <= EXPIRY_WARN_DAYS {
        tracing::warn!(days, "the certificate for other servers expires soon; renew it");
    }
}
