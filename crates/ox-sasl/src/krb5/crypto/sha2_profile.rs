//! Key derivation and checksums with SHA-2 (RFC 8009).

use super::Etype;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

/// KDF-HMAC-SHA2 with a result of `length` bytes.
pub(super) fn derive(etype: Etype, base: &[u8], label: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
    let bits = u32::try_from(length * 8).expect("keys are short").to_be_bytes();
    let parts: [&[u8]; 4] = [&[0, 0, 0, 1], label, &[0], &bits];
    let mut out = Zeroizing::new(if etype == Etype::Aes128Sha256 {
        hmac_sha256(base, &parts)
    } else {
        hmac_sha384(base, &parts)
    });
    out.truncate(length);
    out
}

pub(super) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

pub(super) fn hmac_sha384(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha384>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}
