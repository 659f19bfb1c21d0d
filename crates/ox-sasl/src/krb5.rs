//! Kerberos 5 (RFC 4120) in Rust, without a system library: as much as authentication between ZooKeeper processes needs.
//!
//! ```text
//!  der ── messages ──┬── acceptor   AP-REQ from a peer, checked with keytab and replay_cache; AP-REP
//!  crypto ───────────┤── initiator  AP-REQ with a service ticket; AP-REP from the peer
//!                    └── kdc        AS and TGS exchanges, which give tickets
//!  keytab, ccache, krb5_conf        files, which the caller reads
//!  gss_token, wrap_token            GSS-API framing (RFC 4121) of the above
//! ```
//!
//! Nothing here opens a socket or a file or reads a clock: the caller sends requests to a KDC and passes the replies.
//!
//! # Why our own
//!
//! Three ways were compared.
//!
//! - MIT's library, loaded when a configuration asks for it: complete and proven, but `unsafe`, not loadable from the static
//!   musl binary, with a replay cache and configuration of its own outside of the tests' control, and it blocks its thread
//!   while it waits for a KDC.
//! - `picky-krb` 0.13: types of the messages by serde, and AES with SHA-1. It has no encryption with SHA-2 (RFC 8009), no
//!   files (keytab, ccache, configuration), no exchanges and no GSS tokens, so most of this module would still be needed; and
//!   it brings X.509, big integers, DES and UUIDs, which Kerberos with AES does not use.
//! - This module: a DER reader and writer of 200 lines, and RFC 3961, 3962 and 8009 over the `aes`, `hmac`, `sha1` and
//!   `sha2` crates, which contain all cryptography proper. It works in every build, the static one included.
//!
//! Encryption types are the four with AES. rc4-hmac, DES and triple DES are refused with a message that names them. PKINIT,
//! FAST, user-to-user, delegation and referrals within a realm do not exist here.

pub mod acceptor;
pub mod ccache;
pub mod crypto;
pub mod initiator;
pub mod kdc;
pub mod keytab;
pub mod krb5_conf;
pub mod principal;
pub mod refresh;
pub mod replay_cache;

mod der;
mod file_reader;
mod gss_token;
mod messages;
mod wrap_token;

use std::fmt;

/// Difference of clocks that Kerberos tolerates by default.
pub const CLOCK_SKEW_MAX: i64 = 300;

/// Wall clock time: microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(pub i64);

impl WallTime {
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    fn microseconds(self) -> i64 {
        self.0.rem_euclid(1_000_000)
    }
}

/// Why Kerberos authentication failed. Foreign text in messages is escaped and short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KerberosError {
    #[error("malformed {0}")]
    Malformed(&'static str),
    #[error("encryption type {0} is not supported; supported are the AES types, of which the KDC must have keys")]
    UnsupportedEtype(EtypeName),
    #[error("{0} cannot be decrypted: wrong key, or altered")]
    Integrity(&'static str),
    #[error("the keytab has no key of {principal} with kvno {kvno} and encryption type {etype}; it has {known}")]
    NoKey { principal: String, kvno: u32, etype: EtypeName, known: String },
    #[error("the ticket is for {found}, not for {expected}")]
    WrongService { found: String, expected: String },
    #[error("clock skew too great: the peer's clock differs by {0} seconds")]
    Skew(i64),
    #[error("the ticket is not yet valid")]
    NotYetValid,
    #[error("the ticket has expired")]
    Expired,
    #[error("the request is a replay")]
    Replay,
    #[error("the replay cache is full")]
    ReplayCacheFull,
    #[error("the peer's reply does not match the request: {0}")]
    Mismatch(&'static str),
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error("the KDC refuses: {message} (error {code})")]
    Kdc { code: i32, message: String },
    #[error("no key or password for {0}")]
    NoCredentials(String),
    #[error("{file}: {reason}")]
    File { file: &'static str, reason: String },
    #[error("{file}:{line}: {reason}")]
    Configuration { file: String, line: usize, reason: String },
}

/// Number of an encryption type, printed with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtypeName(pub i32);

impl fmt::Display for EtypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "des-cbc-crc",
            3 => "des-cbc-md5",
            16 => "des3-cbc-sha1",
            17 => "aes128-cts-hmac-sha1-96",
            18 => "aes256-cts-hmac-sha1-96",
            19 => "aes128-cts-hmac-sha256-128",
            20 => "aes256-cts-hmac-sha384-192",
            23 => "rc4-hmac",
            25 => "camellia128-cts-cmac",
            26 => "camellia256-cts-cmac",
            other => return write!(f, "{other}"),
        };
        f.write_str(name)
    }
}

/// Foreign text for a message: escaped and cut.
fn escaped(text: &str) -> String {
    text.chars().take(128).flat_map(char::escape_debug).collect()
}
