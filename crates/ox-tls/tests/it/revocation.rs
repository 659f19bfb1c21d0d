//! `crl` and `ocsp`, with lists in files.

use crate::harness::{EXPIRED, Fixture, VALID, client, connect, localhost, server};
use ox_tls::generate::Validity;
use ox_tls::{CertificateInfo, SettingsGroup, TlsSettings, TlsWarning};

/// Settings with a list of the CA that revokes the certificates of `revoked`.
fn with_list(
    fixture: &Fixture,
    settings: &TlsSettings,
    revoked: &[CertificateInfo],
    validity: Validity,
) -> TlsSettings {
    let list = fixture.ca.revocation_list(revoked, validity).unwrap();
    let mut settings = settings.clone();
    settings.crl = true;
    settings.crl_files = vec![fixture.write("ca.crl", &list)];
    settings
}

#[test]
fn revoked_certificate_is_refused_by_both_sides() {
    let fixture = Fixture::new();
    let bad = fixture.settings(SettingsGroup::Client, "localhost");
    let revoked = server(&bad).unwrap().certificates()[0].clone();
    let good = fixture.settings_of(SettingsGroup::Client, "good", &fixture.issue("localhost", VALID));
    let checking = with_list(&fixture, &good, &[revoked], VALID);
    let endpoint = client(&good).unwrap().endpoint(localhost());
    assert!(connect(&endpoint, &server(&checking).unwrap()).is_ok());
    let endpoint = client(&checking).unwrap().endpoint(localhost());
    assert!(connect(&endpoint, &server(&good).unwrap()).is_ok());
    let error = connect(&endpoint, &server(&bad).unwrap()).unwrap_err();
    assert!(format!("{error:?}").contains("Revoked"), "{error:?}");
    let endpoint = client(&bad).unwrap().endpoint(localhost());
    let error = connect(&endpoint, &server(&checking).unwrap()).unwrap_err();
    assert!(format!("{error:?}").contains("Revoked"), "{error:?}");
}

#[test]
fn unknown_status_and_expired_list_are_refused() {
    let fixture = Fixture::new();
    let settings = fixture.settings(SettingsGroup::Client, "localhost");
    let endpoint = client(&settings).unwrap().endpoint(localhost());
    let expired = server(&with_list(&fixture, &settings, &[], EXPIRED)).unwrap();
    assert_eq!(expired.revocation_lists()[0].next_update, Some(EXPIRED.not_after));
    assert_eq!(expired.revocation_lists()[0].issuer, "CN=Test CA");
    let error = connect(&endpoint, &expired).unwrap_err();
    assert!(format!("{error:?}").contains("ExpiredRevocationList"), "{error:?}");
    let other_key = Fixture::new();
    let of_other_ca = server(&with_list(&other_key, &settings, &[], VALID)).unwrap();
    assert!(connect(&endpoint, &of_other_ca).is_err());
}

#[test]
fn revocation_without_lists_stops_the_start() {
    let fixture = Fixture::new();
    let settings = fixture.settings(SettingsGroup::Quorum, "localhost");
    for (crl, ocsp, key) in [(true, false, "crl"), (false, true, "ocsp"), (true, true, "crl")] {
        let settings = TlsSettings { crl, ocsp, ..settings.clone() };
        let error = server(&settings).unwrap_err().to_string();
        let expected = format!("ssl.quorum.{key}: revocation lists are not downloaded");
        assert!(error.starts_with(&expected) && error.contains("oxkeeper.ssl.quorum.crlFiles"), "{error}");
        assert!(client(&settings).is_err());
    }
    let mut with_ocsp = with_list(&fixture, &settings, &[], VALID);
    (with_ocsp.crl, with_ocsp.ocsp) = (false, true);
    let warning = TlsWarning::RevocationListsInsteadOfOcsp { key: "ssl.quorum.ocsp".to_owned() };
    assert!(server(&with_ocsp).unwrap().warnings().contains(&warning));
}

#[test]
fn malformed_list_is_an_error_with_its_file() {
    let fixture = Fixture::new();
    let settings = fixture.settings(SettingsGroup::Client, "localhost");
    let mut settings = with_list(&fixture, &settings, &[], VALID);
    for content in ["", "text", "\u{30}\u{0}", fixture.ca.certificate()] {
        settings.crl_files = vec![fixture.write("bad.crl", content)];
        let error = server(&settings).unwrap_err().to_string();
        assert!(error.starts_with("oxkeeper.ssl.crlFiles=") && error.contains("bad.crl: "), "{error}");
    }
}
