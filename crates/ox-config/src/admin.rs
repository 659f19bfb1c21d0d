//! Settings of the AdminServer.

use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ErrorCollector};
use crate::java_values;
use crate::key::PREFIX;
use crate::listen::{self, ListenAddress};
use crate::settings::Settings;
use crate::start_args::{Environment, StartArgs};
use crate::tls::{SslKeys, StoreKeys};

/// The AdminServer: Apache's commands, health checks and metrics over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    pub listen: ListenAddress,
    /// Whether a port in use ends the start of a standalone server: if it has a configuration file, or the operator
    /// chose the address. A member of an ensemble starts without the AdminServer in any case.
    pub is_required: bool,
    /// Path of the commands, such as `/commands`.
    pub command_url: String,
    /// A connection without traffic is closed after this time.
    pub idle_timeout_ms: u32,
    /// Shortest time between two snapshots, and between two restores.
    pub rate_limit_ms: u64,
    pub snapshot_enabled: bool,
    pub restore_enabled: bool,
    /// Whether the scheme `ip` uses the last address of `X-Forwarded-For`.
    pub trusts_forwarded_for: bool,
    /// Subject of the super user's certificate.
    pub super_subject: Option<String>,
    /// Host names besides addresses and `localhost` that requests may name.
    pub allowed_hosts: AllowedHosts,
    /// Set if the port accepts TLS.
    pub tls: Option<AdminTls>,
}

/// Which values of the `Host` header are accepted. A web page can make a browser send requests to any address, but not
/// with a `Host` of another name than the page's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    All,
    /// Addresses, `localhost`, the name of this machine, and these names.
    Names(Vec<String>),
}

/// TLS of the AdminServer, with the stores of the connections between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTls {
    /// Whether plain text is accepted, too.
    pub is_unified: bool,
    pub keys: SslKeys,
}

const FORCE_HTTPS: &str = "admin.forceHttps";
const UNIFICATION: &str = "admin.portUnification";
const NEED_CLIENT_AUTH: &str = "admin.needClientAuth";

/// `None` if the AdminServer is disabled.
pub(crate) fn read(
    settings: &Settings,
    start: &StartArgs,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) -> Option<AdminConfig> {
    let is_disabled = settings.flag("admin.enableServer"); // the flag of the word `false`
    if is_disabled {
        return None;
    }
    let has_file = matches!(start, StartArgs::File(_));
    let has_property = |key: &str| settings.property(&format!("{PREFIX}{key}")).is_some();
    let host = match settings.text("admin.serverAddress").unwrap_or_default() {
        _ if !has_file && !has_property("admin.serverAddress") => LOOPBACK.to_owned(),
        host => host,
    };
    let number = settings.int("admin.serverPort");
    let port = listen::port(settings, "admin.serverPort", number, errors);
    let idle_timeout_ms = u32::try_from(settings.int("admin.idleTimeout")).ok().filter(|ms| 0 < *ms);
    if idle_timeout_ms.is_none() {
        let text = format!("connections are closed after {IDLE_TIMEOUT_DEFAULT_MS} ms: there must be a limit");
        diagnostics.push(Diagnostic::warn(settings.place_of("admin.idleTimeout"), text));
    }
    Some(AdminConfig {
        listen: ListenAddress::new(&host, port, environment),
        is_required: has_file || has_property("admin.serverPort") || has_property("admin.serverAddress"),
        command_url: command_url(settings, errors),
        idle_timeout_ms: idle_timeout_ms.unwrap_or(IDLE_TIMEOUT_DEFAULT_MS),
        rate_limit_ms: rate_limit_ms(settings, errors),
        snapshot_enabled: settings.flag("admin.snapshot.enabled"),
        restore_enabled: settings.flag("admin.restore.enabled"),
        trusts_forwarded_for: settings.flag("IPAuthenticationProvider.usexforwardedfor"),
        super_subject: given(settings, "X509AuthenticationProvider.superUser"),
        allowed_hosts: allowed_hosts(settings),
        tls: read_tls(settings, errors),
    })
}

const LOOPBACK: &str = "127.0.0.1";
const IDLE_TIMEOUT_DEFAULT_MS: u32 = 30_000;

fn rate_limit_ms(settings: &Settings, errors: &mut ErrorCollector) -> u64 {
    const KEY: &str = "admin.rateLimiterIntervalInMS";
    // Compat: unlike most properties, this one is read strictly (`bad_interval_of_snapshots_stops_the_start`).
    let given = settings.property(&format!("{PREFIX}{KEY}"));
    let ms = given.map_or(Some(settings.int(KEY)), |entry| java_values::int(&entry.text)).filter(|ms| 0 < *ms);
    ms.map_or_else(
        || {
            let text = given.map(|entry| entry.text.clone()).unwrap_or_default();
            let expected = "a positive number of milliseconds".to_owned();
            errors.add(settings.place_of(KEY).error(Cause::BadValue { key: KEY, text, expected }));
            0
        },
        |ms| u64::from(ms.unsigned_abs()),
    )
}

/// The path of the commands, which begins with one slash and ends with none.
fn command_url(settings: &Settings, errors: &mut ErrorCollector) -> String {
    const KEY: &str = "admin.commandURL";
    let text = settings.text(KEY).unwrap_or_default();
    let path = format!("/{}", text.trim_matches('/'));
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte));
    if path == "/" || path.contains("//") || !is_plain {
        let expected = "a path of letters, digits and -_.~, such as /commands".to_owned();
        errors.add(settings.place_of(KEY).error(Cause::BadValue { key: KEY, text, expected }));
    }
    path
}

fn allowed_hosts(settings: &Settings) -> AllowedHosts {
    let text = settings.text("oxkeeper.admin.allowedHosts").unwrap_or_default();
    let names: Vec<String> =
        text.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| name == "*") { AllowedHosts::All } else { AllowedHosts::Names(names) }
}

fn read_tls(settings: &Settings, errors: &mut ErrorCollector) -> Option<AdminTls> {
    let is_forced = settings.flag(FORCE_HTTPS);
    if !is_forced && !settings.flag(UNIFICATION) {
        return None;
    }
    let needs_certificates = settings.flag(NEED_CLIENT_AUTH);
    let mut keys = SslKeys::of_stores(store(settings, "ssl.quorum.keyStore"), store(settings, "ssl.quorum.trustStore"));
    keys.enabled_protocols = given(settings, "ssl.quorum.enabledProtocols");
    keys.cipher_suites = given(settings, "ssl.quorum.ciphersuites");
    keys.client_auth = Some(if needs_certificates { "need" } else { "none" }.to_owned());
    let port = if is_forced { FORCE_HTTPS } else { UNIFICATION };
    let mut require = |store: &StoreKeys, key| {
        if store.location.is_none() {
            errors.add(settings.place_of(port).error(Cause::StoreNotSet { port, key }));
        }
    };
    require(&keys.key_store, "ssl.quorum.keyStore.location");
    if needs_certificates {
        require(&keys.trust_store, "ssl.quorum.trustStore.location");
    }
    Some(AdminTls { is_unified: !is_forced, keys })
}

fn store(settings: &Settings, name: &str) -> StoreKeys {
    let text = |part: &str| given(settings, &format!("{name}.{part}"));
    StoreKeys::new([text("location"), text("password"), text("passwordPath"), text("type")])
}

/// The text of a property; an empty one counts as unset.
fn given(settings: &Settings, key: &str) -> Option<String> {
    let entry = settings.property(&format!("{PREFIX}{key}"))?;
    (!entry.text.is_empty()).then(|| entry.text.clone())
}
