//! What a start accepts although an operator should know it. The caller logs the warnings.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsWarning {
    /// Suites that Java knows and this server does not offer: CBC mode, no forward secrecy.
    CipherSuitesLeftOut { key: String, names: Vec<String> },
    /// Protocols older than TLS 1.2.
    ProtocolsLeftOut { key: String, names: Vec<String> },
    /// Other users than the owner may read a file with a key or a password. `mode` has the permission bits.
    WidePermissions { path: PathBuf, mode: u32 },
    /// One of several keys of a key store cannot be used.
    KeyLeftOut { path: PathBuf, alias: String, reason: String },
    /// One of several trusted certificates cannot be used as a trust anchor.
    AnchorLeftOut { path: PathBuf, subject: String, reason: String },
    /// `ocsp` is set: revocation is checked, but against the lists of the operator.
    RevocationListsInsteadOfOcsp { key: String },
    /// `fips-mode` is on: a peer of the quorum with a wrong name is accepted and reported.
    HostNamesNotEnforced,
}

impl fmt::Display for TlsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CipherSuitesLeftOut { key, names } => {
                write!(f, "{key}: insecure cipher suites are not offered: {}", names.join(","))
            }
            Self::ProtocolsLeftOut { key, names } => {
                write!(f, "{key}: protocols older than TLSv1.2 are not offered: {}", names.join(","))
            }
            Self::WidePermissions { path, mode } => {
                write!(f, "{}: other users may read this secret (mode {mode:o}); use mode 600", path.display())
            }
            Self::KeyLeftOut { path, alias, reason } => {
                write!(f, "{}: private key {alias:?} is not used: {reason}", path.display())
            }
            Self::AnchorLeftOut { path, subject, reason } => {
                write!(f, "{}: certificate {subject:?} is not trusted: {reason}", path.display())
            }
            Self::RevocationListsInsteadOfOcsp { key } => {
                write!(f, "{key}: OCSP responders are not asked; revocation is checked against the CRL files")
            }
            Self::HostNamesNotEnforced => {
                f.write_str("fips-mode: servers whose certificate has another host name are accepted with a warning")
            }
        }
    }
}
