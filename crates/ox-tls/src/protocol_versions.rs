//! `protocol` and `enabledProtocols`: which versions of TLS are offered.

use crate::error::TlsError;
use crate::settings::TlsSettings;
use crate::warning::TlsWarning;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

const KNOWN: &str = "known are TLSv1.2 and TLSv1.3";

/// Names that Java knows and that are too old to be offered.
const OLD: [&str; 4] = ["TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello"];

/// The versions that the settings permit, newest first. Old names of a list with others are left out with a warning.
pub(crate) fn versions(
    settings: &TlsSettings,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let of_protocol = match settings.protocol.as_deref() {
        None | Some("TLSv1.3" | "TLS") => vec![&TLS13, &TLS12],
        Some("TLSv1.2") => vec![&TLS12],
        Some(name) => return Err(unknown(settings.key("protocol"), name)),
    };
    let Some(list) = settings.enabled_protocols.as_deref() else { return Ok(of_protocol) };
    let key = settings.key("enabledProtocols");
    let (mut has_12, mut has_13, mut old) = (false, false, Vec::new());
    for name in list.split(',').map(str::trim) {
        match name {
            "TLSv1.3" => has_13 = true,
            "TLSv1.2" => has_12 = true,
            name if OLD.contains(&name) => old.push(name.to_owned()),
            name => return Err(unknown(key, name)),
        }
    }
    let versions: Vec<_> =
        [(has_13, &TLS13), (has_12, &TLS12)].into_iter().filter_map(|(has, version)| has.then_some(version)).collect();
    if versions.is_empty() {
        return Err(TlsError::setting(key, "no protocol is left: those older than TLSv1.2 are insecure", KNOWN));
    }
    if !old.is_empty() {
        warnings.push(TlsWarning::ProtocolsLeftOut { key, names: old });
    }
    Ok(versions)
}

fn unknown(key: String, name: &str) -> TlsError {
    let problem = if OLD.contains(&name) { "is insecure" } else { "is unknown" };
    TlsError::setting(key, format!("protocol {name:?} {problem}"), KNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingsGroup;

    fn names(protocol: Option<&str>, enabled: Option<&str>) -> Result<(String, usize), String> {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.protocol = protocol.map(str::to_owned);
        settings.enabled_protocols = enabled.map(str::to_owned);
        let mut warnings = Vec::new();
        let versions = versions(&settings, &mut warnings).map_err(|error| error.to_string())?;
        let names: Vec<String> = versions.iter().map(|version| format!("{:?}", version.version)).collect();
        Ok((names.join(","), warnings.len()))
    }

    #[test]
    fn versions_follow_the_settings() {
        for (protocol, enabled, expected, warnings) in [
            (None, None, "TLSv1_3,TLSv1_2", 0),
            (Some("TLSv1.3"), None, "TLSv1_3,TLSv1_2", 0),
            (Some("TLSv1.2"), None, "TLSv1_2", 0),
            (Some("TLSv1.2"), Some("TLSv1.3"), "TLSv1_3", 0),
            (None, Some("TLSv1.2,TLSv1.3"), "TLSv1_3,TLSv1_2", 0),
            (None, Some("TLSv1.2, TLSv1.1,TLSv1"), "TLSv1_2", 1),
        ] {
            assert_eq!(names(protocol, enabled), Ok((expected.to_owned(), warnings)), "{protocol:?} {enabled:?}");
        }
        for (protocol, enabled, expected) in [
            (Some("TLSv1.1"), None, "ssl.protocol: protocol \"TLSv1.1\" is insecure"),
            (Some("tls"), None, "ssl.protocol: protocol \"tls\" is unknown; known are TLSv1.2"),
            (None, Some("TLSv1.4"), "ssl.enabledProtocols: protocol \"TLSv1.4\" is unknown"),
            (None, Some(""), "ssl.enabledProtocols: protocol \"\" is unknown"),
            (None, Some("TLSv1,SSLv3"), "ssl.enabledProtocols: no protocol is left"),
        ] {
            let error = names(protocol, enabled).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
