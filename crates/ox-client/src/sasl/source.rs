//! Makes the SASL exchange of each connection. Kerberos needs a ticket of the server, from a KDC.

use super::login::{SaslLogin, ServerPrincipal};
use crate::connect_failure::ConnectCause;
use crate::core::SaslExchange;
use crate::server_list::ServerAddress;
use ox_kerberos::KerberosLogin;
use ox_sasl::jaas::modules::{DigestCredentials, InitiatorLogin};
use parking_lot::Mutex;
use rand::Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) enum SaslSource {
    DigestMd5(DigestCredentials),
    Kerberos(Arc<Mutex<KerberosLogin>>, ServerPrincipal),
}

impl SaslSource {
    pub(crate) fn new(login: SaslLogin) -> Self {
        let SaslLogin { login, server, krb5_conf } = login;
        match login {
            InitiatorLogin::DigestMd5(credentials) => Self::DigestMd5(credentials),
            InitiatorLogin::Gssapi(options) => {
                Self::Kerberos(Arc::new(Mutex::new(KerberosLogin::new(options, krb5_conf))), server)
            }
        }
    }

    /// The exchange of a connection to `server`, within `limit`.
    ///
    /// Unlike Apache's client, this one does not continue without authentication when the login fails: the application
    /// asked for it. The attempt counts as failed, and the next one logs in again.
    pub(crate) async fn exchange(
        &mut self,
        server: &ServerAddress,
        limit: Duration,
    ) -> Result<SaslExchange, ConnectCause> {
        match self {
            Self::DigestMd5(credentials) => {
                let mut nonce = [0; 30];
                rand::rng().fill_bytes(&mut nonce);
                Ok(SaslExchange::digest_md5(credentials.clone(), nonce))
            }
            Self::Kerberos(login, principal) => {
                let (login, principal, host) = (Arc::clone(login), principal.clone(), server.host.clone());
                let until = Instant::now() + limit;
                let start = move || login.lock().start(&|realm| principal.of_host(&host, realm), until);
                let started = tokio::task::spawn_blocking(start).await;
                let (initiator, token) = started.map_err(std::io::Error::other)?.map_err(ConnectCause::SaslLogin)?;
                Ok(SaslExchange::gssapi(initiator, token))
            }
        }
    }
}
