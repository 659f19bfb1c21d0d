//! One group of `ssl.*` settings, as the configuration or the client properties name them.

use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Which connections a group of settings protects. Keys and defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsGroup {
    /// `ssl.`: the client port, and clients that connect to it.
    Client,
    /// `ssl.quorum.`: the quorum and election ports.
    Quorum,
}

impl SettingsGroup {
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Client => "ssl.",
            Self::Quorum => "ssl.quorum.",
        }
    }
}

/// The password of a store. It is wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct StorePassword(Zeroizing<String>);

impl StorePassword {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StorePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StorePassword(***)")
    }
}

/// The four keys of a key store or of a trust store.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    pub location: Option<PathBuf>,
    pub password: Option<StorePassword>,
    /// A file that contains the password. Takes precedence over `password`.
    pub password_path: Option<PathBuf>,
    /// `JKS`, `PEM`, `PKCS12` or `BCFKS`, in any case. Without it, the suffix of the file decides.
    pub store_type: Option<String>,
}

/// One group of settings. Names of protocols, suites and modes are as the operator wrote them.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    pub group: SettingsGroup,
    pub key_store: StoreSettings,
    pub trust_store: StoreSettings,
    /// `TLSv1.3` permits 1.3 and 1.2, `TLSv1.2` only 1.2. Default: `TLSv1.3`.
    pub protocol: Option<String>,
    /// A comma list that replaces what `protocol` implies.
    pub enabled_protocols: Option<String>,
    /// A comma list of IANA names. Default: all suites that are supported.
    pub cipher_suites: Option<String>,
    /// Custom Java code. It cannot be loaded, so that a value is an error.
    pub context_supplier_class: Option<String>,
    /// Whether host names are checked at all.
    pub hostname_verification: bool,
    /// Whether the name of a connecting peer is checked. Needs `hostname_verification`.
    pub client_hostname_verification: bool,
    /// Whether an address without a configured name may be looked up in the DNS.
    pub allow_reverse_dns_lookup: bool,
    pub crl: bool,
    pub ocsp: bool,
    /// Certificate revocation lists, PEM or DER, which the operator keeps current. `crl` and `ocsp` need them, because
    /// lists are not downloaded.
    pub crl_files: Vec<PathBuf>,
    /// `none`, `want` or `need`, in any case. Default: `need`.
    pub client_auth: Option<String>,
    pub fips_mode: bool,
}

impl TlsSettings {
    /// The defaults of a group. The flags are Apache 3.9's.
    pub fn new(group: SettingsGroup) -> Self {
        let is_quorum = group == SettingsGroup::Quorum;
        Self {
            group,
            key_store: StoreSettings::default(),
            trust_store: StoreSettings::default(),
            protocol: None,
            enabled_protocols: None,
            cipher_suites: None,
            context_supplier_class: None,
            hostname_verification: true,
            client_hostname_verification: is_quorum,
            allow_reverse_dns_lookup: is_quorum,
            crl: false,
            ocsp: false,
            crl_files: Vec::new(),
            client_auth: None,
            fips_mode: true,
        }
    }

    /// The full name of a key of this group, for example `ssl.quorum.clientAuth`.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.group.prefix())
    }

    /// The key of `crl_files`, which Apache does not have.
    pub(crate) fn crl_files_key(&self) -> String {
        format!("oxkeeper.{}crlFiles", self.group.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_printed() {
        let mut settings = TlsSettings::new(SettingsGroup::Quorum);
        settings.key_store.password = Some(StorePassword::new("s3cret"));
        let text = format!("{settings:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(settings.key("clientAuth"), "ssl.quorum.clientAuth");
    }
}
