//! Errors: the setting or the file, what is wrong, and the remedy. They contain no secrets.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The value of a setting cannot be used. The key is in full, with its prefix.
    #[error("{key}: {problem}; {remedy}")]
    Setting { key: String, problem: String, remedy: String },
    #[error("{}={}: {problem}; {}", key, path.display(), problem.remedy())]
    Store { key: String, path: PathBuf, problem: StoreProblem },
    #[error("the TLS library refuses the configuration: {0}")]
    Library(#[from] rustls::Error),
    /// Several of the above, which an operator can correct before the next start.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<TlsError>),
}

impl TlsError {
    pub(crate) fn setting(key: String, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Setting { key, problem: problem.into(), remedy: remedy.into() }
    }

    /// One error for several, of which there is at least one.
    pub(crate) fn several(mut errors: Vec<Self>) -> Self {
        if errors.len() == 1 { errors.remove(0) } else { Self::Several(errors) }
    }

    /// The single errors, at least one.
    pub fn each(self) -> Vec<Self> {
        if let Self::Several(errors) = self { errors.into_iter().flat_map(Self::each).collect() } else { vec![self] }
    }

    pub(crate) fn store(key: String, path: &Path, problem: StoreProblem) -> Self {
        Self::Store { key, path: path.to_owned(), problem }
    }
}

/// What is wrong with a store or with another file of the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("is larger than {0} bytes")]
    TooLarge(u64),
    #[error("Unable to auto-detect store file type from file name")]
    UnknownSuffix,
    #[error("is a {0} store, a type that is not supported")]
    UnsupportedType(&'static str),
    #[error("is not a {0} store")]
    WrongFormat(&'static str),
    #[error("is damaged or not of the expected form: {0}")]
    Damaged(&'static str),
    #[error("needs a password")]
    PasswordMissing,
    #[error("cannot be decrypted: the password is wrong, or the file is damaged")]
    WrongPassword,
    #[error("has a private key with another password than the store")]
    WrongKeyPassword,
    #[error("is encrypted with {0}, which is not supported")]
    UnsupportedEncryption(String),
    #[error("has no private key")]
    NoPrivateKey,
    #[error("has no certificate for its private key")]
    NoCertificate,
    #[error("has no trusted certificate")]
    NoTrustedCertificate,
    #[error("has a private key that does not belong to the first certificate")]
    KeyMismatch,
    #[error("has no private key of a supported kind: {0}")]
    UnsupportedKey(String),
    #[error("has a certificate that cannot be used: {0}")]
    BadCertificate(String),
    #[error("is not a certificate revocation list that can be used: {0}")]
    BadRevocationList(String),
}

impl StoreProblem {
    /// What the operator can do, as a command where there is one.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check path, owner and permissions",
            Self::TooLarge(_) => "check that the path names the right file",
            Self::UnknownSuffix => "set the store type to PEM, PKCS12 or JKS, or name the file .pem, .p12 or .jks",
            Self::UnsupportedType(_) => {
                "convert it: keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
            }
            Self::WrongFormat(_) => "check the store type, or remove it so that the suffix decides",
            Self::Damaged(_) => "restore the file, or create it again",
            Self::PasswordMissing => "set the password or the passwordPath of the store",
            Self::WrongPassword => "check the password or the passwordPath of the store",
            Self::WrongKeyPassword => "give the key the password of the store: keytool -keypasswd",
            Self::UnsupportedEncryption(_) => {
                "encrypt it again: openssl pkcs8 -topk8 -v2 aes-256-cbc for a key, openssl pkcs12 -export for a store"
            }
            Self::NoPrivateKey => "a key store contains a private key and its certificates",
            Self::NoCertificate => "add the certificates, the one of the private key first",
            Self::NoTrustedCertificate => "add the certificates of the CA: keytool -importcert -trustcacerts",
            Self::KeyMismatch => "put the certificate of the private key before those of its issuers",
            Self::UnsupportedKey(_) => "use RSA from 2048 bits on, ECDSA (P-256, P-384, P-521) or Ed25519",
            Self::BadCertificate(_) => "issue the certificate again, as X.509 version 3",
            Self::BadRevocationList(_) => "use a version 2 list in PEM or DER: openssl ca -gencrl -crlexts",
        }
    }
}
