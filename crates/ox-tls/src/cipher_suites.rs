//! `ciphersuites`: suites by their IANA names, which Java uses too.

use crate::error::TlsError;
use crate::settings::TlsSettings;
use crate::warning::TlsWarning;
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Suites of JDK 8 to 17 that are not offered: CBC mode (padding oracles), no forward secrecy, finite-field
/// Diffie-Hellman. Every peer that knows one of them knows a supported suite as well.
const LEFT_OUT: [&str; 63] = [
    "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA",
    "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA",
    "TLS_ECDH_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDH_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDH_ECDSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDH_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDH_RSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDH_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDH_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_256_CBC_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDH_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDH_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_NULL_SHA256",
    "TLS_ECDHE_ECDSA_WITH_NULL_SHA",
    "TLS_ECDHE_RSA_WITH_NULL_SHA",
    "TLS_ECDH_ECDSA_WITH_NULL_SHA",
    "TLS_ECDH_RSA_WITH_NULL_SHA",
    "SSL_RSA_WITH_3DES_EDE_CBC_SHA",
    "SSL_DHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "SSL_DHE_DSS_WITH_3DES_EDE_CBC_SHA",
    "SSL_RSA_WITH_RC4_128_SHA",
    "SSL_RSA_WITH_RC4_128_MD5",
    "SSL_RSA_WITH_DES_CBC_SHA",
    "SSL_DHE_RSA_WITH_DES_CBC_SHA",
    "SSL_RSA_WITH_NULL_SHA",
    "SSL_RSA_WITH_NULL_MD5",
];

/// The suites that the setting permits, in its order; all supported suites without it.
///
/// At least one of them must be usable with one of `versions`.
pub(crate) fn suites(
    settings: &TlsSettings,
    versions: &[&'static SupportedProtocolVersion],
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let Some(list) = settings.cipher_suites.as_deref() else { return Ok(ALL_CIPHER_SUITES.to_vec()) };
    let key = settings.key("ciphersuites");
    let (mut suites, mut left_out) = (Vec::new(), Vec::new());
    for name in list.split(',').map(str::trim) {
        if let Some(suite) = ALL_CIPHER_SUITES.iter().find(|suite| iana_name(suite) == name) {
            suites.push(*suite);
        } else if LEFT_OUT.contains(&name) {
            left_out.push(name.to_owned());
        } else {
            return Err(TlsError::setting(key, format!("cipher suite {name:?} is unknown"), known()));
        }
    }
    if !suites.iter().any(|suite| versions.contains(&suite.version())) {
        let problem = "no secure cipher suite is left for the enabled protocols";
        return Err(TlsError::setting(key, problem, known()));
    }
    if !left_out.is_empty() {
        warnings.push(TlsWarning::CipherSuitesLeftOut { key, names: left_out });
    }
    Ok(suites)
}

fn known() -> String {
    let names: Vec<String> = ALL_CIPHER_SUITES.iter().map(iana_name).collect();
    format!("known are {}", names.join(", "))
}

/// rustls writes the suites of TLS 1.3 with `TLS13_` for `TLS_`.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingsGroup;
    use rustls::version::{TLS12, TLS13};

    fn chosen(list: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> Result<(String, usize), String> {
        let mut settings = TlsSettings::new(SettingsGroup::Quorum);
        settings.cipher_suites = list.map(str::to_owned);
        let mut warnings = Vec::new();
        let suites = suites(&settings, versions, &mut warnings).map_err(|error| error.to_string())?;
        let names: Vec<String> = suites.iter().map(iana_name).collect();
        Ok((names.join(","), warnings.len()))
    }

    #[test]
    fn apache_default_list_keeps_its_secure_suites() {
        let list = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
                    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
                    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,\
                    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,\
                    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384,TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384,\
                    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,\
                    TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256";
        let expected = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
                        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
                        TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256";
        assert_eq!(chosen(Some(list), &[&TLS13, &TLS12]), Ok((expected.to_owned(), 1)));
        assert_eq!(chosen(None, &[&TLS13]).unwrap().0.split(',').count(), 9);
    }

    #[test]
    fn list_without_usable_suite_is_an_error() {
        let nothing_left = "ssl.quorum.ciphersuites: no secure cipher suite is left";
        for (list, versions, expected) in [
            ("TLS_RSA_WITH_AES_128_CBC_SHA", [&TLS13, &TLS12], nothing_left),
            ("TLS_AES_128_GCM_SHA256", [&TLS12, &TLS12], nothing_left),
            (
                "TLS_AES_128",
                [&TLS13, &TLS12],
                "ssl.quorum.ciphersuites: cipher suite \"TLS_AES_128\" is unknown; known",
            ),
            ("", [&TLS13, &TLS12], "ssl.quorum.ciphersuites: cipher suite \"\" is unknown"),
        ] {
            let error = chosen(Some(list), &versions).unwrap_err();
            assert!(error.starts_with(expected) && error.contains("TLS_CHACHA20_POLY1305_SHA256"), "{error}");
        }
    }
}
