//! Settings of TLS on the client port.
//!
//! This module reads the keys; the stores are read when the server starts (`ox-tls`). A setting that asks for protection
//! which cannot be given is an error.

use std::net::IpAddr;
use std::path::PathBuf;

use ox_proto::text::trim;

use crate::address::Address;
use crate::auth::Secret;
use crate::config::not_negative;
use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigError, ErrorCollector};
use crate::settings::Settings;

/// TLS for clients: on a port of its own, or on the client port beside plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// `secureClientPort`; 0 picks a free port, `None` opens none.
    pub secure_port: Option<u16>,
    /// Address to bind the secure port to; `None` means all interfaces.
    pub secure_address: Option<IpAddr>,
    /// Whether `clientPort` accepts TLS too.
    pub is_client_port_unified: bool,
    /// Whether the stores are read again when their content changes.
    pub reloads: bool,
    /// Time for the first byte on a port that accepts plain text and TLS.
    pub detection_ms: u32,
    /// Limit of concurrent handshakes, where one is configured.
    pub handshakes_max: Option<u32>,
    /// Subject of the super user's certificate.
    pub super_user: Option<String>,
    pub keys: SslKeys,
}

/// The values of one group of `ssl.*` keys, as the operator wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SslKeys {
    pub key_store: StoreKeys,
    pub trust_store: StoreKeys,
    pub protocol: Option<String>,
    pub enabled_protocols: Option<String>,
    pub cipher_suites: Option<String>,
    pub context_supplier_class: Option<String>,
    pub client_auth: Option<String>,
    pub hostname_verification: bool,
    pub client_hostname_verification: bool,
    pub allow_reverse_dns_lookup: bool,
    pub crl: bool,
    pub ocsp: bool,
    pub crl_files: Vec<PathBuf>,
    pub fips_mode: bool,
}

/// The four keys of a key store or trust store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreKeys {
    pub location: Option<PathBuf>,
    pub password: Option<Secret>,
    pub password_path: Option<PathBuf>,
    pub store_type: Option<String>,
}

/// Whether a port for clients uses TLS.
pub(crate) fn is_used(settings: &Settings) -> bool {
    settings.line(SECURE_PORT).is_some() || is_unified(settings)
}

fn is_unified(settings: &Settings) -> bool {
    settings.flag(UNIFICATION)
}

/// Whether clients prove their identity by certificates. Unknown values are refused when the stores are read.
fn asks_for_certificates(settings: &Settings) -> bool {
    settings.text("ssl.clientAuth").is_none_or(|text| !trim(&text).eq_ignore_ascii_case("none"))
}

/// Refuses settings that contradict each other, and warns of those without effect.
pub(crate) fn check(
    settings: &Settings,
    has_client_port: bool,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) {
    if !is_used(settings) {
        warn_of_unused(settings, diagnostics);
        return;
    }
    let port = if settings.line(SECURE_PORT).is_some() { SECURE_PORT } else { UNIFICATION };
    let mut required = vec!["ssl.keyStore.location"];
    if asks_for_certificates(settings) {
        required.push("ssl.trustStore.location");
    }
    for key in required {
        if path(settings, key).is_none() {
            errors.add(settings.place().error(Cause::StoreNotSet { port, key }));
        }
    }
    errors.check(check_scheme(settings));
    let detection_ms = settings.int(DETECTION);
    if detection_ms < 1 {
        let text = format!("Invalid value for {DETECTION}: {detection_ms}, using the default value of 5000");
        diagnostics.push(Diagnostic::warn(settings.place_of(DETECTION), text));
    }
    if is_unified(settings) && !has_client_port && settings.line(SECURE_PORT).is_some() {
        let text = format!("{UNIFICATION} has no effect: clientPort is not set");
        diagnostics.push(Diagnostic::warn(settings.place_of(UNIFICATION), text));
    }
}

fn warn_of_unused(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) {
    if path(settings, "ssl.keyStore.location").is_some() {
        let text = "the ssl keys have no effect: neither secureClientPort nor client.portUnification is set";
        diagnostics.push(Diagnostic::warn(settings.place_of("ssl.keyStore.location"), text));
    }
}

/// Java classes for other schemes do not run here.
fn check_scheme(settings: &Settings) -> Result<(), ConfigError> {
    const KEY: &str = "ssl.authProvider";
    let text = settings.text(KEY).unwrap_or_default();
    if text == "x509" {
        return Ok(());
    }
    Err(settings.place_of(KEY).error(Cause::BadValue { key: KEY, text, expected: "x509".to_owned() }))
}

const SECURE_PORT: &str = "secureClientPort";
const UNIFICATION: &str = "client.portUnification";
const DETECTION: &str = "ssl.handshakeDetectionTimeoutMillis";
const DETECTION_DEFAULT_MS: u32 = 5000;

impl TlsConfig {
    /// `None` if no port uses TLS.
    pub(crate) fn from_checked(settings: &Settings, secure: Option<&Address>) -> Option<TlsConfig> {
        if !is_used(settings) {
            return None;
        }
        let handshakes_max = not_negative(settings.int("netty.server.outstandingHandshake.limit"));
        Some(TlsConfig {
            secure_port: secure.map(|address| address.port),
            secure_address: secure.and_then(Address::bind),
            is_client_port_unified: is_unified(settings),
            reloads: settings.flag("client.certReload"),
            detection_ms: Some(not_negative(settings.int(DETECTION)))
                .filter(|ms| 0 < *ms)
                .unwrap_or(DETECTION_DEFAULT_MS),
            handshakes_max: Some(handshakes_max).filter(|max| 0 < *max),
            super_user: given(settings, "X509AuthenticationProvider.superUser"),
            keys: SslKeys::from_checked(settings, "ssl."),
        })
    }
}

impl SslKeys {
    /// A group that has stores only.
    pub(crate) fn of_stores(key_store: StoreKeys, trust_store: StoreKeys) -> SslKeys {
        SslKeys {
            key_store,
            trust_store,
            protocol: None,
            enabled_protocols: None,
            cipher_suites: None,
            context_supplier_class: None,
            client_auth: None,
            hostname_verification: false,
            client_hostname_verification: false,
            allow_reverse_dns_lookup: false,
            crl: false,
            ocsp: false,
            crl_files: Vec::new(),
            fips_mode: false,
        }
    }

    /// The group with the given prefix: `ssl.` or `ssl.quorum.`.
    pub fn from_checked(settings: &Settings, prefix: &str) -> SslKeys {
        let text = |name: &str| given(settings, &format!("{prefix}{name}"));
        let flag = |name: &str| settings.flag(&format!("{prefix}{name}"));
        let crl_files = given(settings, &format!("oxkeeper.{prefix}crlFiles")).unwrap_or_default();
        let crl_files = crl_files.split(',').map(trim).filter(|file| !file.is_empty()).map(PathBuf::from);
        SslKeys {
            key_store: StoreKeys::from_checked(settings, &format!("{prefix}keyStore")),
            trust_store: StoreKeys::from_checked(settings, &format!("{prefix}trustStore")),
            protocol: text("protocol"),
            enabled_protocols: text("enabledProtocols"),
            cipher_suites: text("ciphersuites"),
            context_supplier_class: text("context.supplier.class"),
            client_auth: text("clientAuth"),
            hostname_verification: flag("hostnameVerification"),
            client_hostname_verification: flag("clientHostnameVerification"),
            allow_reverse_dns_lookup: flag("allowReverseDnsLookup"),
            crl: flag("crl"),
            ocsp: flag("ocsp"),
            crl_files: crl_files.collect(),
            fips_mode: settings.flag("fips-mode"),
        }
    }
}

impl StoreKeys {
    /// From location, password, path of the password, and type.
    pub(crate) fn new([location, password, password_path, store_type]: [Option<String>; 4]) -> StoreKeys {
        StoreKeys {
            location: location.map(PathBuf::from),
            password: password.map(Secret::new),
            password_path: password_path.map(PathBuf::from),
            store_type,
        }
    }

    fn from_checked(settings: &Settings, name: &str) -> StoreKeys {
        StoreKeys {
            location: path(settings, &format!("{name}.location")),
            password: given(settings, &format!("{name}.password")).map(Secret::new),
            password_path: path(settings, &format!("{name}.passwordPath")),
            store_type: given(settings, &format!("{name}.type")),
        }
    }
}

/// The text of a key; an empty one counts as unset.
fn given(settings: &Settings, key: &str) -> Option<String> {
    settings.text(key).filter(|text| !text.is_empty())
}

pub(crate) fn path(settings: &Settings, key: &str) -> Option<PathBuf> {
    given(settings, key).map(PathBuf::from)
}
