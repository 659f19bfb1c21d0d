//! JKS, the key store format of older JDKs.
//!
//! ```text
//! magic fe ed fe ed | version u32 (1, 2) | entries u32 | entry.. | SHA-1 of password, "Mighty Aphrodite", all before
//! entry:  tag u32 | alias utf | date i64 | 1: key, chain     2: certificate
//! key:    length u32 | EncryptedPrivateKeyInfo with Sun's algorithm:
//!         salt 20 bytes | PKCS#8 XOR key stream | SHA-1 of password, PKCS#8
//! chain:  count u32 | certificate..
//! certificate:  type utf (version 2 only) | length u32 | DER
//! ```
//!
//! Numbers are big endian, `utf` is a length u16 and text. The password is UTF-16, big endian, without an end mark.
//! The key stream is SHA-1(password, salt), then SHA-1(password, block before).

use super::{KeyEntry, KeyForm, PrivateKey, StoreEntries, StoreUse};
use crate::der::{DerReader, OCTET_STRING, SEQUENCE};
use crate::error::StoreProblem;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

const DIGEST_BYTES: usize = 20;
const SUN_KEY_PROTECTION: &[u8] = &[0x2b, 6, 1, 4, 1, 42, 2, 17, 1, 1];
const KEY_TAG: u32 = 1;
const CERTIFICATE_TAG: u32 = 2;

const TRUNCATED: StoreProblem = StoreProblem::Damaged("the JKS file ends too early");

/// Reads a file that starts with the magic of JKS. Keys are decrypted only for a key store.
pub(super) fn read(bytes: &[u8], usage: StoreUse, password: &str) -> Result<StoreEntries, StoreProblem> {
    let password = encode(password);
    let (body, expected) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or(TRUNCATED)?;
    verify_slices_are_equal(seal(body, &password).as_ref(), expected).map_err(|_| StoreProblem::WrongPassword)?;
    let mut reader = Reader { rest: body };
    reader.number()?; // magic
    let version = reader.number()?;
    if !(1..=2).contains(&version) {
        return Err(StoreProblem::Damaged("the JKS version is unknown"));
    }
    let mut entries = StoreEntries::default();
    for _ in 0..reader.number()? {
        let tag = reader.number()?;
        let alias = String::from_utf8_lossy(reader.text()?).into_owned();
        reader.take(8)?; // creation date
        match tag {
            KEY_TAG => {
                let protected = reader.bytes()?;
                let mut chain = Vec::new();
                for _ in 0..reader.number()? {
                    chain.push(reader.certificate(version)?);
                }
                if usage == StoreUse::Keys {
                    entries.keys.push(KeyEntry { alias, key: unprotect(protected, &password)?, chain });
                }
            }
            CERTIFICATE_TAG => entries.trusted.push(reader.certificate(version)?),
            _ => return Err(StoreProblem::Damaged("a JKS entry is neither a key nor a certificate")),
        }
    }
    Ok(entries)
}

/// The bytes with the digest that their content needs, which would stop altered bytes before they are read. For fuzzing.
pub(super) fn sealed(mut bytes: Vec<u8>, password: &str) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(DIGEST_BYTES));
    let digest = seal(&bytes, &encode(password));
    bytes.extend_from_slice(digest.as_ref());
    bytes
}

fn encode(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().flat_map(u16::to_be_bytes).collect())
}

fn seal(body: &[u8], password: &[u8]) -> Digest {
    sha1(&[password, b"Mighty Aphrodite", body])
}

fn unprotect(protected: &[u8], password: &[u8]) -> Result<PrivateKey, StoreProblem> {
    let mut info = DerReader::new(protected).nested(SEQUENCE)?;
    if info.nested(SEQUENCE)?.oid()? != SUN_KEY_PROTECTION {
        return Err(StoreProblem::UnsupportedEncryption("another algorithm than that of JKS".to_owned()));
    }
    let data = info.expect(OCTET_STRING)?.content;
    let (salt, rest) = data.split_first_chunk::<DIGEST_BYTES>().ok_or(TRUNCATED)?;
    let (encrypted, check) = rest.split_last_chunk::<DIGEST_BYTES>().ok_or(TRUNCATED)?;
    let mut key = Zeroizing::new(encrypted.to_owned());
    let mut block = sha1(&[password, salt]);
    for part in key.chunks_mut(DIGEST_BYTES) {
        part.iter_mut().zip(block.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
        block = sha1(&[password, block.as_ref()]);
    }
    let actual = sha1(&[password, &key]);
    verify_slices_are_equal(actual.as_ref(), check).map_err(|_| StoreProblem::WrongKeyPassword)?;
    Ok(PrivateKey { form: KeyForm::Pkcs8, der: key })
}

fn sha1(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], StoreProblem> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, StoreProblem> {
        let (number, rest) = self.rest.split_first_chunk().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*number))
    }

    fn bytes(&mut self) -> Result<&'a [u8], StoreProblem> {
        let length = usize::try_from(self.number()?).map_err(|_| TRUNCATED)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a [u8], StoreProblem> {
        let (length, rest) = self.rest.split_first_chunk().ok_or(TRUNCATED)?;
        self.rest = rest;
        self.take(usize::from(u16::from_be_bytes(*length)))
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, StoreProblem> {
        if version == 2 && self.text()? != b"X.509" {
            return Err(StoreProblem::Damaged("a JKS certificate is not X.509"));
        }
        self.bytes().map(|der| der.to_owned().into())
    }
}
