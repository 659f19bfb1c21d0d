//! SASL on the client port: the JAAS file, and the settings that map names to ids.

use std::path::PathBuf;

use ox_sasl::jaas::modules::AcceptorLogin;
use ox_sasl::jaas::{JAAS_FILE_BYTES_MAX, JaasFile};
use ox_sasl::kerberos_name::auth_to_local::AuthToLocal;
use ox_sasl::secret::SecretBytes;

use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigError, ErrorCollector};
use crate::settings::{Entry, Settings};
use crate::start_args::Environment;

/// How clients authenticate by SASL, and which ids they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslConfig {
    /// The section of the JAAS file; `None` without SASL on the client port.
    pub login: Option<AcceptorLogin>,
    /// Where `login` was read from.
    pub jaas_file: Option<PathBuf>,
    /// Keep connections whose SASL exchange failed.
    pub keeps_failed_clients: bool,
    /// Ids with super permissions.
    pub super_users: Vec<String>,
    /// An id whose ACL entries admit all SASL users.
    pub any_user: Option<String>,
    pub remove_host: bool,
    pub remove_realm: bool,
    /// Valid rules of `auth_to_local`.
    pub auth_to_local: String,
    /// Path of `krb5.conf`; `None` means the default of the system, which may be missing.
    pub krb5_conf: Option<PathBuf>,
}

pub(crate) const JAAS_FILE: &str = "java.security.auth.login.config";
const SECTION: &str = "sasl.serverconfig";
const SUPER_PASSWORD: &str = "SASLAuthenticationProvider.superPassword";
const AUTH_TO_LOCAL: &str = "security.auth_to_local";

/// Reads the JAAS file and all settings of SASL.
pub(crate) fn read(
    settings: &Settings,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) -> SaslConfig {
    let login = errors.check(read_login(settings, environment, diagnostics)).flatten();
    let rules = settings.text(AUTH_TO_LOCAL).unwrap_or_default();
    if let Err(error) = AuthToLocal::parse(&rules) {
        errors.add(settings.place_of(AUTH_TO_LOCAL).error(Cause::AuthToLocal(error.to_string())));
    }
    if settings.flag("sessionRequireClientSASLAuth") && login.is_none() {
        let text = format!("no client can connect: SASL is required, and -D{JAAS_FILE} names no section for it");
        diagnostics.push(Diagnostic::warn(settings.place_of("sessionRequireClientSASLAuth"), text));
    }
    let sasl_class = |entry: &&Entry| entry.text.ends_with(".SASLAuthenticationProvider");
    let providers = settings.properties_under("zookeeper.authProvider.").map(|(_, entry)| entry);
    if let Some(entry) = providers.into_iter().find(sasl_class).filter(|_| login.is_none()) {
        let section = settings.text(SECTION).unwrap_or_default();
        let why = match settings.text(JAAS_FILE) {
            Some(file) => format!("{file}, the file of -D{JAAS_FILE}, has no section '{section}'"),
            None => format!("-D{JAAS_FILE} is not set; give it a file with a section '{section}'"),
        };
        let text = format!("SASL is off: {why}");
        diagnostics.push(Diagnostic::warn(&entry.place, text));
    }
    SaslConfig {
        jaas_file: login.is_some().then(|| jaas_path(settings)).flatten(),
        login,
        keeps_failed_clients: settings.flag("allowSaslFailedClients"),
        super_users: settings.properties_under("zookeeper.superUser").map(|(_, entry)| entry.text.clone()).collect(),
        any_user: settings.text("letAnySaslUserDoX"),
        remove_host: settings.flag("kerberos.removeHostFromPrincipal"),
        remove_realm: settings.flag("kerberos.removeRealmFromPrincipal"),
        auth_to_local: rules,
        krb5_conf: settings.text("java.security.krb5.conf").map(PathBuf::from),
    }
}

/// Java accepts a URL, and a second equals sign in front.
pub(crate) fn jaas_path(settings: &Settings) -> Option<PathBuf> {
    let path = settings.text(JAAS_FILE)?;
    let path = path.strip_prefix('=').unwrap_or(&path);
    Some(path.strip_prefix("file:").unwrap_or(path).into())
}

/// Reads the JAAS file; `section` is what the caller needs it for. `None` if no file is named.
pub(crate) fn read_jaas(
    settings: &Settings,
    environment: &Environment<'_>,
    section: &str,
) -> Result<Option<JaasFile>, ConfigError> {
    let Some(path) = jaas_path(settings) else { return Ok(None) };
    let shown = path.display().to_string();
    let place = settings.place_of(JAAS_FILE);
    let unreadable = |why: &str| {
        let (section, file) = (section.to_owned(), format!("'{shown}'. {why}"));
        place.error(Cause::JaasSectionMissing { section, file })
    };
    let bytes = (environment.read)(&path).map_err(|error| unreadable(&error.to_string()))?;
    let bytes = SecretBytes::new(bytes);
    if JAAS_FILE_BYTES_MAX < bytes.bytes().len() {
        return Err(unreadable("the file is too large"));
    }
    let text = std::str::from_utf8(bytes.bytes()).map_err(|_| unreadable("the file is not UTF-8"))?;
    let property = |name: &str| settings.system().get(name).map(str::to_owned);
    let file = JaasFile::parse(&shown, text, &property);
    file.map(Some).map_err(|error| place.error(Cause::Jaas(error.to_string())))
}

fn read_login(
    settings: &Settings,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<AcceptorLogin>, ConfigError> {
    let section_name = settings.text(SECTION).unwrap_or_default();
    let Some(file) = read_jaas(settings, environment, &section_name)? else { return Ok(None) };
    let (place, shown) = (settings.place_of(JAAS_FILE), &file.name);
    let missing =
        |why: &str| Cause::JaasSectionMissing { section: section_name.clone(), file: format!("'{shown}'. {why}") };
    let Some(section) = file.section(&section_name) else {
        // A file for other sections only, such as those between servers, is usual.
        let is_asked_for = settings.property("zookeeper.sasl.serverconfig").is_some();
        if is_asked_for {
            return Err(settings.place_of(SECTION).error(missing("Other sections exist.")));
        }
        let text = format!("{shown} has no section '{section_name}': no SASL on the client port");
        diagnostics.push(Diagnostic::warn(place, text));
        return Ok(None);
    };
    let mut login = section.acceptor_login().map_err(|error| place.error(Cause::Jaas(error.to_string())))?;
    if let AcceptorLogin::DigestMd5(accounts) = &mut login {
        if let Some(password) = settings.text(SUPER_PASSWORD) {
            accounts.replace_super_password(SecretBytes::new(password));
        }
        check_digest_md5(settings, diagnostics)?;
    }
    Ok(Some(login))
}

/// Apache 3.10 refuses DIGEST-MD5 in FIPS mode, which is its default; 3.9 ignores the default.
pub(crate) fn check_digest_md5(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Result<(), ConfigError> {
    let is_explicit = settings.property("zookeeper.fips-mode").is_some() && settings.flag("fips-mode");
    if is_explicit {
        return Err(settings.place_of("fips-mode").error(Cause::DigestMd5InFipsMode));
    }
    let text = "SASL uses DIGEST-MD5, whose hash is weak and whose passwords are stored in clear text; Kerberos, or \
                client certificates, protect better";
    diagnostics.push(Diagnostic::warn(settings.place_of(JAAS_FILE), text));
    Ok(())
}
