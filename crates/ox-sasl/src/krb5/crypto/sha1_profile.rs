//! Key derivation and checksums with SHA-1 (RFC 3961, 5.1; RFC 3962).

use super::cts::encrypt_block;
use super::nfold::nfold;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use zeroize::Zeroizing;

/// Derives a key of the length of the base key.
pub(super) fn derive(base: &[u8], constant: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(32));
    let mut block = nfold(constant);
    while out.len() < base.len() {
        block = encrypt_block(base, block);
        out.extend_from_slice(&block);
    }
    out
}

pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}
