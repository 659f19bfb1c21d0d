//! What the mechanisms have in common: steps of an exchange, and errors.

use crate::krb5::KerberosError;

/// Fills a buffer with random bytes of the operating system, or of a test.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Result of one token at the accepting side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptorStep {
    /// The exchange continues with this challenge.
    Challenge(Vec<u8>),
    Complete(AuthenticatedPeer),
}

/// The proven identity of a peer. Which id it gets is for the caller to decide: see
/// [`identity`](crate::kerberos_name::identity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedPeer {
    /// The last token for the peer; `None` is sent as a null buffer, which Java clients wait for.
    pub token: Option<Vec<u8>>,
    /// The name that the peer has proven.
    pub authentication_id: String,
    /// The name that the peer asks for: its own, unless it sends another.
    pub authorization_id: String,
}

/// Result of one challenge at the initiating side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitiatorStep {
    pub token: Option<Vec<u8>>,
    /// Whether this side has nothing to verify any more.
    pub is_complete: bool,
}

/// Why an exchange failed. Messages contain no secrets; foreign text in them is escaped and short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    #[error("DIGEST-MD5: malformed message: {0}")]
    MalformedDigest(String),
    #[error("DIGEST-MD5: {0}")]
    DigestRefused(String),
    #[error("GSSAPI: {0}")]
    Kerberos(#[from] KerberosError),
    #[error("GSSAPI: malformed security layer message: {0}")]
    MalformedLayer(&'static str),
    #[error("{0}: a token after the end of the exchange")]
    IllegalState(&'static str),
}
