//! Key stores and trust stores: which format a file has, and what is read from it.
//!
//! The type comes from the setting or from the suffix. As in Java, a store that is called JKS may be PKCS12 and the
//! reverse: keytool writes PKCS12 by default, whatever the file is called.

mod jks;
mod pem;
mod pkcs12;

use crate::error::StoreProblem;
use crate::settings::StorePassword;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// First bytes of a JKS file.
const JKS_MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
/// First bytes of a JCEKS file, which Apache does not read either.
const JCEKS_MAGIC: [u8; 4] = [0xce, 0xce, 0xce, 0xce];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreType {
    Jks,
    Pem,
    Pkcs12,
    Bcfks,
}

impl StoreType {
    const TABLE: [(Self, &'static str, &'static str); 4] = [
        (Self::Jks, "JKS", "jks"),
        (Self::Pem, "PEM", "pem"),
        (Self::Pkcs12, "PKCS12", "p12"),
        (Self::Bcfks, "BCFKS", "bcfks"),
    ];

    /// The type that a setting names, in any case.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let row = Self::TABLE.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name));
        row.map(|(store_type, ..)| *store_type)
    }

    /// The type that the suffix of a file names, in lower case only.
    pub(crate) fn by_suffix(path: &Path) -> Result<Self, StoreProblem> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        let row = Self::TABLE.iter().find(|(.., known)| suffix == Some(known));
        row.map(|(store_type, ..)| *store_type).ok_or(StoreProblem::UnknownSuffix)
    }
}

/// A private key, wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PrivateKey {
    pub(crate) form: KeyForm,
    pub(crate) der: Zeroizing<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Pkcs8,
    Pkcs1,
    Sec1,
}

impl PrivateKey {
    pub(crate) fn as_der(&self) -> PrivateKeyDer<'_> {
        match self.form {
            KeyForm::Pkcs8 => PrivatePkcs8KeyDer::from(&self.der[..]).into(),
            KeyForm::Pkcs1 => PrivatePkcs1KeyDer::from(&self.der[..]).into(),
            KeyForm::Sec1 => PrivateSec1KeyDer::from(&self.der[..]).into(),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, ***)", self.form)
    }
}

/// A private key and its certificates, leaf first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) alias: String,
    pub(crate) key: PrivateKey,
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// What a store contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreEntries {
    pub(crate) keys: Vec<KeyEntry>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
}

/// What a file is read for. It decides what a PEM file without a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreUse {
    Keys,
    Trust,
}

/// Reads a store. An empty result of the kind that `usage` asks for is an error.
pub(crate) fn read(
    bytes: &[u8],
    store_type: StoreType,
    usage: StoreUse,
    password: Option<&StorePassword>,
) -> Result<StoreEntries, StoreProblem> {
    let password = password.map(StorePassword::reveal);
    let entries = match store_type {
        StoreType::Bcfks => return Err(StoreProblem::UnsupportedType("BCFKS")),
        StoreType::Pem => pem::read(bytes, usage, password)?,
        StoreType::Jks | StoreType::Pkcs12 if bytes.starts_with(&JCEKS_MAGIC) => {
            return Err(StoreProblem::UnsupportedType("JCEKS"));
        }
        StoreType::Jks | StoreType::Pkcs12 if bytes.starts_with(&JKS_MAGIC) => {
            jks::read(bytes, usage, password.ok_or(StoreProblem::PasswordMissing)?)?
        }
        StoreType::Jks | StoreType::Pkcs12 if bytes.first() == Some(&crate::der::SEQUENCE) => {
            pkcs12::read(bytes, usage, password.unwrap_or(""))?
        }
        StoreType::Jks => return Err(StoreProblem::WrongFormat("JKS")),
        StoreType::Pkcs12 => return Err(StoreProblem::WrongFormat("PKCS12")),
    };
    match usage {
        StoreUse::Keys if entries.keys.is_empty() => Err(StoreProblem::NoPrivateKey),
        StoreUse::Keys if entries.keys.iter().any(|entry| entry.chain.is_empty()) => Err(StoreProblem::NoCertificate),
        StoreUse::Trust if entries.trusted.is_empty() => Err(StoreProblem::NoTrustedCertificate),
        StoreUse::Keys | StoreUse::Trust => Ok(entries),
    }
}

/// Reads a file with revocation lists, PEM or DER.
pub(crate) fn read_revocation_lists(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreProblem> {
    if bytes.first() == Some(&crate::der::SEQUENCE) {
        return Ok(vec![bytes.to_owned().into()]);
    }
    let lists = pem::read_revocation_lists(bytes)?;
    if lists.is_empty() {
        return Err(StoreProblem::BadRevocationList("no X509 CRL in the file".to_owned()));
    }
    Ok(lists)
}

/// Reads arbitrary bytes as a store of a type that `TlsSettings` can name, for both uses. For fuzzing.
pub fn fuzz_store(store_type: &str, bytes: &[u8], password: &str) {
    let sealed = jks::sealed(bytes.to_owned(), password);
    let password = StorePassword::new(password);
    if let Some(store_type) = StoreType::by_name(store_type) {
        let bytes = if store_type == StoreType::Jks { &sealed } else { bytes };
        for usage in [StoreUse::Keys, StoreUse::Trust] {
            if let Ok(entries) = read(bytes, store_type, usage, Some(&password)) {
                let chains = entries.keys.iter().flat_map(|entry| &entry.chain);
                for certificate in chains.chain(&entries.trusted) {
                    let _ = crate::CertificateInfo::parse(certificate);
                }
            }
        }
    }
    let _ = read_revocation_lists(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_comes_from_name_or_suffix() {
        assert_eq!(StoreType::by_name("pkcs12"), Some(StoreType::Pkcs12));
        assert_eq!(StoreType::by_name("PKCS11"), None);
        for (file, expected) in [
            ("/a/b.jks", Ok(StoreType::Jks)),
            ("b.pem", Ok(StoreType::Pem)),
            ("b.p12", Ok(StoreType::Pkcs12)),
            ("b.bcfks", Ok(StoreType::Bcfks)),
            ("b.PEM", Err(StoreProblem::UnknownSuffix)),
            ("b.crt", Err(StoreProblem::UnknownSuffix)),
            ("pem", Err(StoreProblem::UnknownSuffix)),
        ] {
            assert_eq!(StoreType::by_suffix(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn unsupported_formats_are_named() {
        let password = StorePassword::new("x");
        let read = |bytes: &[u8], store_type| read(bytes, store_type, StoreUse::Keys, Some(&password)).unwrap_err();
        assert_eq!(read(b"", StoreType::Bcfks), StoreProblem::UnsupportedType("BCFKS"));
        assert_eq!(read(&[0xce, 0xce, 0xce, 0xce], StoreType::Jks), StoreProblem::UnsupportedType("JCEKS"));
        assert_eq!(read(b"", StoreType::Jks), StoreProblem::WrongFormat("JKS"));
        assert_eq!(read(b"-----BEGIN", StoreType::Pkcs12), StoreProblem::WrongFormat("PKCS12"));
        assert_eq!(read(b"", StoreType::Pem), StoreProblem::NoPrivateKey);
    }
}
