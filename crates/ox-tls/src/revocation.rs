//! Revocation: `crl` and `ocsp`.
//!
//! Java downloads the lists that certificates name (distribution points), or asks an OCSP responder, during the
//! handshake. This server downloads nothing. It checks every certificate of a chain, except the trust anchor, against
//! the lists in files that the operator keeps current. A certificate without a list, and a list that has expired, are
//! refused, as in Java. Without such files, `crl` and `ocsp` are errors.

use crate::certificate::time;
use crate::der::{DerReader, INTEGER, SEQUENCE};
use crate::error::{StoreProblem, TlsError};
use crate::settings::TlsSettings;
use crate::store;
use crate::store_files::StoreFiles;
use crate::subject::rfc2253;
use crate::warning::TlsWarning;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateRevocationListDer;
use std::path::PathBuf;
use std::sync::Arc;

/// What an operator wants to know about a revocation list. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevocationListInfo {
    pub path: PathBuf,
    /// RFC 2253, as subjects of certificates.
    pub issuer: String,
    pub this_update: i64,
    /// After this time every certificate of the issuer is refused.
    pub next_update: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct RevocationLists {
    pub(crate) lists: Vec<CertificateRevocationListDer<'static>>,
    pub(crate) infos: Vec<RevocationListInfo>,
}

impl RevocationLists {
    /// The lists to check, or none if the settings do not ask for revocation.
    pub(crate) fn load(
        settings: &TlsSettings,
        files: &StoreFiles,
        roots: &Arc<RootCertStore>,
        provider: &Arc<CryptoProvider>,
        warnings: &mut Vec<TlsWarning>,
    ) -> Result<Self, TlsError> {
        let mut loaded = Self::default();
        let name = match (settings.crl, settings.ocsp) {
            (false, false) => return Ok(loaded),
            (true, _) => "crl",
            (false, true) => "ocsp",
        };
        let key = settings.crl_files_key();
        if files.revocation_lists.is_empty() {
            let problem = "revocation lists are not downloaded, and there is no file with them";
            let remedy = format!("set {key} to files that a job of yours keeps current, or remove this setting");
            return Err(TlsError::setting(settings.key(name), problem, remedy));
        }
        if settings.ocsp {
            warnings.push(TlsWarning::RevocationListsInsteadOfOcsp { key: settings.key("ocsp") });
        }
        for (path, bytes) in &files.revocation_lists {
            let failed = |problem| TlsError::store(key.clone(), path, problem);
            let lists = store::read_revocation_lists(bytes).map_err(failed)?;
            for list in &lists {
                loaded.infos.push(parse(path.clone(), list).map_err(failed)?);
            }
            // The verifier reads all lists when it is built. One per file says which file is wrong.
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
                .with_crls(lists.iter().cloned())
                .build()
                .map_err(|error| failed(StoreProblem::BadRevocationList(error.to_string())))?;
            loaded.lists.extend(lists);
        }
        Ok(loaded)
    }
}

fn parse(path: PathBuf, list: &[u8]) -> Result<RevocationListInfo, StoreProblem> {
    let mut body = DerReader::new(list).nested(SEQUENCE)?.nested(SEQUENCE)?;
    body.optional(INTEGER)?; // version
    body.expect(SEQUENCE)?; // signature algorithm
    let issuer = rfc2253(body.expect(SEQUENCE)?.content)?;
    let this_update = time(&mut body)?;
    let has_next_update = body.next_tag().is_some_and(|tag| tag == 0x17 || tag == 0x18);
    let next_update = if has_next_update { Some(time(&mut body)?) } else { None };
    Ok(RevocationListInfo { path, issuer, this_update, next_update })
}
