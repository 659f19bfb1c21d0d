//! Kerberos names as ZooKeeper's ids: `service/host@REALM`, shorter forms, and who is authorised.
//!
//! Java's class `KerberosName` is both parser and rule engine; here [`auth_to_local`] has the rules and [`identity`] the
//! functions that turn an authenticated name into the id of a connection.

pub mod auth_to_local;
pub mod identity;

use std::fmt;

/// A name of the form `service[/host][@REALM]`. The parts contain neither `/` nor `@`, and may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosName {
    pub service: String,
    pub host: Option<String>,
    pub realm: Option<String>,
}

/// Why a name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    #[error("Malformed Kerberos name: {0}")]
    Malformed(String),
    #[error("Invalid rule: {rule}: {reason}")]
    InvalidRule { rule: String, reason: String },
    #[error("No rules applied to {0}")]
    NoRule(String),
    #[error("Non-simple name {name} after auth_to_local rule {rule}")]
    NotSimple { name: String, rule: String },
}

impl KerberosName {
    /// Parses a name. Compat: text without `@` is a service name as a whole, even if it contains `/`, because ids of
    /// DIGEST-MD5 are parsed as Kerberos names too.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let Some((before, realm)) = name.split_once('@') else {
            return Ok(Self { service: name.to_owned(), host: None, realm: None });
        };
        let (service, host) = match before.split_once('/') {
            Some((service, host)) => (service, Some(host)),
            None => (before, None),
        };
        if realm.contains(['/', '@']) || host.is_some_and(|host| host.contains('/')) {
            return Err(NameError::Malformed(name.to_owned()));
        }
        Ok(Self { service: service.to_owned(), host: host.map(str::to_owned), realm: Some(realm.to_owned()) })
    }
}

impl fmt::Display for KerberosName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.service)?;
        if let Some(host) = &self.host {
            write!(f, "/{host}")?;
        }
        if let Some(realm) = &self.realm {
            write!(f, "@{realm}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_java_does() {
        for (text, service, host, realm) in [
            ("bob", "bob", None, None),
            ("", "", None, None),
            ("a/b/c", "a/b/c", None, None),
            ("bob@R", "bob", None, Some("R")),
            ("zk/h.x@R", "zk", Some("h.x"), Some("R")),
            ("@R", "", None, Some("R")),
            ("/@", "", Some(""), Some("")),
        ] {
            let name = KerberosName::parse(text).unwrap();
            assert_eq!((name.service.as_str(), name.host.as_deref(), name.realm.as_deref()), (service, host, realm));
            assert_eq!(name.to_string(), text);
        }
        for text in ["a@b@c", "a/b/c@d", "a@b/c"] {
            assert_eq!(KerberosName::parse(text), Err(NameError::Malformed(text.to_owned())));
        }
    }
}
