//! The properties of Apache's client, by the names that users of `zkCli` know.

use crate::builder::Builder;
use crate::error::{Error, ErrorKind};
use crate::sasl::SaslLogin;
use crate::tls::{SettingsGroup, StorePassword, StoreSettings, TlsSettings};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const JAAS_FILE: &str = "java.security.auth.login.config";
const JAAS_SECTION: &str = "zookeeper.sasl.clientconfig";

/// Properties of Apache's client: `zookeeper.client.secure`, `zookeeper.ssl.*`, `zookeeper.sasl.*` and a few of Java.
///
/// ```
/// use ox_client::{Client, ClientProperties};
/// let mut properties = ClientProperties::default();
/// properties.add_flags("-Xmx256m -Dzookeeper.client.secure=true -Dzookeeper.ssl.trustStore.location=/etc/ca.pem");
/// let settings = properties.tls_settings()?.expect("TLS is on");
/// assert_eq!(settings.trust_store.location.as_deref(), Some("/etc/ca.pem".as_ref()));
/// let builder = properties.apply(Client::builder().servers("zk1:2281")?)?;
/// # Ok::<(), ox_client::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientProperties {
    /// Wiped when dropped, because some are passwords.
    values: BTreeMap<String, Zeroizing<String>>,
}

impl fmt::Debug for ClientProperties {
    /// Only names, because some values are passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl ClientProperties {
    /// The `-D` words of `CLIENT_JVMFLAGS` and `JVMFLAGS`, in this order; `variable` looks up variables of the environment.
    ///
    /// ```
    /// use ox_client::ClientProperties;
    /// let properties = ClientProperties::from_variables(|name| std::env::var(name).ok());
    /// ```
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut properties = Self::default();
        for flags in ["CLIENT_JVMFLAGS", "JVMFLAGS"].into_iter().filter_map(variable) {
            properties.add_flags(&flags);
        }
        properties
    }

    /// Sets one property. The last value of a name counts.
    ///
    /// ```
    /// let mut properties = ox_client::ClientProperties::default();
    /// properties.set("zookeeper.client.secure", "true");
    /// ```
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), Zeroizing::new(value.to_owned()));
    }

    /// Takes the `-Dname=value` words of a text, as `CLIENT_JVMFLAGS` and `JVMFLAGS` have; other words are for Java.
    ///
    /// ```
    /// let mut properties = ox_client::ClientProperties::default();
    /// properties.add_flags("-Xmx256m -Dzookeeper.client.secure=true");
    /// assert_eq!(properties.get("zookeeper.client.secure"), Some("true"));
    /// ```
    pub fn add_flags(&mut self, flags: &str) {
        for definition in flags.split_ascii_whitespace().filter_map(|word| word.strip_prefix("-D")) {
            let (name, value) = definition.split_once('=').unwrap_or((definition, ""));
            self.set(name, value);
        }
    }

    /// Reads a properties file with full names, as the option `-client-configuration` of `zkCli` takes it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let file = dir.path().join("client.properties");
    /// # std::fs::write(&file, "zookeeper.client.secure=true\n")?;
    /// let mut properties = ox_client::ClientProperties::default();
    /// properties.add_file(&file)?;
    /// assert_eq!(properties.get("zookeeper.client.secure"), Some("true"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_file(&mut self, file: &Path) -> Result<(), Error> {
        let bytes = std::fs::read(file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        let pairs = ox_proto::properties::parse(&bytes)
            .map_err(|error| bad(format!("{}:{}: malformed \\u escape", file.display(), error.line)))?;
        pairs.iter().for_each(|pair| self.set(&pair.key, &pair.value));
        Ok(())
    }

    /// The value of a property.
    ///
    /// ```
    /// assert_eq!(ox_client::ClientProperties::default().get("zookeeper.client.secure"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.as_str())
    }

    /// Sets TLS and SASL of a builder as the properties say.
    ///
    /// ```
    /// use ox_client::{Client, ClientProperties};
    /// let builder = ClientProperties::default().apply(Client::builder())?; // neither TLS nor SASL
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn apply(&self, mut builder: Builder) -> Result<Builder, Error> {
        if let Some(settings) = self.tls_settings()? {
            builder = builder.tls(settings);
        }
        if let Some(login) = self.sasl_login()? {
            builder = builder.sasl(login);
        }
        Ok(builder)
    }

    /// The settings of TLS; `None` unless `zookeeper.client.secure` is true.
    ///
    /// ```
    /// assert!(ox_client::ClientProperties::default().tls_settings()?.is_none());
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn tls_settings(&self) -> Result<Option<TlsSettings>, Error> {
        if !self.flag("zookeeper.client.secure", false)? {
            return Ok(None);
        }
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.key_store = self.store("keyStore");
        settings.trust_store = self.store("trustStore");
        settings.protocol = self.ssl("protocol");
        settings.enabled_protocols = self.ssl("enabledProtocols");
        settings.cipher_suites = self.ssl("ciphersuites");
        settings.context_supplier_class = self.ssl("context.supplier.class");
        settings.hostname_verification = self.flag("zookeeper.ssl.hostnameVerification", true)?;
        settings.allow_reverse_dns_lookup = self.flag("zookeeper.ssl.allowReverseDnsLookup", false)?;
        settings.crl = self.flag("zookeeper.ssl.crl", false)?;
        settings.ocsp = self.flag("zookeeper.ssl.ocsp", false)?;
        let lists = self.get("zookeeper.oxkeeper.ssl.crlFiles").unwrap_or_default();
        settings.crl_files =
            lists.split(',').map(str::trim).filter(|file| !file.is_empty()).map(PathBuf::from).collect();
        settings.fips_mode = self.flag("zookeeper.fips-mode", true)?;
        if settings.allow_reverse_dns_lookup {
            let text = "zookeeper.ssl.allowReverseDnsLookup: this client looks up no names of addresses; write the host \
                        name of the certificate into the connection string";
            return Err(bad(text.to_owned()));
        }
        Ok(Some(settings))
    }

    /// The login of SASL: that of the section `zookeeper.sasl.clientconfig` (by default `Client`) of the file that
    /// `java.security.auth.login.config` names. `None` without such a section, as in Apache's client, unless the
    /// section is named explicitly; and if `zookeeper.sasl.client` is false.
    ///
    /// ```
    /// assert!(ox_client::ClientProperties::default().sasl_login()?.is_none());
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn sasl_login(&self) -> Result<Option<SaslLogin>, Error> {
        if !self.flag("zookeeper.sasl.client", true)? {
            return Ok(None);
        }
        let section = self.get(JAAS_SECTION);
        let Some(file) = self.get(JAAS_FILE) else {
            return match section {
                None => Ok(None),
                Some(_) => Err(bad(format!("{JAAS_SECTION} is set, but {JAAS_FILE}, the JAAS file, is not"))),
            };
        };
        let file = file.strip_prefix('=').unwrap_or(file);
        let file = Path::new(file.strip_prefix("file:").unwrap_or(file));
        let property = |name: &str| self.get(name).map(str::to_owned);
        let login = match section {
            Some(section) => Some(SaslLogin::jaas(file, section, &property)?),
            None => SaslLogin::jaas_if_present(file, "Client", &property)?,
        };
        let Some(mut login) = login else { return Ok(None) };
        let text = |name: &str| self.get(name).map(str::to_owned).filter(|text| !text.is_empty());
        login.server.service = text("zookeeper.sasl.client.username");
        login.server.realm = text("zookeeper.server.realm");
        login.server.principal = text("zookeeper.server.principal");
        login.krb5_conf = text("java.security.krb5.conf").map(PathBuf::from);
        Ok(Some(login))
    }

    fn ssl(&self, name: &str) -> Option<String> {
        self.get(&format!("zookeeper.ssl.{name}")).map(str::to_owned)
    }

    fn store(&self, name: &str) -> StoreSettings {
        let value = |part: &str| self.ssl(&format!("{name}.{part}")).filter(|text| !text.is_empty());
        StoreSettings {
            location: value("location").map(PathBuf::from),
            password: value("password").map(StorePassword::new),
            password_path: value("passwordPath").map(PathBuf::from),
            store_type: value("type"),
        }
    }

    /// Java takes every text but `true` for `false`, so that `yes` would turn TLS or the verification of names off.
    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.get(name).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(text) => Err(bad(format!("{name}={text}: expected true or false"))),
        }
    }
}

fn bad(text: String) -> Error {
    Error::connect(ErrorKind::BadSecurity(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(flags: &str) -> ClientProperties {
        let mut properties = ClientProperties::default();
        properties.add_flags(flags);
        properties
    }

    #[test]
    fn switch_that_is_neither_true_nor_false_is_refused() {
        let error = properties("-Dzookeeper.client.secure=yes").apply(Builder::new()).unwrap_err();
        assert_eq!(error.to_string(), "connect: zookeeper.client.secure=yes: expected true or false");
        let flags = "-Dzookeeper.client.secure=true -Dzookeeper.ssl.hostnameVerification=1";
        assert!(properties(flags).tls_settings().is_err());
        assert!(properties("-Dzookeeper.client.secure= False").tls_settings().is_err(), "two words");
        assert!(properties("-Dzookeeper.sasl.client").sasl_login().is_err());
    }

    #[test]
    fn tls_settings_have_apache_defaults() {
        assert!(properties("-Dzookeeper.ssl.trustStore.location=/ca.pem").tls_settings().unwrap().is_none());
        let settings = properties("-Dzookeeper.client.secure=TRUE").tls_settings().unwrap().unwrap();
        assert!(settings.hostname_verification && settings.fips_mode && !settings.crl && !settings.ocsp);
        let settings = properties(
            "-Dzookeeper.client.secure=true -Dzookeeper.ssl.keyStore.location=/c.p12 -Dzookeeper.ssl.keyStore.password=x \
             -Dzookeeper.ssl.keyStore.type=PKCS12 -Dzookeeper.ssl.trustStore.passwordPath=/p \
             -Dzookeeper.ssl.hostnameVerification=false -Dzookeeper.fips-mode=false -Dzookeeper.ssl.protocol=TLSv1.2 \
             -Dzookeeper.ssl.enabledProtocols=TLSv1.2 -Dzookeeper.ssl.ciphersuites=A,B -Dzookeeper.ssl.crl=true \
             -Dzookeeper.oxkeeper.ssl.crlFiles=/a.crl,/b.crl",
        );
        let settings = settings.tls_settings().unwrap().unwrap();
        assert_eq!(settings.key_store.location.as_deref(), Some(Path::new("/c.p12")));
        assert_eq!(settings.key_store.password, Some(StorePassword::new("x")));
        assert_eq!(settings.trust_store.password_path.as_deref(), Some(Path::new("/p")));
        assert_eq!((settings.hostname_verification, settings.fips_mode, settings.crl), (false, false, true));
        assert_eq!(settings.crl_files.len(), 2);
        let lookup = properties("-Dzookeeper.client.secure=true -Dzookeeper.ssl.allowReverseDnsLookup=true");
        assert!(lookup.tls_settings().unwrap_err().to_string().contains("looks up no names"));
    }

    #[test]
    fn sasl_login_needs_a_section() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("jaas.conf");
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        let text = format!("Client {{ {module} username=\"bob\" password=\"${{pw}}\"; }};\nEmpty {{ {module}; }};");
        std::fs::write(&file, text).unwrap();
        let jaas = format!("-Djava.security.auth.login.config={} -Dpw=s3cret", file.display());
        let login = |more: &str| properties(&format!("{jaas} {more}")).sasl_login();
        let found = login("").unwrap().unwrap();
        assert!(!format!("{found:?}").contains("s3cret"));
        assert!(login("-Dzookeeper.sasl.client=false").unwrap().is_none());
        for (more, expected) in [
            ("-Dzookeeper.sasl.clientconfig=Other", "No JAAS configuration section named 'Other' was found in"),
            ("-Dzookeeper.sasl.clientconfig=Empty", "jaas.conf:2: section 'Empty': the options 'username'"),
            ("-Djava.security.auth.login.config=/nonexistent", "/nonexistent: "),
        ] {
            let error = login(more).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::write(&file, format!("Server {{ {module} user_bob=\"x\"; }};")).unwrap();
        assert!(login("").unwrap().is_none(), "no section Client, no SASL");
        assert!(properties("-Dzookeeper.sasl.clientconfig=X").sasl_login().is_err());
        assert!(!format!("{:?}", properties("-Da=s3cret")).contains("s3cret"));
    }

    #[test]
    fn file_overrides_flags() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("client.properties");
        std::fs::write(&file, "# TLS\nzookeeper.client.secure : false\nzookeeper.ssl.keyStore.password=a\\u0062\n")
            .unwrap();
        let mut properties = properties("-Dzookeeper.client.secure=true -Dother");
        properties.add_file(&file).unwrap();
        assert_eq!(properties.get("zookeeper.client.secure"), Some("false"));
        assert_eq!(properties.get("zookeeper.ssl.keyStore.password"), Some("ab"));
        assert_eq!(properties.get("other"), Some(""));
        assert!(properties.add_file(&dir.path().join("none")).is_err());
        std::fs::write(&file, "\nx=\\u1").unwrap();
        assert!(properties.add_file(&file).unwrap_err().to_string().contains("client.properties:2: malformed"));
    }
}
