//! SASL on the client port: files at start, and what all exchanges share.
//!
//! The keytab is read again when it changes, so that keys can be rotated without a restart. Steps
//! of several I/O threads run at the same time.

use crate::service_keytab::{ServiceKeytab, warn_if_open};
use ox_config::SaslConfig;
use ox_kerberos::files;
use ox_replica::{ConnAuth, EnforcedSchemes, SaslServer, SaslService, ServerLogin};
use ox_sasl::jaas::modules::AcceptorLogin;
use ox_sasl::kerberos_name::auth_to_local::AuthToLocal;
use ox_sasl::kerberos_name::identity::NameMapping;
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::replay_cache::ReplayCache;
use parking_lot::RwLock;
use std::sync::Arc;

/// Why SASL cannot be set up. Names files, never their contents.
#[derive(Debug, thiserror::Error)]
#[error("SASL on the client port: {0}")]
pub struct SaslSetupError(String);

/// SASL for all connections.
pub(crate) struct ClientSasl {
    server: RwLock<Arc<SaslServer>>,
    replays: ReplayCache,
    keytab: Option<ServiceKeytab>,
}

impl ClientSasl {
    /// Reads what the configuration names; `None` without SASL.
    pub(crate) fn open(config: &SaslConfig) -> Result<Option<Self>, SaslSetupError> {
        let Some(login) = &config.login else { return Ok(None) };
        if let Some(path) = &config.jaas_file {
            warn_if_open(path);
        }
        let conf = files::krb5_conf_of_acceptor(config.krb5_conf.as_deref()).map_err(SaslSetupError)?;
        let names = NameMapping {
            rules: AuthToLocal::parse(&config.auth_to_local).unwrap_or_default(), // checked with the configuration
            default_realm: conf.default_realm.clone().unwrap_or_default(),
            remove_host: config.remove_host,
            remove_realm: config.remove_realm,
        };
        let (login, keytab) = match login {
            AcceptorLogin::DigestMd5(accounts) => {
                let users = accounts.users().count();
                tracing::info!(mechanism = "DIGEST-MD5", users, "SASL is enabled on the client port");
                (ServerLogin::DigestMd5(Arc::new(accounts.clone())), None)
            }
            AcceptorLogin::Gssapi(options) => {
                let (keytab, credentials) = ServiceKeytab::open(options, &conf).map_err(SaslSetupError)?;
                let principal = credentials.service.as_ref().map_or_else(|| "*".to_owned(), Principal::to_string);
                tracing::info!(mechanism = "GSSAPI", principal, "SASL is enabled on the client port");
                (ServerLogin::Gssapi(Arc::new(credentials)), Some(keytab))
            }
        };
        let server = Arc::new(SaslServer { login, names, super_users: config.super_users.clone() });
        Ok(Some(Self { server: RwLock::new(server), replays: ReplayCache::default(), keytab }))
    }

    /// The principal of the server, which is its user in the audit log.
    pub(crate) fn principal(&self) -> Option<String> {
        match &self.server.read().login {
            ServerLogin::DigestMd5(_) => None,
            ServerLogin::Gssapi(credentials) => credentials.service.as_ref().map(Principal::to_string),
        }
    }

    /// Calls `step` with what an exchange needs.
    pub(crate) fn step<T>(&self, now: ox_replica::Now, step: impl FnOnce(&mut SaslService<'_>) -> T) -> T {
        let server = Arc::clone(&self.server.read());
        let random: &mut dyn FnMut(&mut [u8]) = &mut |bytes| rand::fill(bytes);
        step(&mut SaslService { server: &server, now, replays: &self.replays, random })
    }

    /// Reads the keytab again if it has changed.
    pub(crate) fn refresh_keytab(&self) {
        let Some(credentials) = self.keytab.as_ref().and_then(ServiceKeytab::read_if_changed) else { return };
        let mut server = self.server.write();
        *server = Arc::new(SaslServer { login: ServerLogin::Gssapi(Arc::new(credentials)), ..(**server).clone() });
    }
}

/// How connections authenticate, from the configuration.
pub(crate) fn conn_auth(config: &ox_config::Config) -> ConnAuth {
    let enforced = config.auth.enforced_schemes.iter().map(String::as_str);
    ConnAuth {
        has_sasl: config.sasl.login.is_some(),
        keeps_failed_sasl: config.sasl.keeps_failed_clients,
        enforced: EnforcedSchemes::of(enforced).expect("the configuration has checked that the schemes exist"),
    }
}
