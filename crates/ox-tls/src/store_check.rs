//! All errors of one group of settings, so that an operator can correct them before the next start.

use crate::error::TlsError;
use crate::material::Material;
use crate::settings::{StoreSettings, TlsSettings};
use crate::store_files::StoreFiles;

/// What prevents the use of the key store, and of the trust store with its revocation lists. Settings that are missing
/// are not reported.
pub fn store_errors(settings: &TlsSettings) -> Vec<TlsError> {
    let mut keys_only = TlsSettings { trust_store: StoreSettings::default(), ..settings.clone() };
    (keys_only.crl, keys_only.ocsp) = (false, false);
    keys_only.crl_files.clear();
    let trust_only = TlsSettings { key_store: StoreSettings::default(), ..settings.clone() };
    let error = |part: &TlsSettings| StoreFiles::read(part).and_then(|files| Material::load(part, &files)).err();
    let mut errors: Vec<TlsError> = error(&keys_only).into_iter().collect();
    // What concerns both stores, such as a protocol, is reported once.
    let other = error(&trust_only).filter(|_| settings.trust_store.location.is_some());
    errors.extend(other.filter(|other| errors.iter().all(|error| error.to_string() != other.to_string())));
    errors
}
