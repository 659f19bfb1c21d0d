//! Typed options of the login modules that ZooKeeper's JAAS sections name.

use super::{JaasError, JaasModule, JaasSection};
use crate::secret::SecretBytes;
use std::collections::BTreeMap;

const DIGEST_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
const KRB5_MODULES: [&str; 2] =
    ["com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"];

/// The accounts of a server section: passwords by user name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestAccounts {
    passwords: BTreeMap<String, SecretBytes>,
}

/// The account with which a client or a learner authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestCredentials {
    pub username: String,
    pub password: SecretBytes,
}

/// Options of `Krb5LoginModule`, with Java's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Krb5LoginOptions {
    /// Without a realm, the default realm of `krb5.conf` is meant. `*` lets an acceptor use every key of its keytab.
    pub principal: Option<String>,
    /// `Some(None)` is the default keytab of `krb5.conf`.
    pub keytab: Option<Option<String>>,
    /// `Some(None)` is the default cache: `KRB5CCNAME`, or `/tmp/krb5cc_<uid>`.
    pub ticket_cache: Option<Option<String>>,
    /// Whether an expiring ticket of the cache is renewed.
    pub renew_tgt: bool,
    /// An acceptor without this flag needs no KDC.
    pub is_initiator: bool,
    /// Whether the keys are kept for accepting; the acceptor side requires it.
    pub store_key: bool,
}

/// How the accepting side of a section authenticates its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptorLogin {
    DigestMd5(DigestAccounts),
    Gssapi(Krb5LoginOptions),
}

/// How the connecting side of a section authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorLogin {
    DigestMd5(DigestCredentials),
    Gssapi(Krb5LoginOptions),
}

impl DigestAccounts {
    pub fn new(accounts: impl IntoIterator<Item = (String, SecretBytes)>) -> Self {
        Self { passwords: accounts.into_iter().collect() }
    }

    pub fn password(&self, user: &str) -> Option<&SecretBytes> {
        self.passwords.get(user)
    }

    /// `SASLAuthenticationProvider.superPassword` replaces the password of an existing account `super`.
    pub fn replace_super_password(&mut self, password: SecretBytes) {
        if let Some(known) = self.passwords.get_mut("super") {
            *known = password;
        }
    }

    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.passwords.keys().map(String::as_str)
    }
}

impl JaasSection {
    /// The login of sections `Server` and `QuorumServer`.
    pub fn acceptor_login(&self) -> Result<AcceptorLogin, JaasError> {
        let mut accounts = DigestAccounts::default();
        for module in &self.modules {
            if KRB5_MODULES.contains(&module.class.as_str()) {
                return Ok(AcceptorLogin::Gssapi(self.krb5_acceptor(module)?));
            }
            self.check_class(module)?;
            for (key, value) in module.options() {
                if let Some(user) = key.strip_prefix("user_") {
                    accounts.passwords.insert(user.to_owned(), value.clone());
                }
            }
        }
        self.check_not_empty()?;
        Ok(AcceptorLogin::DigestMd5(accounts))
    }

    /// The login of sections `Client` and `QuorumLearner`.
    pub fn initiator_login(&self) -> Result<InitiatorLogin, JaasError> {
        self.check_not_empty()?;
        for module in &self.modules {
            if KRB5_MODULES.contains(&module.class.as_str()) {
                return Ok(InitiatorLogin::Gssapi(self.krb5_options(module)?));
            }
            self.check_class(module)?;
            if let (Some(username), Some(password)) = (module.text("username"), module.option("password")) {
                let credentials = DigestCredentials { username: username.to_owned(), password: password.clone() };
                return Ok(InitiatorLogin::DigestMd5(credentials));
            }
        }
        Err(self.error(self.line, "the options 'username' and 'password' are missing"))
    }

    fn check_not_empty(&self) -> Result<(), JaasError> {
        if self.modules.is_empty() { Err(self.error(self.line, "it names no login module")) } else { Ok(()) }
    }

    fn check_class(&self, module: &JaasModule) -> Result<(), JaasError> {
        if module.class == DIGEST_MODULE {
            return Ok(());
        }
        let known = format!("{DIGEST_MODULE} and {}", KRB5_MODULES[0]);
        Err(self.error(module.line, format!("unknown login module '{}'; known are {known}", module.class)))
    }

    fn krb5_acceptor(&self, module: &JaasModule) -> Result<Krb5LoginOptions, JaasError> {
        let options = self.krb5_options(module)?;
        if options.keytab.is_none() {
            return Err(self.error(module.line, "an acceptor needs useKeyTab=true and keyTab"));
        }
        if !options.store_key {
            return Err(self.error(module.line, "an acceptor needs storeKey=true"));
        }
        Ok(options)
    }

    fn krb5_options(&self, module: &JaasModule) -> Result<Krb5LoginOptions, JaasError> {
        let path = |key| module.text(key).map(|path| path.strip_prefix("FILE:").unwrap_or(path).to_owned());
        let [use_keytab, use_cache] = ["useKeyTab", "useTicketCache"].map(|key| module.is_true(key));
        for (key, switch, is_on) in [("keyTab", "useKeyTab", use_keytab), ("ticketCache", "useTicketCache", use_cache)]
        {
            if module.option(key).is_some() && !is_on {
                return Err(self.error(module.line, format!("option '{key}' needs {switch}=true")));
            }
        }
        if module.is_true("renewTGT") && !use_cache {
            return Err(self.error(module.line, "renewTGT=true needs useTicketCache=true"));
        }
        if !use_keytab && !use_cache {
            let message = "neither useKeyTab nor useTicketCache is true, and a server cannot prompt for a password";
            return Err(self.error(module.line, message));
        }
        Ok(Krb5LoginOptions {
            principal: module.text("principal").map(str::to_owned),
            keytab: use_keytab.then(|| path("keyTab")),
            ticket_cache: use_cache.then(|| path("ticketCache")),
            renew_tgt: module.is_true("renewTGT"),
            is_initiator: module.option("isInitiator").is_none() || module.is_true("isInitiator"),
            store_key: module.is_true("storeKey"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::JaasFile;
    use super::*;

    fn section(body: &str) -> JaasSection {
        let text = format!("S {{ {body} }};");
        JaasFile::parse("jaas.conf", &text, &|_| None).unwrap().sections.remove(0)
    }

    #[test]
    fn digest_sections_give_accounts_and_credentials() {
        let server =
            section(&format!("{DIGEST_MODULE} required user_super=\"adminsecret\" user_bob=\"b\" debug=true;"));
        let Ok(AcceptorLogin::DigestMd5(mut accounts)) = server.acceptor_login() else { panic!("digest") };
        assert_eq!(accounts.users().collect::<Vec<_>>(), ["bob", "super"]);
        accounts.replace_super_password(SecretBytes::new("other"));
        assert!(accounts.password("super").unwrap().matches(b"other"));
        assert!(accounts.password("bob").unwrap().matches(b"b"));
        assert!(!format!("{accounts:?}").contains("other"));
        let mut none = DigestAccounts::default();
        none.replace_super_password(SecretBytes::new("other"));
        assert!(none.password("super").is_none(), "the property adds no account");

        let client = section(&format!("{DIGEST_MODULE} required username=\"bob\" password=\"bobsecret\";"));
        let Ok(InitiatorLogin::DigestMd5(credentials)) = client.initiator_login() else { panic!("digest") };
        assert!(credentials.username == "bob" && credentials.password.matches(b"bobsecret"));
    }

    #[test]
    fn krb5_sections_give_options() {
        let server = section(
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=True keyTab=\"FILE:/etc/zk.keytab\"\n\
             storeKey=true useTicketCache=false principal=\"zookeeper/host.example.com@EXAMPLE.COM\";",
        );
        let Ok(AcceptorLogin::Gssapi(options)) = server.acceptor_login() else { panic!("krb5") };
        let expected = Krb5LoginOptions {
            principal: Some("zookeeper/host.example.com@EXAMPLE.COM".to_owned()),
            keytab: Some(Some("/etc/zk.keytab".to_owned())),
            ticket_cache: None,
            renew_tgt: false,
            is_initiator: true,
            store_key: true,
        };
        assert_eq!(options, expected);
        let client =
            section("com.ibm.security.auth.module.Krb5LoginModule required useTicketCache=true renewTGT=true;");
        let Ok(InitiatorLogin::Gssapi(options)) = client.initiator_login() else { panic!("krb5") };
        assert_eq!((options.ticket_cache, options.renew_tgt, options.keytab), (Some(None), true, None));
    }

    #[test]
    fn contradictory_options_are_refused() {
        let krb5 = KRB5_MODULES[0];
        for (body, expected) in [
            (format!("{krb5} required keyTab=\"x\";"), "option 'keyTab' needs useKeyTab=true"),
            (format!("{krb5} required useKeyTab=true ticketCache=\"x\";"), "option 'ticketCache' needs"),
            (format!("{krb5} required useKeyTab=true renewTGT=true;"), "renewTGT=true needs"),
            (format!("{krb5} required useTicketCache=true;"), "an acceptor needs useKeyTab=true"),
            (format!("{krb5} required useKeyTab=true keyTab=\"x\";"), "an acceptor needs storeKey=true"),
            (format!("{krb5} required;"), "neither useKeyTab nor useTicketCache"),
            ("a.B required;".to_owned(), "unknown login module 'a.B'"),
            (String::new(), "it names no login module"),
        ] {
            let error = section(&body).acceptor_login().expect_err(&body).to_string();
            assert!(error.contains(&format!("jaas.conf:1: section 'S': {expected}")), "{error}");
        }
        let client = section(&format!("{DIGEST_MODULE} required username=\"bob\";"));
        assert!(client.initiator_login().is_err());
    }
}
