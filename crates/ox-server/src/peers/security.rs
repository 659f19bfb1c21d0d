//! Protection of the connections between servers: what is configured, and the workers for it.

use super::commands::PeerCommands;
use super::port_tls::PeerPortTls;
use super::quorum_sasl::QuorumSasl;
use super::tls_workers::TlsWorkers;
use crate::status::metrics::Metrics;
use std::sync::Arc;

pub(crate) struct PeerSecurity {
    /// Set if TLS is possible.
    pub(crate) tls: Option<PeerPortTls>,
    /// Set if SASL is enabled.
    pub(crate) sasl: Option<QuorumSasl>,
    pub(crate) workers: TlsWorkers,
    pub(super) metrics: Arc<Metrics>,
}

impl PeerSecurity {
    pub(crate) fn new(
        tls: Option<PeerPortTls>,
        sasl: Option<QuorumSasl>,
        commands: Arc<PeerCommands>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { tls, sasl, workers: TlsWorkers::new(commands), metrics }
    }

    /// Whether the identification of a peer takes more than its first message.
    pub(super) fn is_negotiated(&self) -> bool {
        self.tls.is_some() || self.sasl.is_some()
    }

    /// Without TLS and SASL.
    #[cfg(test)]
    pub(super) fn none(commands: Arc<PeerCommands>) -> Arc<Self> {
        Arc::new(Self::new(None, None, commands, Arc::default()))
    }
}
