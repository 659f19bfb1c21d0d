//! Apache's validation, in Apache's order: each line by itself, then lines in combination, then what the components of
//! a standalone server require.

use ox_proto::ensemble::{Role, is_member_key};
use ox_proto::text;

use crate::address::{self, Address};
use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigError, ErrorCollector, Place};
use crate::java_values;
use crate::key::{Key, OnBadText, PREFIX, Source, Status, ValueReader};
use crate::keys;
use crate::providers;
use crate::settings::{Entry, Settings, relative_path_warning};
use crate::start_args::Environment;

/// Validates each line by itself: numbers, flags, and lines that belong in the dynamic file.
pub(crate) fn check_lines(settings: &Settings, errors: &mut ErrorCollector) {
    let dynamic = settings.line("dynamicConfigFile").is_some();
    for (name, entry) in settings.lines() {
        errors.check(check_line(name, entry, dynamic).map_err(|cause| entry.place.error(cause)));
    }
    check_properties(settings, errors);
}

/// `dynamic` is true if `dynamicConfigFile` is set.
fn check_line(name: &str, entry: &Entry, dynamic: bool) -> Result<(), Cause> {
    if dynamic && is_member_key(name) {
        return Err(Cause::BesideDynamicFile(name.to_owned()));
    }
    if let Some(key) = keys::find(name).filter(|key| !key.is_passed()) {
        check_text(key, entry)?;
    }
    match name {
        "electionAlg" if java_values::int(&entry.text) != Some(3) => Err(Cause::ElectionAlg),
        "peerType" => Role::parse(&entry.text).map(|_| ()).map_err(Cause::from),
        _ => Ok(()),
    }
}

/// The few system properties that Apache validates as strictly as lines.
fn check_properties(settings: &Settings, errors: &mut ErrorCollector) {
    for key in keys::keys() {
        let property = match (key.source, key.reader) {
            (Source::FileOrProperty, ValueReader::Int) => settings.property(&format!("{PREFIX}{}", key.name)),
            (Source::Own, _) => settings.property(key.name),
            _ => None,
        };
        if let Some(entry) = property {
            errors.check(check_text(key, entry).map_err(|cause| entry.place.error(cause)));
        }
    }
}

fn check_text(key: &Key, entry: &Entry) -> Result<(), Cause> {
    if key.reader.on_bad_text() == OnBadText::Default || key.reader.read(&entry.text).is_some() {
        return Ok(());
    }
    let (text, expected) = (entry.text.clone(), key.reader.expected());
    Err(if key.reader == ValueReader::TrueFalse {
        Cause::NotTrueOrFalse { key: key.name, text }
    } else if let ValueReader::OneOf(_) = key.reader {
        Cause::BadValue { key: key.name, text, expected }
    } else {
        Cause::NotANumber { text, expected }
    })
}

/// Validates lines in combination. Returns the addresses of the client port and of the secure client port.
pub(crate) fn check_together(
    settings: &Settings,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) -> (Option<Address>, Option<Address>) {
    check_quorum_sasl(settings, errors);
    check_directories(settings, diagnostics, errors);
    let client = errors.check(listen_address(settings, "clientPort", environment, diagnostics)).flatten();
    let secure = errors.check(listen_address(settings, "secureClientPort", environment, diagnostics)).flatten();
    diagnostics.push(match settings.int("observerMasterPort") {
        0 => Diagnostic::info(None, "observerMasterPort is not set"),
        port => {
            Diagnostic::info(Some(settings.place_of("observerMasterPort")), format!("observerMasterPort is {port}"))
        }
    });
    if secure.is_some() {
        errors.check(check_ssl_auth_provider(settings));
    }
    check_times(settings, errors);
    let class = settings.text("metricsProvider.className").unwrap_or_default();
    if !METRICS_PROVIDERS.contains(&class.as_str()) {
        errors.add(settings.place_of("metricsProvider.className").error(Cause::MetricsProvider(class)));
    }
    (client, secure)
}

/// Metrics providers that ship with Apache.
const METRICS_PROVIDERS: [&str; 3] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
];

fn check_quorum_sasl(settings: &Settings, errors: &mut ErrorCollector) {
    let [enable, server, learner] =
        ["quorum.auth.enableSasl", "quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl"];
    for (on, off) in [(server, enable), (learner, enable), (server, learner)] {
        if settings.flag(on) && !settings.flag(off) {
            errors.add(settings.place_of(on).error(Cause::SaslOff { off, on }));
        }
    }
}

fn check_directories(settings: &Settings, diagnostics: &mut Vec<Diagnostic>, errors: &mut ErrorCollector) {
    if settings.line("dataDir").is_none() {
        errors.add(settings.place().error(Cause::NotSet("dataDir")));
    }
    for key in ["dataDir", "dataLogDir"] {
        if let Some(entry) = settings.line(key).filter(|entry| entry.text.is_empty()) {
            errors.add(entry.place.error(Cause::EmptyPath(key)));
        }
    }
    for entry in ["dataDir", "dataLogDir"].into_iter().filter_map(|key| settings.line(key)) {
        if let Place::File { .. } = entry.place {
            diagnostics.extend(relative_path_warning(&entry.text, &entry.place));
        }
    }
}

/// The address of one of the two client ports; `key` names the port.
fn listen_address(
    settings: &Settings,
    key: &'static str,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Address>, ConfigError> {
    let host_entry = settings.line(&format!("{key}Address"));
    let Some(number) = settings.optional_int(key) else {
        diagnostics.push(Diagnostic::info(None, format!("{key} is not set")));
        return match host_entry {
            Some(entry) if settings.line(key).is_none() => {
                Err(entry.place.error(Cause::AddressWithoutPort { port: key }))
            }
            Some(_) | None => Ok(None), // a port that is no number is an error already
        };
    };
    let place = settings.place_of(key);
    let port = address::port(number).map_err(|cause| place.error(cause))?;
    let found = match host_entry {
        None => Address::wildcard(port),
        Some(entry) => {
            let found = Address::new(&entry.text, port, environment);
            if found.ip.is_none() {
                return Err(entry.place.error(Cause::UnknownHost(entry.text.clone())));
            }
            found
        }
    };
    if let Some(ip) = found.ip {
        let socket = std::net::SocketAddr::new(ip, port);
        diagnostics.push(Diagnostic::info(Some(place), format!("{key}Address is {socket}")));
    }
    Ok(Some(found))
}

fn check_ssl_auth_provider(settings: &Settings) -> Result<(), ConfigError> {
    let scheme = settings.text("ssl.authProvider").unwrap_or_default();
    let configured = settings.property(&format!("{PREFIX}authProvider.{scheme}")).is_some();
    if scheme == "x509" || configured {
        return Ok(());
    }
    Err(settings.place_of("ssl.authProvider").error(Cause::NoSslAuthProvider(scheme)))
}

/// Minimum and maximum session timeout, in milliseconds.
pub(crate) fn session_timeouts_ms(settings: &Settings) -> (i32, i32) {
    let tick_ms = settings.int("tickTime");
    // Java's arithmetic: an overlong tick overflows and is refused below.
    let or_ticks = |ms, ticks| {
        if ms == -1 { tick_ms.wrapping_mul(ticks) } else { ms }
    };
    (or_ticks(settings.int("minSessionTimeout"), 2), or_ticks(settings.int("maxSessionTimeout"), 20))
}

fn check_times(settings: &Settings, errors: &mut ErrorCollector) {
    let tick_ms = settings.int("tickTime");
    if tick_ms == 0 {
        return errors.add(settings.place_of("tickTime").error(Cause::Zero("tickTime")));
    }
    let (min, max) = session_timeouts_ms(settings);
    let all = ["minSessionTimeout", "maxSessionTimeout", "tickTime"];
    let is_known = all.into_iter().all(|key| !errors.has(settings.place_of(key)));
    if max < min && is_known {
        let given = all.into_iter().find(|key| settings.line(key).is_some());
        return errors.add(settings.place_of(given.unwrap_or("tickTime")).error(Cause::SessionTimeouts { min, max }));
    }
    if tick_ms < 0 {
        errors.add(bad_value(settings, "tickTime", tick_ms, "a positive number"));
    }
}

/// Validates what the components of a standalone server require.
pub(crate) fn check_server(settings: &Settings, errors: &mut ErrorCollector) {
    for key in keys::keys() {
        for entry in settings.given(key) {
            errors.check(check_passed(key, entry).map_err(|cause| entry.place.error(cause)));
        }
    }
    let least =
        [("znode.container.checkIntervalMs", 1), ("intBufferStartingSizeBytes", 32), ("nio.numSelectorThreads", 1)];
    for (key, least) in least {
        if let Some(number) = settings.optional_int(key).filter(|number| *number < least) {
            errors.add(bad_value(settings, key, number, &format!("at least {least}")));
        }
    }
    errors.check(check_enforced_schemes(settings));
}

/// Validates a value that reaches its component as a system property, as strictly as that component does.
fn check_passed(key: &'static Key, entry: &Entry) -> Result<(), Cause> {
    // The AdminServer checks its own keys, if it is enabled (`crate::admin`).
    let is_used = matches!(key.status, Status::Built | Status::Hint) && !key.name.starts_with("admin.");
    if is_used && key.is_passed() && key.family().is_none() { check_text(key, entry) } else { Ok(()) }
}

fn bad_value(settings: &Settings, key: &'static str, number: i32, expected: &str) -> ConfigError {
    let (text, expected) = (number.to_string(), expected.to_owned());
    settings.place_of(key).error(Cause::BadValue { key, text, expected })
}

fn check_enforced_schemes(settings: &Settings) -> Result<(), ConfigError> {
    if !settings.flag("enforce.auth.enabled") || settings.flag("sessionRequireClientSASLAuth") {
        return Ok(());
    }
    let place = settings.place_of("enforce.auth.schemes");
    let Some(schemes) = settings.text("enforce.auth.schemes") else {
        return Err(settings.place_of("enforce.auth.enabled").error(Cause::EnforcedSchemesMissing));
    };
    let available = providers::schemes(settings);
    match schemes.split(',').map(text::trim).find(|scheme| !available.contains(scheme)) {
        Some(scheme) => Err(place.error(Cause::SchemeNotAvailable(scheme.to_owned()))),
        None => Ok(()),
    }
}
