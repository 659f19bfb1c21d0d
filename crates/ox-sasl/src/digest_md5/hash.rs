//! The hashes of RFC 2831, section 2.1.2.1.

use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// What goes into a response, except the direction.
#[derive(Clone, Copy)]
pub(super) struct ResponseInput<'a> {
    pub(super) username: &'a str,
    pub(super) realm: &'a str,
    pub(super) password: &'a str,
    pub(super) nonce: &'a [u8],
    pub(super) cnonce: &'a [u8],
    pub(super) uri: &'a str,
    pub(super) authzid: Option<&'a [u8]>,
}

impl ResponseInput<'_> {
    /// What the initiator sends as `response`.
    pub(super) fn response(&self) -> String {
        self.keyed_digest("AUTHENTICATE:")
    }

    /// What the acceptor sends as `rspauth`.
    pub(super) fn response_auth(&self) -> String {
        self.keyed_digest(":")
    }

    fn keyed_digest(&self, a2_prefix: &str) -> String {
        let mut user = Md5::new();
        user.update(&*latin1(self.username));
        user.update(b":");
        user.update(&*latin1(self.realm));
        user.update(b":");
        user.update(&*latin1(self.password));
        let user: Zeroizing<[u8; 16]> = Zeroizing::new(user.finalize().into());
        let mut a1 = Md5::new();
        a1.update(user.as_slice());
        for part in [Some(self.nonce), Some(self.cnonce), self.authzid].into_iter().flatten() {
            a1.update(b":");
            a1.update(part);
        }
        let a2 = Md5::new().chain_update(a2_prefix).chain_update(self.uri).finalize();
        let a1 = Zeroizing::new(hex(&a1.finalize()));
        let mut result = Md5::new();
        result.update(a1.as_bytes());
        for part in [self.nonce, NONCE_COUNT.as_bytes(), self.cnonce, b"auth", hex(&a2).as_bytes()] {
            result.update(b":");
            result.update(part);
        }
        hex(&result.finalize())
    }
}

/// A nonce is used once.
pub(super) const NONCE_COUNT: &str = "00000001";

/// Text whose characters all exist in ISO 8859-1 is hashed in that encoding, other text in UTF-8.
fn latin1(text: &str) -> Zeroizing<Vec<u8>> {
    let latin: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
    Zeroizing::new(latin.unwrap_or_else(|| text.as_bytes().to_vec()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
