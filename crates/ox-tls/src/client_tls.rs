//! The side that connects.

use crate::certificate::CertificateInfo;
use crate::error::TlsError;
use crate::host_name::{HostNamePolicy, PeerDecision, PeerEndpoint};
use crate::material::{Material, missing_trust_store};
use crate::settings::TlsSettings;
use crate::store_files::StoreFiles;
use crate::verifier::{Anchors, ServerVerifier};
use crate::warning::TlsWarning;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use std::sync::Arc;

/// Sessions that one endpoint keeps for resumption.
const SESSIONS_PER_ENDPOINT: usize = 2;

/// The settings of a client, for all servers. [`ClientTls::endpoint`] makes a configuration for one of them.
#[derive(Debug)]
pub struct ClientTls {
    template: ClientConfig,
    anchors: Arc<Anchors>,
    chains: Arc<WebPkiServerVerifier>,
    names: HostNamePolicy,
    certificates: Vec<CertificateInfo>,
    warnings: Vec<TlsWarning>,
}

/// What rustls needs to connect to one server.
///
/// The handshake fails unless the server proves that it is the endpoint. Keep it for later connections to the same
/// server: sessions are resumed within one endpoint.
#[derive(Clone, Debug)]
pub struct ClientEndpoint {
    pub config: Arc<ClientConfig>,
    pub server_name: ServerName<'static>,
}

impl ClientTls {
    /// A key store is optional: without it the client has no certificate.
    pub fn build(settings: &TlsSettings, files: &StoreFiles) -> Result<Self, TlsError> {
        Self::from_material(settings, &Material::load(settings, files)?)
    }

    pub(crate) fn from_material(settings: &TlsSettings, material: &Material) -> Result<Self, TlsError> {
        let anchors = material.anchors.clone().ok_or_else(|| missing_trust_store(settings))?;
        let chains =
            WebPkiServerVerifier::builder_with_provider(anchors.roots.clone(), material.policy.provider.clone())
                .with_crls(material.revocation.lists.iter().cloned())
                .enforce_revocation_expiration()
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        let names = material.policy.names_of_servers;
        let no_endpoint = verifier(&anchors, &chains, names, None);
        let builder = ClientConfig::builder_with_provider(material.policy.provider.clone())
            .with_protocol_versions(&material.policy.versions)?
            .dangerous()
            .with_custom_certificate_verifier(no_endpoint);
        let template = match material.keys.clone() {
            Some(keys) => builder.with_client_cert_resolver(keys),
            None => builder.with_no_client_auth(),
        };
        let (certificates, warnings) = (material.certificates.clone(), material.warnings.clone());
        Ok(Self { template, anchors, chains, names, certificates, warnings })
    }

    /// The configuration for one server.
    pub fn endpoint(&self, endpoint: PeerEndpoint) -> ClientEndpoint {
        let name = endpoint.host_names.first().map(|name| name.strip_suffix('.').unwrap_or(name).to_owned());
        let server_name = name.and_then(|name| ServerName::try_from(name).ok());
        let server_name = server_name.unwrap_or_else(|| endpoint.address.to_canonical().into());
        let mut config = self.template.clone();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_PER_ENDPOINT);
        let verifier = verifier(&self.anchors, &self.chains, self.names, Some(endpoint));
        config.dangerous().set_certificate_verifier(verifier);
        ClientEndpoint { config: Arc::new(config), server_name }
    }

    /// Whether the caller should look up the name of an address before it connects: nothing in the configuration names
    /// the server, and the settings permit it. See [`PeerEndpoint::looked_up`].
    pub fn wants_reverse_lookup(&self, endpoint: &PeerEndpoint) -> bool {
        self.names.wants_reverse_lookup(endpoint)
    }

    /// Decides about a server whose handshake has succeeded. It repeats the check of the handshake, in which a mismatch
    /// that is only to be reported leaves no trace. `now` is in seconds since 1970.
    pub fn check_peer(&self, certificate: &CertificateInfo, endpoint: &PeerEndpoint, now: i64) -> PeerDecision {
        if certificate.not_after < now {
            return PeerDecision::RefuseExpired;
        }
        self.names.decide(certificate, endpoint)
    }

    /// The certificates of the key store, each chain leaf first.
    pub fn certificates(&self) -> &[CertificateInfo] {
        &self.certificates
    }

    pub fn warnings(&self) -> &[TlsWarning] {
        &self.warnings
    }
}

fn verifier(
    anchors: &Arc<Anchors>,
    chains: &Arc<WebPkiServerVerifier>,
    names: HostNamePolicy,
    endpoint: Option<PeerEndpoint>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ServerVerifier { anchors: anchors.clone(), chains: chains.clone(), names, endpoint })
}
