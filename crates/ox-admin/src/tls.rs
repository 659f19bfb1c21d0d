//! TLS of a listener: the certificates for the next handshake, and their reload.

use crate::limits::STORE_CHECK_INTERVAL;
use ox_server::tls_settings;
use ox_tls::{CertificateInfo, ReloadOutcome, Reloader, ServerTls, SettingsGroup, TlsError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;

/// Which connections a listener accepts.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain,
    Tls(Arc<ListenerTls>),
    /// Plain text and TLS, told apart by the first byte.
    Unified(Arc<ListenerTls>),
}

pub(crate) struct ListenerTls {
    stores: Mutex<Reloader<ServerTls>>,
}

impl ListenerTls {
    pub(crate) fn new(keys: &ox_config::SslKeys) -> Result<Arc<Self>, TlsError> {
        let stores = Reloader::new(tls_settings(keys, SettingsGroup::Quorum), ServerTls::build)?;
        stores.current().warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let location = |store: &ox_config::StoreKeys| store.location.as_ref().map(|path| path.display().to_string());
        if let Some(file) = location(&keys.key_store) {
            tracing::info!("Successfully loaded private key from {file}");
        }
        if let Some(file) = location(&keys.trust_store) {
            tracing::info!("Successfully loaded certificate authority from {file}");
        }
        Ok(Arc::new(Self { stores: Mutex::new(stores) }))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(self.stores.lock().current().config()))
    }

    /// Days until the certificate expires, negative if it has expired.
    pub(crate) fn days_left(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.stores.lock().current().days_left(now.cast_signed()).unwrap_or_default()
    }

    /// Reads the stores again when their content has changed, until the runtime ends.
    pub(crate) async fn reload_forever(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STORE_CHECK_INTERVAL).await;
            let tls = Arc::clone(&self);
            let polled = tokio::task::spawn_blocking(move || tls.stores.lock().poll()).await;
            match polled {
                Ok(Ok(ReloadOutcome::Replaced)) => tracing::info!("certificates of an HTTP port reloaded"),
                Ok(Ok(ReloadOutcome::Unchanged)) | Err(_) => (),
                Ok(Err(reason)) => {
                    tracing::error!("certificates of an HTTP port not reloaded, the old ones stay: {reason}");
                }
            }
        }
    }
}

/// The subject of a client's verified certificate.
pub(crate) fn subject(connection: &tokio_rustls::rustls::ServerConnection) -> Option<String> {
    let certificate = connection.peer_certificates()?.first()?;
    CertificateInfo::parse(certificate).ok().map(|info| info.subject)
}
