//! PEM: base64 between `-----BEGIN label-----` and `-----END label-----`. Other text is ignored.
//!
//! A key store has one private key (PKCS#8, plain or encrypted; PKCS#1; SEC1) and its certificates, leaf first, in one
//! file. A trust store is a list of certificates.

use super::{KeyEntry, KeyForm, PrivateKey, StoreEntries, StoreUse};
use crate::der::{DerReader, OCTET_STRING, SEQUENCE};
use crate::error::StoreProblem;
use crate::password_encryption::{EncodedPassword, decrypt};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateRevocationListDer;
use zeroize::Zeroizing;

struct Section<'a> {
    label: &'a str,
    der: Zeroizing<Vec<u8>>,
}

pub(super) fn read(bytes: &[u8], usage: StoreUse, password: Option<&str>) -> Result<StoreEntries, StoreProblem> {
    let (mut key, mut certificates) = (None, Vec::new());
    for section in sections(bytes)? {
        let form = match section.label {
            "CERTIFICATE" | "X509 CERTIFICATE" => {
                certificates.push(section.der.to_vec().into());
                continue;
            }
            "TRUSTED CERTIFICATE" => {
                return Err(StoreProblem::Damaged("BEGIN TRUSTED CERTIFICATE, openssl's own form"));
            }
            "PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" => KeyForm::Pkcs8,
            "RSA PRIVATE KEY" => KeyForm::Pkcs1,
            "EC PRIVATE KEY" => KeyForm::Sec1,
            _ => continue, // parameters, public keys, requests
        };
        if usage == StoreUse::Trust {
            continue;
        }
        if key.is_some() {
            return Err(StoreProblem::Damaged("the PEM file has more than one private key"));
        }
        let is_encrypted = section.label == "ENCRYPTED PRIVATE KEY";
        let der = if is_encrypted { decrypt_key(&section.der, password)? } else { section.der };
        key = Some(PrivateKey { form, der });
    }
    match usage {
        StoreUse::Trust => Ok(StoreEntries { keys: Vec::new(), trusted: certificates }),
        StoreUse::Keys => {
            let entry = key.map(|key| KeyEntry { alias: String::new(), key, chain: certificates });
            Ok(StoreEntries { keys: entry.into_iter().collect(), trusted: Vec::new() })
        }
    }
}

pub(super) fn read_revocation_lists(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreProblem> {
    let lists = sections(bytes)?.into_iter().filter(|section| section.label == "X509 CRL");
    Ok(lists.map(|section| section.der.to_vec().into()).collect())
}

fn decrypt_key(der: &[u8], password: Option<&str>) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let password = password.filter(|password| !password.is_empty()).ok_or(StoreProblem::PasswordMissing)?;
    let mut info = DerReader::new(der).nested(SEQUENCE)?;
    let algorithm = info.nested(SEQUENCE)?;
    decrypt(algorithm, &EncodedPassword::new(password), info.expect(OCTET_STRING)?.content)
}

fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, StoreProblem> {
    let text = std::str::from_utf8(bytes).map_err(|_| StoreProblem::WrongFormat("PEM"))?;
    let (mut sections, mut lines) = (Vec::new(), text.lines().map(str::trim));
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let mut body = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            let line = lines.next().ok_or(StoreProblem::Damaged("a PEM section has no end"))?;
            if line.starts_with("-----END ") {
                break;
            }
            if line.starts_with("Proc-Type:") && line.ends_with("ENCRYPTED") {
                return Err(StoreProblem::UnsupportedEncryption("the old PEM encryption (Proc-Type)".to_owned()));
            }
            if !line.contains(':') {
                body.push_str(line);
            }
        }
        let der = STANDARD.decode(body.as_bytes()).map_err(|_| StoreProblem::Damaged("a PEM section is not base64"))?;
        sections.push(Section { label, der: Zeroizing::new(der) });
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_sections_is_ignored() {
        let text = "Bag Attributes\n friendlyName: x\n-----BEGIN CERTIFICATE-----\r\nAQID\r\n-----END CERTIFICATE-----\n\
                    subject=\n-----BEGIN EC PARAMETERS-----\nBBBB\n-----END EC PARAMETERS-----\n";
        let entries = read(text.as_bytes(), StoreUse::Trust, None).unwrap();
        assert_eq!(entries.trusted, [vec![1, 2, 3].into()]);
    }

    #[test]
    fn malformed_sections_are_errors() {
        let section = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let key = section("PRIVATE KEY", "AQID");
        let old = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAQID";
        let cases = [
            ("-----BEGIN CERTIFICATE-----\nAQID\n".to_owned(), StoreProblem::Damaged("a PEM section has no end")),
            (section("CERTIFICATE", "A*ID"), StoreProblem::Damaged("a PEM section is not base64")),
            (format!("{key}{key}"), StoreProblem::Damaged("the PEM file has more than one private key")),
            (section("ENCRYPTED PRIVATE KEY", "AQID"), StoreProblem::PasswordMissing),
            (
                section("RSA PRIVATE KEY", old),
                StoreProblem::UnsupportedEncryption("the old PEM encryption (Proc-Type)".to_owned()),
            ),
            (
                section("TRUSTED CERTIFICATE", "AQID"),
                StoreProblem::Damaged("BEGIN TRUSTED CERTIFICATE, openssl's own form"),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text.as_bytes(), StoreUse::Keys, None), Err(expected), "{text}");
        }
        assert_eq!(read(&[0xff], StoreUse::Keys, None), Err(StoreProblem::WrongFormat("PEM")));
    }
}
