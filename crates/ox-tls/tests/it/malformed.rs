//! Arbitrary and damaged stores: an error, never a panic or an endless loop.

use crate::harness::testdata;
use ox_tls::{CertificateInfo, fuzz_store};
use proptest::prelude::*;

const STORES: [(&str, &str); 9] = [
    ("keytool.jks", "JKS"),
    ("trust.jks", "JKS"),
    ("keytool-legacy.p12", "PKCS12"),
    ("openssl-no-mac.p12", "PKCS12"),
    ("openssl-aes192.p12", "PKCS12"),
    ("trust.p12", "PKCS12"),
    ("encrypted-sha1.pem", "PEM"),
    ("sec1.pem", "PEM"),
    ("subjects.pem", "PEM"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_are_no_store(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for store_type in ["JKS", "PKCS12", "PEM"] {
            fuzz_store(store_type, &bytes, "changeit");
        }
        let magic = [&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2][..], &bytes].concat();
        fuzz_store("JKS", &magic, "changeit");
        let _ = CertificateInfo::parse(&bytes);
    }

    /// The MAC is not checked in stores without one, so that damage reaches all readers.
    #[test]
    fn damaged_store_is_an_error_or_a_store(
        which in 0..STORES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (file, store_type) = STORES[which];
        let mut bytes = std::fs::read(testdata(file)).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_store(store_type, &bytes, "changeit");
    }

    #[test]
    fn damaged_certificate_is_an_error_or_a_certificate(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let text = std::fs::read_to_string(testdata("pkcs8.pem")).unwrap();
        let body: String = text.split("CERTIFICATE-----").nth(1).unwrap().lines().filter(|line| !line.starts_with('-')).collect();
        let mut certificate = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap();
        let at = at.index(certificate.len());
        certificate[at] = value;
        let _ = CertificateInfo::parse(&certificate);
    }
}

/// Damage inside a JKS body with a digest that matches: the digest does not protect against the owner of the password.
#[test]
fn jks_entries_are_read_with_bounds() {
    use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
    let good = std::fs::read(testdata("keytool.jks")).unwrap();
    let password: Vec<u8> = "changeit".encode_utf16().flat_map(u16::to_be_bytes).collect();
    for at in 4..good.len() - 20 {
        for value in [0, 1, 0x7f, 0xff] {
            let mut body = good[..good.len() - 20].to_vec();
            body[at] = value;
            let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            for part in [&password[..], b"Mighty Aphrodite", &body] {
                digest.update(part);
            }
            body.extend_from_slice(digest.finish().as_ref());
            fuzz_store("JKS", &body, "changeit");
        }
    }
}
