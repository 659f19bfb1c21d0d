//! Principals of Kerberos: a realm and components, and their text.

use super::KerberosError;
use std::fmt;

/// Types of names (RFC 4120, 6.2).
pub(crate) const NT_PRINCIPAL: i32 = 1;
pub(crate) const NT_SERVICE_INSTANCE: i32 = 2;
const NT_SERVICE_HOST: i32 = 3;

/// A principal. The type of a name is a hint, and does not take part in comparisons.
#[derive(Clone, Debug)]
pub struct Principal {
    pub name_type: i32,
    pub components: Vec<String>,
    pub realm: String,
}

impl Principal {
    /// Parses `component[/component]..[@REALM]`, in which `\` escapes the next character.
    pub fn parse(text: &str, default_realm: Option<&str>) -> Result<Self, KerberosError> {
        let mut parts = vec![String::new()];
        let mut realm: Option<String> = None;
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let literal = match char {
                '/' if realm.is_none() => {
                    parts.push(String::new());
                    continue;
                }
                '@' if realm.is_none() => {
                    realm = Some(String::new());
                    continue;
                }
                '@' => return Err(KerberosError::Malformed("principal")),
                '\\' => chars.next().ok_or(KerberosError::Malformed("principal"))?,
                char => char,
            };
            if let Some(part) = realm.as_mut().or_else(|| parts.last_mut()) {
                part.push(literal);
            }
        }
        let realm = realm.or_else(|| default_realm.map(str::to_owned)).filter(|realm| !realm.is_empty());
        let realm = realm.ok_or_else(|| KerberosError::File {
            file: "krb5.conf",
            reason: format!("principal '{}' has no realm, and default_realm is not set", super::escaped(text)),
        })?;
        if parts.iter().any(String::is_empty) {
            return Err(KerberosError::Malformed("principal"));
        }
        let name_type = if parts.len() == 2 { NT_SERVICE_HOST } else { NT_PRINCIPAL };
        Ok(Self { name_type, components: parts, realm })
    }

    /// The principal of the ticket-granting service of `realm`, at the KDC of `of_realm`.
    pub(crate) fn ticket_granting(realm: &str, of_realm: &str) -> Self {
        let components = vec!["krbtgt".to_owned(), realm.to_owned()];
        Self { name_type: NT_SERVICE_INSTANCE, components, realm: of_realm.to_owned() }
    }

    /// The realm whose tickets this service grants, if it is a ticket-granting service.
    pub(crate) fn granted_realm(&self) -> Option<&str> {
        match self.components.as_slice() {
            [service, realm] if service == "krbtgt" => Some(realm),
            _ => None,
        }
    }

    /// The salt of passwords, unless the KDC names another.
    pub(crate) fn default_salt(&self) -> Vec<u8> {
        format!("{}{}", self.realm, self.components.concat()).into_bytes()
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.components == other.components && self.realm == other.realm
    }
}

impl Eq for Principal {}

/// Characters that separate parts are escaped, so that no principal prints as another one.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, text: &str| {
            text.chars().try_for_each(|char| match char {
                '/' | '@' | '\\' => write!(f, "\\{char}"),
                char if char.is_control() => write!(f, "{}", char.escape_default()),
                char => write!(f, "{char}"),
            })
        };
        for (at, component) in self.components.iter().enumerate() {
            if 0 < at {
                f.write_str("/")?;
            }
            write(f, component)?;
        }
        f.write_str("@")?;
        write(f, &self.realm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_parsed_and_printed() {
        for text in ["bob@R", "zookeeper/host.example.com@EXAMPLE.COM", "a/b/c@R", "a\\/b\\@c/d@R\\@S"] {
            assert_eq!(Principal::parse(text, None).unwrap().to_string(), text);
        }
        assert_eq!(Principal::parse("bob", Some("R")).unwrap().to_string(), "bob@R");
        for text in ["bob", "", "@R", "a//b@R", "a@R@S", "bob@", "bob\\"] {
            assert!(Principal::parse(text, None).is_err(), "{text}");
        }
        let salt = Principal::parse("zk/host@R", None).unwrap().default_salt();
        assert_eq!(salt, b"Rzkhost");
    }
}
