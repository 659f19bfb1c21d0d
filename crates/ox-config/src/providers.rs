//! Authentication schemes by the Java classes that `authProvider.*` names.

use crate::keys::{ENSEMBLE_AUTH, SASL, TLS};
use crate::settings::{Entry, Settings};

/// One of the classes that Apache itself brings.
pub(crate) struct Provider {
    class: &'static str,
    scheme: &'static str,
    /// What is missing for it, where it is not built.
    pub(crate) missing: Option<&'static str>,
}

const PACKAGE: &str = "org.apache.zookeeper.server.auth.";

const PROVIDERS: &[Provider] = &[
    Provider { class: "DigestAuthenticationProvider", scheme: "digest", missing: None },
    Provider { class: "IPAuthenticationProvider", scheme: "ip", missing: None },
    Provider { class: "KeyAuthenticationProvider", scheme: "key", missing: None },
    Provider { class: "SASLAuthenticationProvider", scheme: "sasl", missing: Some(SASL) },
    Provider { class: "X509AuthenticationProvider", scheme: "x509", missing: Some(TLS) },
    Provider { class: "EnsembleAuthenticationProvider", scheme: "ensemble", missing: Some(ENSEMBLE_AUTH) },
];

/// What each `authProvider.*` names, `None` for a class that is not Apache's.
pub(crate) fn configured(settings: &Settings) -> impl Iterator<Item = (&Entry, Option<&'static Provider>)> {
    settings.properties_under("zookeeper.authProvider.").map(|(_, entry)| {
        let class = entry.text.strip_prefix(PACKAGE);
        (entry, PROVIDERS.iter().find(|provider| Some(provider.class) == class))
    })
}

/// The schemes that a client may authenticate with.
pub(crate) fn schemes(settings: &Settings) -> Vec<&'static str> {
    let mut schemes = vec!["ip"];
    if settings.flag("DigestAuthenticationProvider.enabled") {
        schemes.push("digest");
    }
    schemes.extend(configured(settings).filter_map(|(_, provider)| Some(provider?.scheme)));
    schemes
}
