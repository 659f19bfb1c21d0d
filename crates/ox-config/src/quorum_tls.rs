//! Settings of TLS between servers.

use ox_proto::text::trim;

use crate::config::not_negative;
use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ErrorCollector};
use crate::settings::Settings;
use crate::tls::{SslKeys, path};

/// TLS on the election and quorum ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumTlsConfig {
    /// Whether this server uses TLS when it connects (`sslQuorum`).
    pub dials_tls: bool,
    /// Whether plain text is accepted beside TLS.
    pub accepts_plain: bool,
    /// Whether the stores are read again when their content changes.
    pub reloads: bool,
    /// Time for the first byte of an accepted connection.
    pub detection_ms: u32,
    pub keys: SslKeys,
}

const SSL_QUORUM: &str = "sslQuorum";
const UNIFICATION: &str = "portUnification";
const DETECTION: &str = "ssl.quorum.handshakeDetectionTimeoutMillis";
const CLIENT_AUTH: &str = "ssl.quorum.clientAuth";
const KEY_STORE: &str = "ssl.quorum.keyStore.location";
const TRUST_STORE: &str = "ssl.quorum.trustStore.location";
const DETECTION_DEFAULT_MS: u32 = 5000;

/// Whether TLS is possible on the ports for other servers.
fn is_used(settings: &Settings) -> bool {
    settings.flag(SSL_QUORUM) || settings.flag(UNIFICATION)
}

/// Refuses a member without the stores that it needs, and warns of settings that protect less than they seem to.
pub(crate) fn check(settings: &Settings, diagnostics: &mut Vec<Diagnostic>, errors: &mut ErrorCollector) {
    if !is_used(settings) {
        if path(settings, KEY_STORE).is_some() {
            let text = "the ssl.quorum keys have no effect: neither sslQuorum nor portUnification is set";
            diagnostics.push(Diagnostic::warn(settings.place_of(KEY_STORE), text));
        }
        return;
    }
    let port = if settings.flag(SSL_QUORUM) { SSL_QUORUM } else { UNIFICATION };
    for key in [KEY_STORE, TRUST_STORE] {
        if path(settings, key).is_none() {
            errors.add(settings.place().error(Cause::StoreNotSet { port, key }));
        }
    }
    let needs_certificate = settings.text(CLIENT_AUTH).is_none_or(|text| trim(&text).eq_ignore_ascii_case("need"));
    if !needs_certificate {
        let text = "servers without a certificate are accepted: every host can join the ensemble; use need";
        diagnostics.push(Diagnostic::warn(settings.place_of(CLIENT_AUTH), text));
    }
    let detection_ms = settings.int(DETECTION);
    if detection_ms < 1 {
        let text = format!("Invalid value for {DETECTION}: {detection_ms}, using the default value of 5000");
        diagnostics.push(Diagnostic::warn(settings.place_of(DETECTION), text));
    }
}

impl QuorumTlsConfig {
    /// `None` if the ports accept and use plain text only.
    pub(crate) fn from_checked(settings: &Settings) -> Option<QuorumTlsConfig> {
        let detection_ms = Some(not_negative(settings.int(DETECTION))).filter(|ms| 0 < *ms);
        is_used(settings).then(|| QuorumTlsConfig {
            dials_tls: settings.flag(SSL_QUORUM),
            accepts_plain: settings.flag(UNIFICATION),
            reloads: settings.flag("sslQuorumReloadCertFiles"),
            detection_ms: detection_ms.unwrap_or(DETECTION_DEFAULT_MS),
            keys: SslKeys::from_checked(settings, "ssl.quorum."),
        })
    }
}
