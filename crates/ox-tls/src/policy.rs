//! What the settings permit, checked before any file is used.

use crate::cipher_suites::suites;
use crate::error::TlsError;
use crate::host_name::HostNamePolicy;
use crate::protocol_versions::versions;
use crate::settings::TlsSettings;
use crate::warning::TlsWarning;
use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::Arc;

/// Whether a server asks for a client certificate, and what happens without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    None,
    Want,
    Need,
}

impl ClientAuth {
    const TABLE: [(&'static str, Self); 3] = [("none", Self::None), ("want", Self::Want), ("need", Self::Need)];

    fn parse(settings: &TlsSettings) -> Result<Self, TlsError> {
        let Some(name) = settings.client_auth.as_deref() else { return Ok(Self::Need) };
        let row = Self::TABLE.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        row.map(|(_, value)| *value).ok_or_else(|| {
            let remedy = "known are none, want and need";
            TlsError::setting(settings.key("clientAuth"), format!("value {name:?} is unknown"), remedy)
        })
    }
}

#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) client_auth: ClientAuth,
    pub(crate) names_of_servers: HostNamePolicy,
    pub(crate) names_of_clients: HostNamePolicy,
}

impl Policy {
    pub(crate) fn new(settings: &TlsSettings, warnings: &mut Vec<TlsWarning>) -> Result<Self, TlsError> {
        if let Some(class) = settings.context_supplier_class.as_deref() {
            let remedy = "remove it and name the stores in the configuration";
            let problem = format!("the Java class {class:?} cannot be loaded");
            return Err(TlsError::setting(settings.key("context.supplier.class"), problem, remedy));
        }
        let versions = versions(settings, warnings)?;
        let cipher_suites = suites(settings, &versions, warnings)?;
        let names_of_servers = HostNamePolicy::of_servers(settings);
        if names_of_servers.is_warning_only() {
            warnings.push(TlsWarning::HostNamesNotEnforced);
        }
        Ok(Self {
            provider: Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() }),
            versions,
            client_auth: ClientAuth::parse(settings)?,
            names_of_servers,
            names_of_clients: HostNamePolicy::of_clients(settings),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingsGroup;

    #[test]
    fn client_auth_is_parsed_in_any_case() {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        assert_eq!(ClientAuth::parse(&settings).unwrap(), ClientAuth::Need);
        for (name, expected) in [("NONE", ClientAuth::None), ("Want", ClientAuth::Want), ("need", ClientAuth::Need)] {
            settings.client_auth = Some(name.to_owned());
            assert_eq!(ClientAuth::parse(&settings).unwrap(), expected);
        }
        settings.client_auth = Some("maybe".to_owned());
        let error = ClientAuth::parse(&settings).unwrap_err().to_string();
        assert_eq!(error, "ssl.clientAuth: value \"maybe\" is unknown; known are none, want and need");
    }

    #[test]
    fn custom_class_is_refused() {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.context_supplier_class = Some("com.example.Supplier".to_owned());
        let error = Policy::new(&settings, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("ssl.context.supplier.class: the Java class \"com.example.Supplier\""), "{error}");
    }
}
