//! Settings of the metrics provider.

use crate::error::{Cause, ErrorCollector};
use crate::listen::{self, ListenAddress};
use crate::settings::Settings;
use crate::start_args::Environment;
use crate::tls::{SslKeys, StoreKeys};

/// Prometheus's page on ports of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusConfig {
    /// The port for HTTP. If `https` has the same port, it accepts both.
    pub http: Option<ListenAddress>,
    pub https: Option<ListenAddress>,
    /// Whether the page has metrics of the process.
    pub exports_process: bool,
    /// The release whose names and types are used.
    pub compatibility: MetricsCompatibility,
    /// Set if `https` is.
    pub keys: Option<SslKeys>,
}

/// The release of Apache whose Prometheus page is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsCompatibility {
    #[default]
    V3_9,
    /// Counters end with `_total`, and the second quantile is 0.95 instead of 0.9.
    V3_10,
}

const CLASS: &str = "metricsProvider.className";
const HTTP_PORT: &str = "metricsProvider.httpPort";
const HTTPS_PORT: &str = "metricsProvider.httpsPort";

/// The release that `metricsProvider.compatibility` names.
pub(crate) fn compatibility(settings: &Settings) -> MetricsCompatibility {
    match settings.text("metricsProvider.compatibility").as_deref() {
        Some("3.10") => MetricsCompatibility::V3_10,
        _ => MetricsCompatibility::V3_9,
    }
}

/// `None` unless the provider is Prometheus's.
pub(crate) fn read(
    settings: &Settings,
    environment: &Environment<'_>,
    errors: &mut ErrorCollector,
) -> Option<PrometheusConfig> {
    if !settings.text(CLASS).is_some_and(|class| class.ends_with(".PrometheusMetricsProvider")) {
        return None;
    }
    let compatibility = compatibility(settings);
    let host = settings.text("metricsProvider.httpHost").unwrap_or_default();
    let is_off = compatibility == MetricsCompatibility::V3_10 && settings.line(HTTP_PORT).is_none();
    let http_port = if is_off { -1 } else { settings.int(HTTP_PORT) };
    let mut listen = |key, number: i32| {
        (number != -1).then(|| ListenAddress::new(&host, listen::port(settings, key, number, errors), environment))
    };
    let (http, https) = (listen(HTTP_PORT, http_port), listen(HTTPS_PORT, settings.int(HTTPS_PORT)));
    if http.is_none() && https.is_none() {
        errors.add(settings.place_of(CLASS).error(Cause::NoMetricsPort));
    }
    Some(PrometheusConfig {
        http,
        exports_process: settings.flag("metricsProvider.exportJvmInfo"),
        compatibility,
        keys: https.is_some().then(|| keys(settings, errors)),
        https,
    })
}

fn keys(settings: &Settings, errors: &mut ErrorCollector) -> SslKeys {
    let text = |name: &str| settings.text(&format!("metricsProvider.ssl.{name}")).filter(|text| !text.is_empty());
    let store = |name: &str| {
        StoreKeys::new([
            text(&format!("{name}.location")),
            text(&format!("{name}.password")),
            None,
            text(&format!("{name}.type")),
        ])
    };
    let mut keys = SslKeys::of_stores(store("keyStore"), store("trustStore"));
    let (needs, wants) =
        (settings.flag("metricsProvider.ssl.need.client.auth"), settings.flag("metricsProvider.ssl.want.client.auth"));
    let client_auth = match (needs, wants) {
        (true, _) => "need",
        (false, true) if keys.trust_store.location.is_some() => "want",
        (false, _) => "none",
    };
    keys.client_auth = Some(client_auth.to_owned());
    keys.enabled_protocols = text("enabledProtocols");
    keys.cipher_suites = text("ciphersuites");
    let mut require = |store: &StoreKeys, key| {
        if store.location.is_none() {
            errors.add(settings.place_of(HTTPS_PORT).error(Cause::StoreNotSet { port: HTTPS_PORT, key }));
        }
    };
    require(&keys.key_store, "metricsProvider.ssl.keyStore.location");
    if needs {
        require(&keys.trust_store, "metricsProvider.ssl.trustStore.location");
    }
    keys
}
