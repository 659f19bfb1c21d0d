//! The login of a client: user and password, or Kerberos; given directly, or by a section of a JAAS file.

use crate::error::{Error, ErrorKind};
use ox_kerberos::files;
use ox_sasl::jaas::modules::{DigestCredentials, InitiatorLogin, Krb5LoginOptions};
use ox_sasl::jaas::{JAAS_FILE_BYTES_MAX, JaasFile};
use ox_sasl::krb5::KerberosError;
use ox_sasl::krb5::principal::Principal;
use ox_sasl::secret::SecretBytes;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// How a client authenticates by SASL; see [`Builder::sasl`](crate::Builder::sasl).
///
/// ```
/// use ox_client::SaslLogin;
/// let digest = SaslLogin::digest("bob", "secret");
/// let kerberos = SaslLogin::keytab("bob@EXAMPLE.COM", "/etc/bob.keytab");
/// assert!(!format!("{digest:?}").contains("secret"));
/// ```
#[derive(Clone, Debug)]
pub struct SaslLogin {
    pub(crate) login: InitiatorLogin,
    pub(crate) server: ServerPrincipal,
    pub(crate) krb5_conf: Option<PathBuf>,
}

/// Which Kerberos principal the servers have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerPrincipal {
    /// The whole principal, which replaces everything below.
    pub(crate) principal: Option<String>,
    /// The part before the host; `zookeeper` by default.
    pub(crate) service: Option<String>,
    /// The realm of the client by default.
    pub(crate) realm: Option<String>,
}

impl ServerPrincipal {
    /// The principal of the server on a host. Names of hosts are not looked up in the DNS.
    pub(crate) fn of_host(&self, host: &str, client_realm: &str) -> Result<Principal, KerberosError> {
        let realm = self.realm.as_deref().unwrap_or(client_realm);
        match &self.principal {
            Some(principal) => Principal::parse(principal, Some(realm)),
            None => {
                let host = host.strip_suffix('.').unwrap_or(host);
                Principal::parse(&format!("{}/{host}", self.service.as_deref().unwrap_or("zookeeper")), Some(realm))
            }
        }
    }
}

impl SaslLogin {
    /// DIGEST-MD5 with a user name and a password. TLS should protect the connection: MD5 is weak.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::digest("bob", "secret");
    /// ```
    pub fn digest(user: &str, password: &str) -> Self {
        let credentials = DigestCredentials { username: user.to_owned(), password: SecretBytes::new(password) };
        Self::new(InitiatorLogin::DigestMd5(credentials))
    }

    /// Kerberos with the key of a principal in a keytab.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::keytab("bob@EXAMPLE.COM", "/etc/bob.keytab");
    /// ```
    pub fn keytab(principal: &str, file: impl AsRef<Path>) -> Self {
        Self::new(InitiatorLogin::Gssapi(Krb5LoginOptions {
            principal: Some(principal.to_owned()),
            keytab: Some(Some(file.as_ref().display().to_string())),
            ..kerberos()
        }))
    }

    /// Kerberos with the tickets that `kinit` has stored; `None` is the default cache, as `KRB5CCNAME` or `krb5.conf`
    /// name it.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::ticket_cache(None);
    /// ```
    pub fn ticket_cache(file: Option<&Path>) -> Self {
        let ticket_cache = Some(file.map(|file| file.display().to_string()));
        Self::new(InitiatorLogin::Gssapi(Krb5LoginOptions { ticket_cache, ..kerberos() }))
    }

    /// The login of a section of a JAAS file, usually `Client`. `property` looks up the system properties that
    /// `${name}` in the file refers to.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let file = dir.path().join("jaas.conf");
    /// # std::fs::write(&file, "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" password=\"secret\"; };")?;
    /// let login = ox_client::SaslLogin::jaas(&file, "Client", &|_| None)?;
    /// assert!(ox_client::SaslLogin::jaas(&file, "Server", &|_| None).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn jaas(file: &Path, section: &str, property: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let missing = || {
            let text = format!("No JAAS configuration section named '{section}' was found in '{}'.", file.display());
            Error::connect(ErrorKind::BadSecurity(text))
        };
        Self::jaas_if_present(file, section, property)?.ok_or_else(missing)
    }

    /// Like [`SaslLogin::jaas`]; `None` if the file has no such section.
    pub(crate) fn jaas_if_present(
        file: &Path,
        section: &str,
        property: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        let bad = |text: String| Error::connect(ErrorKind::BadSecurity(text));
        let name = file.display().to_string();
        let bytes = Zeroizing::new(files::read(file, JAAS_FILE_BYTES_MAX).map_err(bad)?);
        let text = std::str::from_utf8(&bytes).map_err(|_| bad(format!("{name}: the file is not UTF-8 text")))?;
        let parsed = JaasFile::parse(&name, text, property).map_err(|error| bad(error.to_string()))?;
        let Some(section) = parsed.section(section) else { return Ok(None) };
        Ok(Some(Self::new(section.initiator_login().map_err(|error| bad(error.to_string()))?)))
    }

    /// Mechanism and credentials, for tools that speak the protocol themselves.
    ///
    /// ```
    /// use ox_sasl::jaas::modules::InitiatorLogin;
    /// let login = ox_client::SaslLogin::digest("bob", "secret");
    /// assert!(matches!(login.login(), InitiatorLogin::DigestMd5(credentials) if credentials.username == "bob"));
    /// ```
    pub fn login(&self) -> &InitiatorLogin {
        &self.login
    }

    fn new(login: InitiatorLogin) -> Self {
        Self { login, server: ServerPrincipal::default(), krb5_conf: None }
    }

    /// Kerberos: the service name of the servers, `zookeeper` by default. The host of the connection string follows it.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::ticket_cache(None).server_service("zk");
    /// ```
    #[must_use]
    pub fn server_service(mut self, service: &str) -> Self {
        self.server.service = Some(service.to_owned());
        self
    }

    /// Kerberos: the realm of the servers, that of the client by default.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::ticket_cache(None).server_realm("EXAMPLE.COM");
    /// ```
    #[must_use]
    pub fn server_realm(mut self, realm: &str) -> Self {
        self.server.realm = Some(realm.to_owned());
        self
    }

    /// Kerberos: the whole principal of all servers, whatever their hosts.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::ticket_cache(None).server_principal("zookeeper/zk.example.com@EXAMPLE.COM");
    /// ```
    #[must_use]
    pub fn server_principal(mut self, principal: &str) -> Self {
        self.server.principal = Some(principal.to_owned());
        self
    }

    /// Kerberos: the configuration file. By default it is the file that `KRB5_CONFIG` names, or `/etc/krb5.conf`.
    ///
    /// ```
    /// let login = ox_client::SaslLogin::ticket_cache(None).krb5_conf("/etc/krb5.conf");
    /// ```
    #[must_use]
    pub fn krb5_conf(mut self, file: impl Into<PathBuf>) -> Self {
        self.krb5_conf = Some(file.into());
        self
    }
}

fn kerberos() -> Krb5LoginOptions {
    Krb5LoginOptions {
        principal: None,
        keytab: None,
        ticket_cache: None,
        renew_tgt: false,
        is_initiator: true,
        store_key: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principal_of_server_comes_from_host_and_settings() {
        let principal = |server: &ServerPrincipal| server.of_host("zk1.example.com", "HOME").unwrap().to_string();
        let mut server = ServerPrincipal::default();
        assert_eq!(principal(&server), "zookeeper/zk1.example.com@HOME");
        (server.service, server.realm) = (Some("zk".to_owned()), Some("AWAY".to_owned()));
        assert_eq!(principal(&server), "zk/zk1.example.com@AWAY");
        server.principal = Some("zookeeper/all".to_owned());
        assert_eq!(principal(&server), "zookeeper/all@AWAY");
        server.principal = Some("zookeeper/all@THERE".to_owned());
        assert_eq!(principal(&server), "zookeeper/all@THERE");
    }
}
