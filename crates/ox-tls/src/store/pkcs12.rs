//! PKCS12, the default format of keytool from JDK 9 on, and of `openssl pkcs12`.
//!
//! ```text
//! PFX { version 3, ContentInfo, MacData? }
//!   ContentInfo: data with a list of ContentInfo, each data or encrypted data with a list of bags
//!     bag: kind, value, attributes      kinds that are read: key, encrypted key, certificate, nested list
//! ```
//!
//! A key and its certificate have the same localKeyId. The issuers follow by name. A trusted certificate has an
//! attribute of Oracle's; where no certificate has one, as in stores of openssl, a store without keys is a list of
//! trusted certificates. A store with keys is not: its certificates prove the server's identity, they trust no other.

use super::{KeyEntry, KeyForm, PrivateKey, StoreEntries, StoreUse};
use crate::certificate::CertificateInfo;
use crate::der::{DerReader, OCTET_STRING, SEQUENCE, SET, context, context_bytes};
use crate::error::StoreProblem;
use crate::password_encryption::{EncodedPassword, decrypt, verify_pkcs12_mac};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 6];
const BAG_PREFIX: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1];
const X509_CERTIFICATE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 21];
const FRIENDLY_NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 20];
const TRUSTED_KEY_USAGE: &[u8] = &[0x60, 0x86, 0x48, 1, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 1, 1];

/// Nested lists of bags do not occur in practice.
const DEPTH_MAX: u8 = 4;

/// Issuers in a chain. A longer one is a loop of certificates that issue each other.
const CHAIN_MAX: usize = 16;

struct KeyBag {
    key: Zeroizing<Vec<u8>>,
    attributes: Attributes,
}

struct CertificateBag {
    der: CertificateDer<'static>,
    attributes: Attributes,
}

#[derive(Default)]
struct Attributes {
    local_key_id: Option<Vec<u8>>,
    friendly_name: String,
    is_trusted: bool,
}

/// The bags of a store, in the order of the file.
struct Bags<'a> {
    usage: StoreUse,
    password: EncodedPassword<'a>,
    keys: Vec<KeyBag>,
    encrypted_keys: usize,
    certificates: Vec<CertificateBag>,
}

pub(super) fn read(bytes: &[u8], usage: StoreUse, password: &str) -> Result<StoreEntries, StoreProblem> {
    match read_with(bytes, usage, EncodedPassword::new(password)) {
        Err(StoreProblem::WrongPassword) if password.is_empty() => read_with(bytes, usage, EncodedPassword::none()),
        result => result,
    }
}

fn read_with(bytes: &[u8], usage: StoreUse, password: EncodedPassword<'_>) -> Result<StoreEntries, StoreProblem> {
    let mut pfx = DerReader::new(bytes).nested(SEQUENCE)?;
    if pfx.number()? != 3 {
        return Err(StoreProblem::Damaged("the PKCS12 version is not 3"));
    }
    let mut content = pfx.nested(SEQUENCE)?;
    if content.oid()? != DATA {
        return Err(StoreProblem::Damaged("the PKCS12 store is protected by a public key instead of a password"));
    }
    let safe = content.nested(context(0))?.expect(OCTET_STRING)?.content;
    if !pfx.is_empty() {
        verify_pkcs12_mac(pfx.nested(SEQUENCE)?, &password, safe)?;
    }
    let mut bags = Bags { usage, password, keys: Vec::new(), encrypted_keys: 0, certificates: Vec::new() };
    let mut parts = DerReader::new(safe).nested(SEQUENCE)?;
    while !parts.is_empty() {
        bags.read_part(parts.nested(SEQUENCE)?)?;
    }
    bags.into_entries()
}

impl Bags<'_> {
    fn read_part(&mut self, mut part: DerReader<'_>) -> Result<(), StoreProblem> {
        let oid = part.oid()?;
        let mut content = part.nested(context(0))?;
        match oid {
            DATA => self.read_bags(content.expect(OCTET_STRING)?.content, 0),
            ENCRYPTED_DATA => {
                let mut data = content.nested(SEQUENCE)?;
                data.number()?; // version
                let mut encrypted = data.nested(SEQUENCE)?;
                encrypted.oid()?; // data
                let algorithm = encrypted.nested(SEQUENCE)?;
                let bytes = encrypted.expect(context_bytes(0))?.content;
                self.read_bags(&decrypt(algorithm, &self.password, bytes)?, 0)
            }
            _ => Err(StoreProblem::Damaged("the PKCS12 store has content of an unknown kind")),
        }
    }

    fn read_bags(&mut self, bytes: &[u8], depth: u8) -> Result<(), StoreProblem> {
        let mut bags = DerReader::new(bytes).nested(SEQUENCE)?;
        while !bags.is_empty() {
            let mut bag = bags.nested(SEQUENCE)?;
            let kind = bag.oid()?.strip_prefix(BAG_PREFIX);
            let mut value = bag.nested(context(0))?;
            let attributes = if bag.is_empty() { Attributes::default() } else { attributes(bag.nested(SET)?)? };
            match kind {
                Some([1]) => {
                    let key = Zeroizing::new(value.expect(SEQUENCE)?.encoded.to_owned());
                    self.keys.push(KeyBag { key, attributes });
                }
                Some([2]) => self.read_encrypted_key(value, attributes)?,
                Some([3]) => self.read_certificate(value, attributes)?,
                Some([6]) if depth < DEPTH_MAX => self.read_bags(value.expect(SEQUENCE)?.encoded, depth + 1)?,
                _ => {} // revocation lists and secrets
            }
        }
        Ok(())
    }

    /// Decrypts a key only for a key store: it is slow, and a trust store needs no key.
    fn read_encrypted_key(&mut self, mut value: DerReader<'_>, attributes: Attributes) -> Result<(), StoreProblem> {
        self.encrypted_keys += 1;
        if self.usage == StoreUse::Keys {
            let mut info = value.nested(SEQUENCE)?;
            let algorithm = info.nested(SEQUENCE)?;
            let key = match decrypt(algorithm, &self.password, info.expect(OCTET_STRING)?.content) {
                Err(StoreProblem::WrongPassword) => return Err(StoreProblem::WrongKeyPassword), // the MAC was right
                result => result?,
            };
            self.keys.push(KeyBag { key, attributes });
        }
        Ok(())
    }

    fn read_certificate(&mut self, mut value: DerReader<'_>, attributes: Attributes) -> Result<(), StoreProblem> {
        let mut certificate = value.nested(SEQUENCE)?;
        if certificate.oid()? == X509_CERTIFICATE {
            let der = certificate.nested(context(0))?.expect(OCTET_STRING)?.content.to_owned().into();
            self.certificates.push(CertificateBag { der, attributes });
        }
        Ok(())
    }

    fn into_entries(self) -> Result<StoreEntries, StoreProblem> {
        let is_marked = self.certificates.iter().any(|bag| bag.attributes.is_trusted);
        let has_keys = !self.keys.is_empty() || self.encrypted_keys != 0;
        let trusted = self.certificates.iter().filter(|bag| bag.attributes.is_trusted || (!is_marked && !has_keys));
        let trusted = trusted.map(|bag| bag.der.clone()).collect();
        let mut entries = StoreEntries { keys: Vec::new(), trusted };
        if self.usage == StoreUse::Keys {
            let infos = self.certificates.iter().map(|bag| CertificateInfo::parse(&bag.der));
            let infos = infos.collect::<Result<Vec<_>, _>>()?;
            for bag in self.keys {
                let chain = chain(&bag.attributes, &self.certificates, &infos);
                let key = PrivateKey { form: KeyForm::Pkcs8, der: bag.key };
                entries.keys.push(KeyEntry { alias: bag.attributes.friendly_name, key, chain });
            }
        }
        Ok(entries)
    }
}

/// The certificate with the id of the key, then its issuers. A key without an id belongs to the first certificate.
fn chain(key: &Attributes, bags: &[CertificateBag], infos: &[CertificateInfo]) -> Vec<CertificateDer<'static>> {
    let is_leaf = |bag: &CertificateBag| bag.attributes.local_key_id == key.local_key_id && !bag.attributes.is_trusted;
    let mut next = bags.iter().position(is_leaf).or((key.local_key_id.is_none() && !bags.is_empty()).then_some(0));
    let mut chain = Vec::new();
    while let Some(index) = next.filter(|_| chain.len() < CHAIN_MAX) {
        chain.push(bags[index].der.clone());
        let info = &infos[index];
        let issuer = || infos.iter().position(|issuer| issuer.subject_der == info.issuer_der);
        next = if info.is_self_issued() { None } else { issuer() };
    }
    chain
}

fn attributes(mut set: DerReader<'_>) -> Result<Attributes, StoreProblem> {
    let mut attributes = Attributes::default();
    while !set.is_empty() {
        let mut attribute = set.nested(SEQUENCE)?;
        let oid = attribute.oid()?;
        let mut values = attribute.nested(SET)?;
        match oid {
            LOCAL_KEY_ID => attributes.local_key_id = Some(values.expect(OCTET_STRING)?.content.to_owned()),
            FRIENDLY_NAME => {
                let units = values.any()?.content.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
                let letters = char::decode_utf16(units);
                attributes.friendly_name = letters.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            }
            TRUSTED_KEY_USAGE => attributes.is_trusted = true,
            _ => {}
        }
    }
    Ok(attributes)
}
