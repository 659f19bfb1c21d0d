//! Encryption, checksums and key derivation of the AES encryption types: RFC 3961, 3962 and 8009.

mod cts;
mod nfold;
mod sha1_profile;
mod sha2_profile;
mod string_to_key;

use super::{EtypeName, KerberosError};
use crate::mechanism::Random;
use crate::secret::SecretBytes;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const BLOCK: usize = 16;
/// Constants that separate the three keys of a usage.
const CHECKSUM_KEY: u8 = 0x99;
const ENCRYPTION_KEY: u8 = 0xAA;
const INTEGRITY_KEY: u8 = 0x55;

/// An encryption type, in the order in which an initiator prefers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etype {
    Aes256Sha1,
    Aes128Sha1,
    Aes256Sha384,
    Aes128Sha256,
}

/// What a key is used for (RFC 4120, 7.5.1; RFC 4121, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUsage {
    PaEncTimestamp = 1,
    Ticket = 2,
    AsRep = 3,
    TgsReqChecksum = 6,
    TgsReqAuthenticator = 7,
    TgsRepSessionKey = 8,
    ApReqAuthenticator = 11,
    ApRep = 12,
    AcceptorSeal = 22,
    InitiatorSeal = 24,
}

/// A key with its type.
#[derive(Clone, Debug)]
pub struct KerberosKey {
    pub etype: Etype,
    bytes: SecretBytes,
}

impl Etype {
    pub const ALL: [Self; 4] = [Self::Aes256Sha1, Self::Aes128Sha1, Self::Aes256Sha384, Self::Aes128Sha256];

    pub fn number(self) -> i32 {
        match self {
            Self::Aes128Sha1 => 17,
            Self::Aes256Sha1 => 18,
            Self::Aes128Sha256 => 19,
            Self::Aes256Sha384 => 20,
        }
    }

    pub fn from_number(number: i32) -> Result<Self, KerberosError> {
        Self::ALL
            .into_iter()
            .find(|etype| etype.number() == number)
            .ok_or(KerberosError::UnsupportedEtype(EtypeName(number)))
    }

    /// From a name of `krb5.conf`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "aes256-cts-hmac-sha1-96" | "aes256-cts" | "aes256-sha1" => Self::Aes256Sha1,
            "aes128-cts-hmac-sha1-96" | "aes128-cts" | "aes128-sha1" => Self::Aes128Sha1,
            "aes256-cts-hmac-sha384-192" | "aes256-sha2" => Self::Aes256Sha384,
            "aes128-cts-hmac-sha256-128" | "aes128-sha2" => Self::Aes128Sha256,
            _ => return None,
        })
    }

    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes128Sha256 => 16,
            Self::Aes256Sha1 | Self::Aes256Sha384 => 32,
        }
    }

    /// Number of the checksum type that belongs to the encryption type.
    pub(crate) fn checksum_number(self) -> i32 {
        match self {
            Self::Aes128Sha1 => 15,
            Self::Aes256Sha1 => 16,
            Self::Aes128Sha256 => 19,
            Self::Aes256Sha384 => 20,
        }
    }

    pub(crate) fn checksum_bytes(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes256Sha1 => 12,
            Self::Aes128Sha256 => 16,
            Self::Aes256Sha384 => 24,
        }
    }

    fn is_sha1(self) -> bool {
        matches!(self, Self::Aes128Sha1 | Self::Aes256Sha1)
    }
}

impl KerberosKey {
    pub fn new(etype: Etype, bytes: &[u8]) -> Result<Self, KerberosError> {
        if bytes.len() != etype.key_bytes() {
            return Err(KerberosError::Malformed("key"));
        }
        Ok(Self { etype, bytes: SecretBytes::new(bytes) })
    }

    pub fn random(etype: Etype, random: Random<'_>) -> Self {
        let mut bytes = Zeroizing::new(vec![0; etype.key_bytes()]);
        random(&mut bytes);
        Self { etype, bytes: SecretBytes::new(bytes.as_slice()) }
    }

    /// The key of a password. `parameters` are those of the KDC; without them, the number of iterations is the default.
    pub fn from_password(
        etype: Etype,
        password: &[u8],
        salt: &[u8],
        parameters: Option<&[u8]>,
    ) -> Result<Self, KerberosError> {
        string_to_key::string_to_key(etype, password, salt, parameters)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Encrypts with a random confounder, and appends a checksum.
    pub(crate) fn encrypt(&self, usage: KeyUsage, plain: &[u8], random: Random<'_>) -> Vec<u8> {
        let mut message = Zeroizing::new(vec![0; BLOCK]);
        random(&mut message);
        message.extend_from_slice(plain);
        let key = self.derive(usage, ENCRYPTION_KEY);
        let mut out = cts::encrypt(&key, &message);
        let mac = if self.etype.is_sha1() {
            self.mac(usage, INTEGRITY_KEY, &[&message])
        } else {
            self.mac(usage, INTEGRITY_KEY, &[&[0; BLOCK], &out])
        };
        out.extend_from_slice(&mac);
        out
    }

    /// Verifies and decrypts; `what` names the message in errors.
    pub(crate) fn decrypt(
        &self,
        usage: KeyUsage,
        cipher: &[u8],
        what: &'static str,
    ) -> Result<Zeroizing<Vec<u8>>, KerberosError> {
        let error = KerberosError::Integrity(what);
        let split = cipher.len().checked_sub(self.etype.checksum_bytes()).filter(|split| BLOCK <= *split);
        let Some(split) = split else { return Err(error) };
        let (encrypted, found) = cipher.split_at(split);
        let key = self.derive(usage, ENCRYPTION_KEY);
        let mut plain;
        let expected = if self.etype.is_sha1() {
            plain = cts::decrypt(&key, encrypted);
            self.mac(usage, INTEGRITY_KEY, &[&plain])
        } else {
            plain = Zeroizing::new(Vec::new());
            self.mac(usage, INTEGRITY_KEY, &[&[0; BLOCK], encrypted])
        };
        if !bool::from(expected.ct_eq(found)) {
            return Err(error);
        }
        if !self.etype.is_sha1() {
            plain = cts::decrypt(&key, encrypted);
        }
        plain.drain(..BLOCK);
        Ok(plain)
    }

    pub(crate) fn checksum(&self, usage: KeyUsage, parts: &[&[u8]]) -> Vec<u8> {
        self.mac(usage, CHECKSUM_KEY, parts)
    }

    fn mac(&self, usage: KeyUsage, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        let key = self.derive(usage, kind);
        let mut mac = match self.etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => sha1_profile::hmac(&key, parts),
            Etype::Aes128Sha256 => sha2_profile::hmac_sha256(&key, parts),
            Etype::Aes256Sha384 => sha2_profile::hmac_sha384(&key, parts),
        };
        mac.truncate(self.etype.checksum_bytes());
        mac
    }

    fn derive(&self, usage: KeyUsage, kind: u8) -> Zeroizing<Vec<u8>> {
        let [a, b, c, d] = (usage as u32).to_be_bytes();
        let constant = [a, b, c, d, kind];
        if self.etype.is_sha1() {
            return sha1_profile::derive(self.bytes(), &constant);
        }
        let length = if kind == ENCRYPTION_KEY { self.etype.key_bytes() } else { self.etype.checksum_bytes() };
        sha2_profile::derive(self.etype, self.bytes(), &constant, length)
    }
}

#[cfg(test)]
mod tests;
