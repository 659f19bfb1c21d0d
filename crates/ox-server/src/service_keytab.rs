//! The keytab with the keys of the server's own service, for clients or for other servers. It is read again when its
//! file changes, so that keys can be rotated without a restart.

use crate::status::protection::is_open;
use ox_kerberos::files;
use ox_sasl::jaas::modules::Krb5LoginOptions;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::Krb5Conf;
use ox_sasl::krb5::principal::Principal;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub(crate) struct ServiceKeytab {
    path: PathBuf,
    /// `None` accepts tickets for every principal of the keytab.
    service: Option<Principal>,
    /// How the file looked when it was last read.
    version: Mutex<FileVersion>,
}

/// Differs after every change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), bytes: metadata.len(), modified })
    }
}

impl ServiceKeytab {
    /// Reads the keytab that the options of a login name. The error names the file.
    pub(crate) fn open(options: &Krb5LoginOptions, conf: &Krb5Conf) -> Result<(Self, AcceptorCredentials), String> {
        let service = match options.principal.as_deref() {
            Some("*") => None,
            Some(name) => {
                let principal = Principal::parse(name, conf.default_realm.as_deref());
                Some(principal.map_err(|error| format!("the option 'principal': {error}"))?)
            }
            None => return Err("the option 'principal' is missing".to_owned()),
        };
        let path = files::keytab_path(options.keytab.as_ref().and_then(Option::as_deref), conf)?;
        let version = FileVersion::of(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        warn_if_open(&path);
        let keytab = read(&path, service.as_ref())?;
        let credentials = AcceptorCredentials { keytab, service: service.clone() };
        Ok((Self { path, service, version: Mutex::new(version) }, credentials))
    }

    /// The keys of a file that has changed. If it cannot be used, the old keys stay.
    pub(crate) fn read_if_changed(&self) -> Option<AcceptorCredentials> {
        // A missing file is one that is being replaced; the next check tries again.
        let version = FileVersion::of(&self.path).ok()?;
        let is_same = std::mem::replace(&mut *self.version.lock(), version) == version;
        if is_same {
            return None;
        }
        match read(&self.path, self.service.as_ref()) {
            Ok(keytab) => {
                tracing::info!(file = %self.path.display(), "keytab reloaded");
                Some(AcceptorCredentials { keytab, service: self.service.clone() })
            }
            Err(error) => {
                tracing::error!(error, "keytab not reloaded: the old keys stay in use");
                None
            }
        }
    }
}

/// Reads a keytab, which must have a usable key of the service.
fn read(path: &Path, service: Option<&Principal>) -> Result<Keytab, String> {
    let keytab = files::keytab(path)?;
    let has_key = service.map_or(!keytab.entries().is_empty(), |service| !keytab.etypes(service).is_empty());
    if !has_key {
        let service = service.map_or_else(|| "any principal".to_owned(), Principal::to_string);
        return Err(format!("{}: it has no AES key of {service}", path.display()));
    }
    Ok(keytab)
}

/// Warns about a file with secrets that other users can read.
pub(crate) fn warn_if_open(path: &Path) {
    if is_open(path) {
        let file = path.display();
        tracing::warn!(%file, "other users can access a file with secrets: chmod 600");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The option of a JAAS section.
    fn options(keytab: &Path) -> Krb5LoginOptions {
        Krb5LoginOptions {
            principal: Some("zk@R".to_owned()),
            keytab: Some(Some(keytab.display().to_string())),
            ticket_cache: None,
            renew_tgt: false,
            is_initiator: false,
            store_key: true,
        }
    }

    /// A keytab with an AES-256 key of `zk@R`.
    fn write_keytab(file: &Path, version: u8) {
        let mut entry = vec![0, 1, 0, 1, b'R', 0, 2, b'z', b'k', 0, 0, 0, 1, 0, 0, 0, 0, version, 0, 18, 0, 32];
        entry.extend([version; 32]);
        let mut bytes = vec![5, 2];
        bytes.extend(u32::try_from(entry.len()).unwrap().to_be_bytes());
        bytes.extend(entry);
        let new = file.with_extension("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, file).unwrap();
    }

    #[test]
    fn missing_keytab_is_named() {
        let error = ServiceKeytab::open(&options(Path::new("/nonexistent/keytab")), &Krb5Conf::default()).err();
        assert!(error.as_ref().unwrap().starts_with("/nonexistent/keytab: "), "{error:?}");
    }

    #[test]
    fn changed_keytab_is_read_and_damaged_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zk.keytab");
        write_keytab(&file, 1);
        let (keytab, first) = ServiceKeytab::open(&options(&file), &Krb5Conf::default()).unwrap();
        let version = |credentials: &AcceptorCredentials| credentials.keytab.entries()[0].kvno;
        assert_eq!(version(&first), 1);
        assert!(keytab.read_if_changed().is_none(), "unchanged");
        fs::remove_file(&file).unwrap();
        assert!(keytab.read_if_changed().is_none(), "about to be replaced");
        fs::write(&file, "damaged").unwrap();
        assert!(keytab.read_if_changed().is_none(), "damaged");
        write_keytab(&file, 2);
        assert_eq!(keytab.read_if_changed().as_ref().map(version), Some(2));
        assert!(keytab.read_if_changed().is_none(), "read already");
    }
}
