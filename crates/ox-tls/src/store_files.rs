//! The files that the settings name: read whole, compared by content.
//!
//! Content decides whether something has changed, not names and dates. So the swap of a symbolic link, with which
//! Kubernetes replaces mounted secrets, is noticed, and `touch` is not.

use crate::error::{StoreProblem, TlsError};
use crate::material::Material;
use crate::settings::{StorePassword, StoreSettings, TlsSettings};
use crate::warning::TlsWarning;
use aws_lc_rs::digest::{Context, SHA256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The bundle of all public CAs has about 200 KB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The contents of the files of one group of settings. Wiped when dropped.
pub struct StoreFiles {
    pub(crate) key_store: Option<StoreFile>,
    pub(crate) trust_store: Option<StoreFile>,
    pub(crate) revocation_lists: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) warnings: Vec<TlsWarning>,
}

pub(crate) struct StoreFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    pub(crate) password: Option<StorePassword>,
}

/// A digest of the contents of all files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl StoreFiles {
    /// Fails with all errors, also those of the contents of other files.
    pub fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let mut read = |name: &str, store: &StoreSettings| {
            read_store(settings, name, store, &mut warnings).unwrap_or_else(|error| {
                errors.push(error);
                None
            })
        };
        let key_store = read("keyStore", &settings.key_store);
        let trust_store = read("trustStore", &settings.trust_store);
        if let Some(store) = &key_store {
            warn_of_wide_permissions(&store.path, &mut warnings);
        }
        let mut revocation_lists = Vec::new();
        for path in &settings.crl_files {
            match read_file(settings.crl_files_key(), path) {
                Ok(bytes) => revocation_lists.push((path.clone(), bytes.to_vec())),
                Err(error) => errors.push(error),
            }
        }
        let files = Self { key_store, trust_store, revocation_lists, warnings };
        if errors.is_empty() {
            return Ok(files);
        }
        // Revocation needs the other files.
        let contents = TlsSettings { crl: false, ocsp: false, ..settings.clone() };
        errors.extend(Material::load(&contents, &files).err());
        Err(TlsError::several(errors))
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut context = Context::new(&SHA256);
        let mut add = |bytes: &[u8]| {
            context.update(&bytes.len().to_be_bytes());
            context.update(bytes);
        };
        for store in [&self.key_store, &self.trust_store] {
            add(store.as_ref().map_or(&[], |store| &store.bytes[..]));
            let password = store.as_ref().and_then(|store| store.password.as_ref());
            add(password.map_or("", StorePassword::reveal).as_bytes());
        }
        self.revocation_lists.iter().for_each(|(_, bytes)| add(bytes));
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.finish().as_ref());
        Fingerprint(fingerprint)
    }
}

fn read_store(
    settings: &TlsSettings,
    name: &str,
    store: &StoreSettings,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Option<StoreFile>, TlsError> {
    let Some(path) = &store.location else { return Ok(None) };
    let bytes = read_file(settings.key(&format!("{name}.location")), path)?;
    let password = match &store.password_path {
        None => store.password.clone(),
        Some(path) => {
            let key = settings.key(&format!("{name}.passwordPath"));
            let bytes = read_file(key.clone(), path)?;
            warn_of_wide_permissions(path, warnings);
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| TlsError::store(key, path, StoreProblem::Damaged("the password is not UTF-8 text")))?;
            let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
            Some(StorePassword::new(text))
        }
    };
    Ok(Some(StoreFile { path: path.clone(), bytes, password }))
}

fn read_file(key: String, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read = File::open(path).and_then(|file| {
        // The buffer must not grow while a secret is in it: the old one would not be wiped.
        let length = file.metadata()?.len().min(FILE_BYTES_MAX);
        bytes.reserve_exact(usize::try_from(length).unwrap_or_default().saturating_add(64));
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    });
    match read {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= FILE_BYTES_MAX) => Ok(bytes),
        Ok(_) => Err(TlsError::store(key, path, StoreProblem::TooLarge(FILE_BYTES_MAX))),
        Err(error) => Err(TlsError::store(key, path, StoreProblem::Unreadable(error.to_string()))),
    }
}

/// Reports a file with a secret that group or others may access.
fn warn_of_wide_permissions(path: &Path, warnings: &mut Vec<TlsWarning>) {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            warnings.push(TlsWarning::WidePermissions { path: path.to_owned(), mode });
        }
    }
}
