//! Which authentication schemes are enabled, and their settings.

use super::digest::DigestHash;
use std::fmt;
use subtle::ConstantTimeEq as _;

/// Settings of all schemes. Java property names are in brackets.
#[derive(Clone, Debug)]
pub struct SchemeSettings {
    /// Enable the digest scheme (`DigestAuthenticationProvider.enabled`).
    pub digest: bool,
    /// Must be the same on all servers, because stored ACLs contain its values
    /// (`DigestAuthenticationProvider.digestAlg`).
    pub digest_hash: DigestHash,
    /// The digest identity that has super permissions (`DigestAuthenticationProvider.superDigest`).
    pub super_digest: Option<SuperDigest>,
    /// Enable the key scheme (`authProvider.*` names `KeyAuthenticationProvider`).
    pub key: bool,
    /// Enable the x509 scheme (TLS on a client port, or `authProvider.*` names `X509AuthenticationProvider`).
    pub x509: bool,
    /// Allow the sasl scheme in ACLs (`authProvider.*` names `SASLAuthenticationProvider`).
    pub sasl: bool,
    /// An id whose ACL entries admit all SASL users (`letAnySaslUserDoX`).
    pub any_sasl_user: Option<String>,
    /// Enable the ensemble scheme (`authProvider.*` names `EnsembleAuthenticationProvider`).
    pub ensemble: bool,
    /// Names of this ensemble; none means that every name is accepted (`ensembleAuthName`).
    pub ensemble_names: Option<Vec<String>>,
}

impl Default for SchemeSettings {
    fn default() -> Self {
        Self {
            digest: true,
            digest_hash: DigestHash::Sha1,
            super_digest: None,
            key: false,
            x509: false,
            sasl: false,
            any_sasl_user: None,
            ensemble: false,
            ensemble_names: None,
        }
    }
}

/// Name and password hash of the super user. `Debug` does not print it.
#[derive(Clone)]
pub struct SuperDigest(String);

impl SuperDigest {
    pub fn new(digest: String) -> Self {
        Self(digest)
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, id: &str) -> bool {
        self.0.as_bytes().ct_eq(id.as_bytes()).into()
    }

    /// Whether an id has the name of the super user.
    pub(super) fn names(&self, id: &str) -> bool {
        id.split(':').next() == self.0.split(':').next()
    }
}

impl fmt::Debug for SuperDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SuperDigest(..)")
    }
}
