//! Stores that real tools have written (`testdata/make.sh`).

use crate::harness::{Fixture, client, connect, localhost, server, testdata};
use ox_tls::{CertificateInfo, SettingsGroup, StorePassword, StoreProblem, TlsError, TlsSettings, TlsWarning};

fn settings_of(file: &str, password: Option<&str>) -> TlsSettings {
    let mut settings = TlsSettings::new(SettingsGroup::Client);
    settings.client_auth = Some("none".to_owned());
    settings.key_store.location = Some(testdata(file));
    settings.key_store.password = password.map(StorePassword::new);
    settings
}

fn problem_of(file: &str, password: Option<&str>) -> StoreProblem {
    let error = server(&settings_of(file, password)).unwrap_err();
    let TlsError::Store { problem, .. } = error else { panic!("{file}: {error}") };
    problem
}

/// File, password, subjects of all certificates.
#[test]
fn key_stores_of_all_tools_are_read() {
    let (rsa, ec, ca) = ("CN=server,O=Example,C=US", "CN=client,O=Example,C=US", "CN=Test CA,O=Example,C=US");
    let password = Some("changeit");
    for (file, password, expected) in [
        ("pkcs8.pem", None, &[rsa, ca][..]),
        ("pkcs8.pem", password, &[rsa, ca]),
        ("pkcs1.pem", None, &[rsa, ca]),
        ("sec1.pem", None, &[ec, ca]),
        ("ec-pkcs8.pem", None, &[ec, ca]),
        ("encrypted.pem", password, &[rsa, ca]),
        ("encrypted-sha1.pem", password, &[ec, ca]),
        ("encrypted-3des.pem", password, &[ec, ca]),
        ("openssl.p12", password, &[rsa, ca]),
        ("openssl-legacy.p12", password, &[rsa, ca]),
        ("openssl-2des.p12", password, &[rsa, ca]),
        ("openssl-aes192.p12", password, &[rsa, ca]),
        ("openssl-no-password.p12", None, &[rsa, ca]),
        ("openssl-no-mac.p12", password, &[rsa, ca]),
        ("keytool.p12", password, &[rsa, ca]),
        ("keytool-legacy.p12", password, &[rsa, ca]),
        ("keytool.jks", password, &[rsa, ca]),
        ("pkcs12-called-jks.jks", password, &[rsa, ca]),
        ("self-signed.jks", password, &["CN=self,O=Example,C=US"]),
        ("self-signed.pem", None, &["CN=localhost"]),
        ("two-keys.p12", password, &["CN=rsa,O=Example,C=US", "CN=ec,O=Example,C=US"]),
        ("ed25519.p12", password, &["CN=ed,O=Example,C=US"]),
        ("unicode.jks", Some("pässwörd€"), &["CN=unicode,O=Example,C=US"]),
    ] {
        let server = server(&settings_of(file, password)).unwrap_or_else(|error| panic!("{error}"));
        let subjects: Vec<&str> = server.certificates().iter().map(|info| info.subject.as_str()).collect();
        assert_eq!(subjects, expected, "{file}");
    }
}

/// The key store, the trust store, and a setting that concerns neither.
#[test]
fn all_errors_are_reported_at_once() {
    let mut settings = settings_of("missing.pem", None);
    settings.trust_store.location = Some(testdata("make.sh"));
    settings.protocol = Some("TLSv1.1".to_owned());
    let texts = |settings: &TlsSettings| {
        server(settings).unwrap_err().each().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (key_store, problem) in [("missing.pem", "missing.pem: cannot be read"), ("ca.pem", "has no private key")] {
        settings.key_store.location = Some(testdata(key_store));
        let text = texts(&settings);
        assert_eq!(text.lines().count(), 3, "{text}");
        for expected in [problem, "Unable to auto-detect store file type", "TLSv1.1"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

#[test]
fn key_stores_that_cannot_be_used_are_explained() {
    let password = Some("changeit");
    let unsupported = |name: &str| StoreProblem::UnsupportedEncryption(name.to_owned());
    for (file, password, expected) in [
        ("missing.pem", None, StoreProblem::Unreadable("No such file or directory (os error 2)".to_owned())),
        ("make.sh", None, StoreProblem::UnknownSuffix),
        ("encrypted.pem", None, StoreProblem::PasswordMissing),
        ("encrypted.pem", Some("wrong"), StoreProblem::WrongPassword),
        ("encrypted-3des.pem", Some("wrong"), StoreProblem::WrongPassword),
        ("encrypted-scrypt.pem", password, unsupported("scrypt")),
        ("encrypted-proc-type.pem", password, unsupported("the old PEM encryption (Proc-Type)")),
        ("ca-first.pem", None, StoreProblem::KeyMismatch),
        ("ca.pem", None, StoreProblem::NoPrivateKey),
        ("openssl.p12", Some("wrong"), StoreProblem::WrongPassword),
        ("openssl-legacy.p12", None, StoreProblem::WrongPassword),
        ("trust.p12", password, StoreProblem::NoPrivateKey),
        ("trust.jks", password, StoreProblem::NoPrivateKey),
        ("keytool.jks", None, StoreProblem::PasswordMissing),
        ("keytool.jks", Some("wrong"), StoreProblem::WrongPassword),
        ("key-password.jks", password, StoreProblem::WrongKeyPassword),
    ] {
        assert_eq!(problem_of(file, password), expected, "{file}");
    }
    assert!(matches!(problem_of("dsa.jks", password), StoreProblem::UnsupportedKey(_)));
    let mut settings = settings_of("keytool.jceks", password);
    settings.key_store.store_type = Some("jks".to_owned());
    let error = server(&settings).unwrap_err().to_string();
    assert!(error.contains("is a JCEKS store") && error.contains("keytool -importkeystore"), "{error}");
    settings.key_store.store_type = Some("JCEKS".to_owned());
    let error = server(&settings).unwrap_err().to_string();
    assert!(error.contains("Bad value for ssl.keyStore.type: JCEKS"), "{error}");
}

#[test]
fn trust_stores_of_all_tools_are_read() {
    for file in ["ca.pem", "trust.jks", "trust.p12", "trust-legacy.p12", "trust-openssl.p12"] {
        let mut of_client = TlsSettings::new(SettingsGroup::Client);
        of_client.trust_store.location = Some(testdata(file));
        of_client.trust_store.password = Some(StorePassword::new("changeit"));
        let endpoint = client(&of_client).unwrap_or_else(|error| panic!("{error}")).endpoint(localhost());
        for key_store in ["keytool.p12", "sec1.pem"] {
            let of_server = server(&settings_of(key_store, Some("changeit"))).unwrap();
            assert!(connect(&endpoint, &of_server).is_ok(), "{file} {key_store}");
        }
    }
}

#[test]
fn key_store_is_no_trust_store() {
    for file in ["keytool.p12", "openssl.p12", "keytool.jks"] {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.trust_store.location = Some(testdata(file));
        settings.trust_store.password = Some(StorePassword::new("changeit"));
        let error = client(&settings).unwrap_err().to_string();
        assert!(error.contains("has no trusted certificate"), "{error}");
    }
}

#[test]
fn missing_stores_stop_the_start() {
    let fixture = Fixture::new();
    let complete = fixture.settings(SettingsGroup::Quorum, "localhost");
    let mut settings = complete.clone();
    settings.trust_store.location = None;
    let error = server(&settings).unwrap_err().to_string();
    assert!(error.starts_with("ssl.quorum.trustStore.location: not specified; "), "{error}");
    assert!(client(&settings).is_err());
    settings = complete;
    settings.key_store.location = None;
    let error = server(&settings).unwrap_err().to_string();
    assert!(error.starts_with("ssl.quorum.keyStore.location: not specified; "), "{error}");
    assert!(client(&settings).is_ok());
}

#[cfg(unix)]
#[test]
fn password_file_wins_and_wide_permissions_are_reported() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let key_store = fixture.write("keytool.p12", "");
    std::fs::copy(testdata("keytool.p12"), &key_store).unwrap();
    let password = fixture.write("password", "changeit\r\n");
    let mut settings = settings_of("keytool.p12", Some("wrong"));
    settings.key_store.location = Some(key_store.clone());
    settings.key_store.password_path = Some(password.clone());
    for (mode, warnings) in [(0o600, 0), (0o644, 2)] {
        for path in [&key_store, &password] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let server = server(&settings).unwrap();
        assert_eq!(server.warnings().len(), warnings);
        assert!(server.warnings().iter().all(|warning| matches!(warning, TlsWarning::WidePermissions { .. })));
    }
}

#[test]
fn secrets_are_in_no_output() {
    for (file, password) in [("encrypted.pem", "s3cret-1"), ("keytool.jks", "s3cret-2"), ("keytool.p12", "s3cret-3")] {
        let settings = settings_of(file, Some(password));
        let error = server(&settings).unwrap_err();
        let text = format!("{error} {error:?} {settings:?}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn subjects_are_those_of_java() {
    let expected = std::fs::read_to_string(testdata("subjects.txt")).unwrap();
    let pem = std::fs::read_to_string(testdata("subjects.pem")).unwrap();
    let certificates = pem.split("-----BEGIN CERTIFICATE-----").skip(1).map(|section| {
        let body: String = section.lines().filter(|line| !line.starts_with('-')).collect();
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap()
    });
    let subjects: Vec<String> = certificates.map(|der| CertificateInfo::parse(&der).unwrap().subject).collect();
    assert_eq!(subjects, expected.lines().collect::<Vec<_>>());
}

#[test]
fn certificate_shows_names_dates_and_distribution_points() {
    let server = server(&settings_of("pkcs8.pem", None)).unwrap();
    let leaf = &server.certificates()[0];
    assert_eq!(leaf.version, 3);
    assert_eq!(leaf.dns_names, ["localhost", "zk*.example.com"]);
    assert_eq!(leaf.addresses, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap(), "::1".parse().unwrap()]);
    assert_eq!(leaf.crl_distribution_points, ["http://crl.example.com/ca.crl"]);
    assert_eq!(leaf.not_after - leaf.not_before, 36_500 * 86_400);
    assert_eq!(leaf.days_left(leaf.not_after), 0);
    assert_eq!(leaf.days_left(leaf.not_after + 1), -1);
    assert!(leaf.is_valid_at(leaf.not_before) && !leaf.is_valid_at(leaf.not_before - 1));
    assert_eq!(server.days_left(server.certificates()[1].not_after), Some(0));
}
