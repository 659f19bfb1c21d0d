//! Settings and files, checked and parsed: what servers and clients are built from.

use crate::certificate::CertificateInfo;
use crate::certified_keys::CertifiedKeys;
use crate::error::{StoreProblem, TlsError};
use crate::policy::Policy;
use crate::revocation::RevocationLists;
use crate::settings::{StoreSettings, TlsSettings};
use crate::store::{self, StoreEntries, StoreType, StoreUse};
use crate::store_files::{StoreFile, StoreFiles};
use crate::verifier::Anchors;
use crate::warning::TlsWarning;
use rustls::RootCertStore;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) struct Material {
    pub(crate) policy: Policy,
    pub(crate) keys: Option<Arc<CertifiedKeys>>,
    /// The chains of the key store, each leaf first.
    pub(crate) certificates: Vec<CertificateInfo>,
    pub(crate) anchors: Option<Arc<Anchors>>,
    pub(crate) revocation: RevocationLists,
    pub(crate) warnings: Vec<TlsWarning>,
}

impl Material {
    /// Fails with the errors of the settings and of both stores.
    pub(crate) fn load(settings: &TlsSettings, files: &StoreFiles) -> Result<Self, TlsError> {
        let mut warnings = files.warnings.clone();
        let policy = Policy::new(settings, &mut warnings);
        let keys = files.key_store.as_ref().map(|file| load_keys(settings, file, &mut warnings)).transpose();
        let anchors = files.trust_store.as_ref().map(|file| load_anchors(settings, file, &mut warnings)).transpose();
        let (policy, keys, anchors) = match (policy, keys, anchors) {
            (Ok(policy), Ok(keys), Ok(anchors)) => (policy, keys, anchors),
            (policy, keys, anchors) => {
                let errors = [policy.err(), keys.err(), anchors.err()];
                return Err(TlsError::several(errors.into_iter().flatten().collect()));
            }
        };
        let revocation = match &anchors {
            Some(anchors) => RevocationLists::load(settings, files, &anchors.roots, &policy.provider, &mut warnings)?,
            None if settings.crl || settings.ocsp => return Err(missing_trust_store(settings)),
            None => RevocationLists::default(),
        };
        let (keys, certificates) = keys.map_or((None, Vec::new()), |(keys, infos)| (Some(Arc::new(keys)), infos));
        Ok(Self { policy, keys, certificates, anchors: anchors.map(Arc::new), revocation, warnings })
    }
}

/// Apache starts without a key store, and every handshake fails.
pub(crate) fn missing_key_store(settings: &TlsSettings) -> TlsError {
    let key = settings.key("keyStore.location");
    TlsError::setting(key, "not specified", "name a PEM, PKCS12 or JKS file with the private key of this server")
}

/// Apache then trusts every public CA, which is more than an operator of an ensemble wants.
pub(crate) fn missing_trust_store(settings: &TlsSettings) -> TlsError {
    let remedy = "name a file with the certificates of your CA; for public CAs, the bundle of the system \
                  (/etc/ssl/certs/ca-certificates.crt, type PEM)";
    TlsError::setting(settings.key("trustStore.location"), "not specified", remedy)
}

fn load_keys(
    settings: &TlsSettings,
    file: &StoreFile,
    warnings: &mut Vec<TlsWarning>,
) -> Result<(CertifiedKeys, Vec<CertificateInfo>), TlsError> {
    let failed = |problem| TlsError::store(settings.key("keyStore.location"), &file.path, problem);
    let entries = read_store(settings, "keyStore", &settings.key_store, file, StoreUse::Keys)?;
    let (keys, left_out) = CertifiedKeys::new(&entries.keys).map_err(failed)?;
    for (alias, reason) in left_out {
        warnings.push(TlsWarning::KeyLeftOut { path: file.path.clone(), alias, reason });
    }
    let mut infos = Vec::new();
    for certificate in keys.chains().flat_map(|key| &key.cert) {
        infos.push(CertificateInfo::parse(certificate).map_err(failed)?);
    }
    Ok((keys, infos))
}

fn load_anchors(settings: &TlsSettings, file: &StoreFile, warnings: &mut Vec<TlsWarning>) -> Result<Anchors, TlsError> {
    let entries = read_store(settings, "trustStore", &settings.trust_store, file, StoreUse::Trust)?;
    let (mut roots, mut certificates) = (RootCertStore::empty(), BTreeSet::new());
    for certificate in entries.trusted {
        match roots.add(certificate.clone()) {
            Ok(()) => {
                certificates.insert(certificate.to_vec());
            }
            Err(error) => {
                let subject = CertificateInfo::parse(&certificate).map_or_else(|_| String::new(), |info| info.subject);
                let reason = error.to_string();
                warnings.push(TlsWarning::AnchorLeftOut { path: file.path.clone(), subject, reason });
            }
        }
    }
    if roots.is_empty() {
        let key = settings.key("trustStore.location");
        return Err(TlsError::store(key, &file.path, StoreProblem::NoTrustedCertificate));
    }
    Ok(Anchors { roots: Arc::new(roots), certificates })
}

fn read_store(
    settings: &TlsSettings,
    name: &str,
    store: &StoreSettings,
    file: &StoreFile,
    usage: StoreUse,
) -> Result<StoreEntries, TlsError> {
    let store_type = match store.store_type.as_deref() {
        Some(text) => StoreType::by_name(text).ok_or_else(|| {
            let key = settings.key(&format!("{name}.type"));
            let problem = format!("Bad value for {key}: {text}");
            TlsError::setting(key, problem, "known are PEM, PKCS12 and JKS")
        })?,
        None => StoreType::by_suffix(&file.path)
            .map_err(|problem| TlsError::store(settings.key(&format!("{name}.location")), &file.path, problem))?,
    };
    store::read(&file.bytes, store_type, usage, file.password.as_ref())
        .map_err(|problem| TlsError::store(settings.key(&format!("{name}.location")), &file.path, problem))
}
