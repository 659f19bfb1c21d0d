//! SASL on the client port: files at start, and what all exchanges share.
//!
//! The keytab is read again when it changes, so that keys can be rotated without a restart. Steps
//! of several I/O threads run at the same time.

use ox_config::SaslConfig;
use ox_replica::{ConnAuth, EnforcedSchemes, SaslServer, SaslService, ServerLogin};
use ox_sasl::jaas::modules::{AcceptorLogin, Krb5LoginOptions};
use ox_sasl::kerberos_name::auth_to_local::AuthToLocal;
use ox_sasl::kerberos_name::identity::NameMapping;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::{Include, IncludedFiles, Krb5Conf};
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::secret::SecretBytes;
use parking_lot::{Mutex, RwLock};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KRB5_CONF: &str = "/etc/krb5.conf";
const KEYTAB: &str = "/etc/krb5.keytab";
/// Larger keytabs are refused; one has tens of entries with a hundred bytes each.
const KEYTAB_BYTES_MAX: u64 = 1 << 20;

/// Why SASL cannot be set up. Names files, never their contents.
#[derive(Debug, thiserror::Error)]
#[error("SASL on the client port: {}: {reason}", file.display())]
pub struct SaslSetupError {
    file: PathBuf,
    reason: String,
}

/// SASL for all connections.
pub(crate) struct ClientSasl {
    server: RwLock<Arc<SaslServer>>,
    replays: ReplayCache,
    keytab: Option<Mutex<KeytabFile>>,
}

/// The keytab that the keys were read from, and how it looked then.
struct KeytabFile {
    path: PathBuf,
    service: Option<Principal>,
    version: FileVersion,
}

/// Differs after every change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl ClientSasl {
    /// Reads what the configuration names; `None` without SASL.
    pub(crate) fn open(config: &SaslConfig) -> Result<Option<Self>, SaslSetupError> {
        let Some(login) = &config.login else { return Ok(None) };
        if let Some(path) = &config.jaas_file {
            warn_if_open(path);
        }
        let conf = read_krb5_conf(config.krb5_conf.as_deref())?;
        let names = NameMapping {
            rules: AuthToLocal::parse(&config.auth_to_local).unwrap_or_default(), // checked with the configuration
            default_realm: conf.default_realm.clone().unwrap_or_default(),
            remove_host: config.remove_host,
            remove_realm: config.remove_realm,
        };
        let (login, keytab) = match login {
            AcceptorLogin::DigestMd5(accounts) => {
                let users = accounts.users().count();
                tracing::info!(mechanism = "DIGEST-MD5", users, "SASL is enabled on the client port");
                (ServerLogin::DigestMd5(Arc::new(accounts.clone())), None)
            }
            AcceptorLogin::Gssapi(options) => {
                let (credentials, keytab) = KeytabFile::open(options, &conf, config)?;
                let principal = credentials.service.as_ref().map_or_else(|| "*".to_owned(), Principal::to_string);
                tracing::info!(mechanism = "GSSAPI", principal, "SASL is enabled on the client port");
                (ServerLogin::Gssapi(Arc::new(credentials)), Some(Mutex::new(keytab)))
            }
        };
        let server = Arc::new(SaslServer { login, names, super_users: config.super_users.clone() });
        Ok(Some(Self { server: RwLock::new(server), replays: ReplayCache::default(), keytab }))
    }

    /// The principal of the server, which is its user in the audit log.
    pub(crate) fn principal(&self) -> Option<String> {
        match &self.server.read().login {
            ServerLogin::DigestMd5(_) => None,
            ServerLogin::Gssapi(credentials) => credentials.service.as_ref().map(Principal::to_string),
        }
    }

    /// Calls `step` with what an exchange needs.
    pub(crate) fn step<T>(&self, now: ox_replica::Now, step: impl FnOnce(&mut SaslService<'_>) -> T) -> T {
        let server = Arc::clone(&self.server.read());
        let random: &mut dyn FnMut(&mut [u8]) = &mut |bytes| rand::fill(bytes);
        step(&mut SaslService { server: &server, now, replays: &self.replays, random })
    }

    /// Reads the keytab again if it has changed. If that fails, the old keys stay.
    pub(crate) fn refresh_keytab(&self) {
        let Some(keytab) = &self.keytab else { return };
        let mut keytab = keytab.lock();
        // A missing file is one that is being replaced; the next check tries again.
        let Ok(version) = FileVersion::of(&keytab.path) else { return };
        if version == keytab.version {
            return;
        }
        keytab.version = version;
        let file = keytab.path.display();
        match read_keytab(&keytab.path, keytab.service.as_ref()) {
            Ok(keys) => {
                let credentials = AcceptorCredentials { keytab: keys, service: keytab.service.clone() };
                let mut server = self.server.write();
                *server =
                    Arc::new(SaslServer { login: ServerLogin::Gssapi(Arc::new(credentials)), ..(**server).clone() });
                tracing::info!(%file, "keytab reloaded");
            }
            Err(error) => tracing::error!(%error, "keytab not reloaded: the old keys stay in use"),
        }
    }
}

/// How connections authenticate, from the configuration.
pub(crate) fn conn_auth(config: &ox_config::Config) -> ConnAuth {
    let enforced = config.auth.enforced_schemes.iter().map(String::as_str);
    ConnAuth {
        has_sasl: config.sasl.login.is_some(),
        keeps_failed_sasl: config.sasl.keeps_failed_clients,
        enforced: EnforcedSchemes::of(enforced).expect("the configuration has checked that the schemes exist"),
    }
}

impl KeytabFile {
    fn open(
        options: &Krb5LoginOptions,
        conf: &Krb5Conf,
        config: &SaslConfig,
    ) -> Result<(AcceptorCredentials, Self), SaslSetupError> {
        let jaas_error = |reason: String| SaslSetupError { file: config.jaas_file.clone().unwrap_or_default(), reason };
        let service = match options.principal.as_deref() {
            Some("*") => None,
            Some(name) => {
                let principal = Principal::parse(name, conf.default_realm.as_deref());
                Some(principal.map_err(|error| jaas_error(format!("principal: {error}")))?)
            }
            None => return Err(jaas_error("the option 'principal' is missing".to_owned())),
        };
        let path = options.keytab.clone().flatten().or_else(|| conf.default_keytab_name.clone());
        let path = PathBuf::from(path.as_deref().map_or(KEYTAB, |path| path.strip_prefix("FILE:").unwrap_or(path)));
        let file_error = |error: io::Error| SaslSetupError { file: path.clone(), reason: error.to_string() };
        let version = FileVersion::of(&path).map_err(file_error)?;
        warn_if_open(&path);
        let keytab = read_keytab(&path, service.as_ref())?;
        Ok((AcceptorCredentials { keytab, service: service.clone() }, Self { path, service, version }))
    }
}

impl FileVersion {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), bytes: metadata.len(), modified })
    }
}

/// Reads a keytab, which must have a usable key of the service.
fn read_keytab(path: &Path, service: Option<&Principal>) -> Result<Keytab, SaslSetupError> {
    let error = |reason: String| SaslSetupError { file: path.to_owned(), reason };
    let bytes = fs::metadata(path).and_then(|metadata| match metadata.len() {
        0..=KEYTAB_BYTES_MAX => fs::read(path),
        _ => Err(io::Error::other("the file is too large")),
    });
    let bytes = SecretBytes::new(bytes.map_err(|failed| error(failed.to_string()))?);
    let keytab = Keytab::parse(bytes.bytes()).map_err(|failed| error(failed.to_string()))?;
    let has_key = service.map_or(!keytab.entries().is_empty(), |service| !keytab.etypes(service).is_empty());
    if !has_key {
        let service = service.map_or_else(|| "any principal".to_owned(), Principal::to_string);
        return Err(error(format!("it has no AES key of {service}")));
    }
    Ok(keytab)
}

/// Reads `krb5.conf`. The default one may be missing.
fn read_krb5_conf(configured: Option<&Path>) -> Result<Krb5Conf, SaslSetupError> {
    let path = configured.unwrap_or(Path::new(KRB5_CONF));
    let error = |reason: String| SaslSetupError { file: path.to_owned(), reason };
    match fs::read_to_string(path) {
        Err(failed) if configured.is_none() && failed.kind() == io::ErrorKind::NotFound => Ok(Krb5Conf::default()),
        Err(failed) => Err(error(failed.to_string())),
        Ok(text) => {
            let parsed = Krb5Conf::parse(&path.display().to_string(), &text, &mut read_include);
            parsed.map_err(|failed| error(failed.to_string()))
        }
    }
}

fn read_include(include: Include<'_>) -> IncludedFiles {
    let read = |path: &Path| -> Result<(String, String), String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path.display().to_string(), text))
    };
    match include {
        Include::File(path) => read(Path::new(path)).map(|file| vec![file]),
        Include::Directory(directory) => {
            let entries = fs::read_dir(directory).map_err(|error| format!("{directory}: {error}"))?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| {
                path.is_file() && path.file_name().is_some_and(|name| is_included(&name.to_string_lossy()))
            });
            paths.sort();
            paths.iter().map(|path| read(path)).collect()
        }
    }
}

fn is_included(name: &str) -> bool {
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    is_plain || (name.ends_with(".conf") && !name.starts_with('.'))
}

/// Warns about a file with secrets that other users can read.
pub(crate) fn warn_if_open(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        let file = path.display();
        tracing::warn!(%file, "other users can access a file with secrets: chmod 600");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_directories_admit_plain_names_and_conf_files() {
        for (name, expected) in
            [("realm_1", true), ("a.conf", true), ("a.bak", false), (".a.conf", false), ("a.conf~", false)]
        {
            assert_eq!(is_included(name), expected, "{name}");
        }
    }

    #[test]
    fn missing_files_are_named() {
        let error = read_keytab(Path::new("/nonexistent/keytab"), None).unwrap_err().to_string();
        assert!(error.starts_with("SASL on the client port: /nonexistent/keytab: "), "{error}");
        let error = read_krb5_conf(Some(Path::new("/nonexistent/krb5.conf"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/krb5.conf"), "{error}");
    }
}
