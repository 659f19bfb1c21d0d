//! DIGEST-MD5 (RFC 2831) with quality of protection `auth`, as Java's `com.sun.security.sasl.digest` does it.
//!
//! ```text
//! initiator                                  acceptor
//!     | (empty)                                  |
//!     |----------------------------------------->|
//!     | realm, nonce, charset, algorithm         |
//!     |<-----------------------------------------|
//!     | username, realm, nonce, nc, cnonce,      |
//!     | digest-uri, maxbuf, response, qop, ..    |
//!     |----------------------------------------->|
//!     | rspauth                                  |
//!     |<-----------------------------------------|
//! ```
//!
//! Order and spelling of directives are those of Java, byte for byte. Only initial authentication exists.

mod directives;
mod hash;

pub mod acceptor;
pub mod initiator;

use crate::mechanism::Random;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Names that both sides of a port have built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestNames {
    pub protocol: &'static str,
    /// Server name and realm.
    pub realm: &'static str,
}

pub const CLIENT_PORT: DigestNames = DigestNames { protocol: "zookeeper", realm: "zk-sasl-md5" };
pub const BETWEEN_SERVERS: DigestNames = DigestNames { protocol: "zookeeper-quorum", realm: "zk-quorum-sasl-md5" };

/// Limits of RFC 2831.
const CHALLENGE_BYTES_MAX: usize = 2048;
const RESPONSE_BYTES_MAX: usize = 4096;
/// Java offers no other size, and without a security layer nothing uses it.
const MAXBUF: usize = 65536;

impl DigestNames {
    fn uri(&self) -> String {
        format!("{}/{}", self.protocol, self.realm)
    }
}

/// 40 base64 characters, as Java's nonces have.
fn nonce(random: Random<'_>) -> String {
    let mut bytes = [0; 30];
    random(&mut bytes);
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests;
