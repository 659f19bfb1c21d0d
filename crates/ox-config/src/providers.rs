//! Maps the Java classes that `authProvider.*` names to authentication schemes.

use crate::settings::{Entry, Settings};
use crate::tls;

/// An authentication provider that ships with Apache.
pub(crate) struct Provider {
    class: &'static str,
    scheme: &'static str,
    /// The feature that it needs and that is not implemented yet.
    pub(crate) missing: Option<&'static str>,
}

const PACKAGE: &str = "org.apache.zookeeper.server.auth.";

const PROVIDERS: &[Provider] = &[
    Provider { class: "DigestAuthenticationProvider", scheme: "digest", missing: None },
    Provider { class: "IPAuthenticationProvider", scheme: "ip", missing: None },
    Provider { class: "KeyAuthenticationProvider", scheme: "key", missing: None },
    Provider { class: "SASLAuthenticationProvider", scheme: "sasl", missing: None },
    Provider { class: "X509AuthenticationProvider", scheme: "x509", missing: None },
    Provider { class: "EnsembleAuthenticationProvider", scheme: "ensemble", missing: None },
];

/// The provider of each `authProvider.*` setting; `None` for a class that does not ship with Apache.
pub(crate) fn configured(settings: &Settings) -> impl Iterator<Item = (&Entry, Option<&'static Provider>)> {
    settings.properties_under("zookeeper.authProvider.").map(|(_, entry)| {
        let class = entry.text.strip_prefix(PACKAGE);
        (entry, PROVIDERS.iter().find(|provider| Some(provider.class) == class))
    })
}

/// Schemes by which a client may authenticate.
pub(crate) fn schemes(settings: &Settings) -> Vec<&'static str> {
    let mut schemes = vec!["ip"];
    if settings.flag("DigestAuthenticationProvider.enabled") {
        schemes.push("digest");
    }
    if tls::is_used(settings) {
        schemes.push("x509");
    }
    schemes.extend(configured(settings).filter_map(|(_, provider)| Some(provider?.scheme)));
    schemes
}
