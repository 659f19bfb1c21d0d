//! The side that accepts connections.

use crate::certificate::CertificateInfo;
use crate::error::TlsError;
use crate::host_name::{HostNamePolicy, PeerDecision, PeerEndpoint};
use crate::material::{Material, missing_key_store, missing_trust_store};
use crate::policy::ClientAuth;
use crate::revocation::RevocationListInfo;
use crate::settings::TlsSettings;
use crate::store_files::StoreFiles;
use crate::verifier::{Anchors, ClientVerifier};
use crate::warning::TlsWarning;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, ServerSessionMemoryCache, WebPkiClientVerifier};
use std::sync::Arc;

/// Sessions of TLS 1.2 clients that know session ids but no tickets. An entry has about 1 KB.
const SESSIONS_MAX: usize = 4096;

/// One ticket per connection: a client that reconnects gets the next one.
const TICKETS_PER_CONNECTION: usize = 1;

/// The configuration of a listener.
///
/// Tickets and sessions do not outlive it: a resumed session keeps the identity that its first handshake has verified,
/// so that a new trust store or revocation list must invalidate them. Early data (0-RTT) is off, because it can be
/// replayed.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    names: HostNamePolicy,
    certificates: Vec<CertificateInfo>,
    revocation_lists: Vec<RevocationListInfo>,
    warnings: Vec<TlsWarning>,
}

impl ServerTls {
    pub fn build(settings: &TlsSettings, files: &StoreFiles) -> Result<Self, TlsError> {
        Self::from_material(settings, &Material::load(settings, files)?)
    }

    pub(crate) fn from_material(settings: &TlsSettings, material: &Material) -> Result<Self, TlsError> {
        let keys = material.keys.clone().ok_or_else(|| missing_key_store(settings))?;
        let verifier: Arc<dyn ClientCertVerifier> = match (material.policy.client_auth, &material.anchors) {
            (ClientAuth::None, _) => Arc::new(NoClientAuth),
            (ClientAuth::Want | ClientAuth::Need, None) => return Err(missing_trust_store(settings)),
            (ClientAuth::Want | ClientAuth::Need, Some(anchors)) => client_verifier(material, anchors)?,
        };
        let mut config = ServerConfig::builder_with_provider(material.policy.provider.clone())
            .with_protocol_versions(&material.policy.versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(keys);
        config.ticketer = Ticketer::new()?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.send_tls13_tickets = TICKETS_PER_CONNECTION;
        Ok(Self {
            config: Arc::new(config),
            names: material.policy.names_of_clients,
            certificates: material.certificates.clone(),
            revocation_lists: material.revocation.infos.clone(),
            warnings: material.warnings.clone(),
        })
    }

    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// The certificates of the key store, each chain leaf first.
    pub fn certificates(&self) -> &[CertificateInfo] {
        &self.certificates
    }

    pub fn revocation_lists(&self) -> &[RevocationListInfo] {
        &self.revocation_lists
    }

    pub fn warnings(&self) -> &[TlsWarning] {
        &self.warnings
    }

    /// Full days until the first certificate of the key store expires. `now` is in seconds since 1970.
    pub fn days_left(&self, now: i64) -> Option<i64> {
        self.certificates.iter().map(|certificate| certificate.days_left(now)).min()
    }

    /// Whether a certificate of the key store is not valid yet. `now` is in seconds since 1970.
    pub fn is_early(&self, now: i64) -> bool {
        self.certificates.iter().any(|certificate| now < certificate.not_before)
    }

    /// Decides about a client whose handshake has succeeded, before its first request is served.
    pub fn check_peer(&self, certificate: &CertificateInfo, endpoint: &PeerEndpoint, now: i64) -> PeerDecision {
        if certificate.not_after < now {
            return PeerDecision::RefuseExpired;
        }
        self.names.decide(certificate, endpoint)
    }
}

fn client_verifier(material: &Material, anchors: &Arc<Anchors>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(anchors.roots.clone(), material.policy.provider.clone())
            .with_crls(material.revocation.lists.iter().cloned())
            .enforce_revocation_expiration();
    if material.policy.client_auth == ClientAuth::Want {
        builder = builder.allow_unauthenticated();
    }
    let chains = builder.build().map_err(|error| rustls::Error::General(error.to_string()))?;
    Ok(Arc::new(ClientVerifier { anchors: anchors.clone(), chains }))
}
