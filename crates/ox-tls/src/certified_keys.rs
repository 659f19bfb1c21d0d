//! The private keys of a key store, ready for handshakes.
//!
//! A store may have several keys, for example RSA and ECDSA. The first one with which the peer can verify a signature
//! is used.

use crate::error::StoreProblem;
use crate::store::KeyEntry;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, SignatureScheme};
use std::sync::Arc;

/// Why keys of a store are not used: alias and reason.
pub(crate) type LeftOutKeys = Vec<(String, String)>;

#[derive(Debug)]
pub(crate) struct CertifiedKeys(Vec<Arc<CertifiedKey>>);

impl CertifiedKeys {
    /// At least one key must be usable. A key that does not belong to its certificate is an error in any case.
    pub(crate) fn new(entries: &[KeyEntry]) -> Result<(Self, LeftOutKeys), StoreProblem> {
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for entry in entries {
            match any_supported_type(&entry.key.as_der()) {
                Ok(key) => {
                    let key = CertifiedKey::new(entry.chain.clone(), key);
                    match key.keys_match() {
                        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => keys.push(Arc::new(key)),
                        Err(Error::InconsistentKeys(_)) => return Err(StoreProblem::KeyMismatch),
                        Err(error) => return Err(StoreProblem::BadCertificate(error.to_string())),
                    }
                }
                Err(error) => left_out.push((entry.alias.clone(), error.to_string())),
            }
        }
        if keys.is_empty() {
            let reason = left_out.pop().map_or_else(String::new, |(_, reason)| reason);
            return Err(StoreProblem::UnsupportedKey(reason));
        }
        Ok((Self(keys), left_out))
    }

    /// The leaf certificates, as DER.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &CertifiedKey> {
        self.0.iter().map(|key| &**key)
    }

    fn choose(&self, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.iter().find(|key| key.key.choose_scheme(schemes).is_some()).cloned()
    }
}

impl ResolvesServerCert for CertifiedKeys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.signature_schemes())
    }
}

impl ResolvesClientCert for CertifiedKeys {
    fn resolve(&self, _issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.choose(schemes)
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}
