//! ACL syntax of the script language.
//!
//! `null`, `none` (no entries) or entries separated by commas. An entry is `PERMS:SCHEME:ID`; `world` and `auth`
//! abbreviate `31:world:anyone` and `31:auth:""`, and `PERMS:user:NAME` the digest of user NAME with password NAME.

use crate::tokenizer::Cursor;
use crate::value::FieldValue;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use ox_proto::acl::perms;
use ox_proto::jute::{Jute as _, put_buffer, put_count};
use sha1::{Digest as _, Sha1};
use std::fmt;

/// One entry; scheme and id may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Not restricted to valid permission bits.
    pub perms: i32,
    pub scheme: FieldValue,
    pub id: FieldValue,
}

impl AclEntry {
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self { perms, scheme: FieldValue::text(scheme), id: FieldValue::text(id) }
    }

    /// The digest entry of a user whose password is its name.
    pub fn user(perms: i32, name: &str) -> Self {
        Self::new(perms, "digest", &digest_id(&credentials(name)))
    }
}

/// A list of entries, or null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptAcl(pub Option<Vec<AclEntry>>);

impl ScriptAcl {
    /// All permissions for `world:anyone`.
    pub fn open() -> Self {
        Self(Some(vec![AclEntry::new(perms::ALL, "world", "anyone")]))
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        let Some(entries) = &self.0 else { return (-1_i32).put(out) };
        put_count(out, entries.len());
        for entry in entries {
            entry.perms.put(out);
            put_buffer(out, entry.scheme.bytes());
            put_buffer(out, entry.id.bytes());
        }
    }

    pub fn parse(cursor: &mut Cursor) -> Result<Self> {
        match cursor.peek_word() {
            Some("null") => cursor.word().map(|_| Self(None)),
            Some("none") => cursor.word().map(|_| Self(Some(Vec::new()))),
            _ => {
                let mut entries = vec![parse_entry(cursor)?];
                while cursor.eat(',') {
                    entries.push(parse_entry(cursor)?);
                }
                Ok(Self(Some(entries)))
            }
        }
    }
}

fn parse_entry(cursor: &mut Cursor) -> Result<AclEntry> {
    let first = cursor.word().context("ACL entry")?;
    match first.as_str() {
        "world" => return Ok(AclEntry::new(perms::ALL, "world", "anyone")),
        "auth" => return Ok(AclEntry::new(perms::ALL, "auth", "")),
        _ => (),
    }
    let perms = first.parse().ok().with_context(|| format!("permissions {first:?}"))?;
    cursor.mark(':')?;
    let scheme = cursor.value()?;
    cursor.mark(':')?;
    let id = cursor.value()?;
    if scheme.as_str() == Some("user") {
        return Ok(AclEntry::user(perms, id.as_str().context("user name")?));
    }
    Ok(AclEntry { perms, scheme, id })
}

impl fmt::Display for ScriptAcl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(entries) = &self.0 else { return f.write_str("null") };
        if entries.is_empty() {
            return f.write_str("none");
        }
        if *self == Self::open() {
            return f.write_str("world");
        }
        for (index, entry) in entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}:{}", entry.perms, entry.scheme, entry.id)?;
        }
        Ok(())
    }
}

/// The credentials that user `name` sends: the password is the name, except for the super user of the profile.
pub fn credentials(name: &str) -> String {
    if name == "super" { "super:secret".to_owned() } else { format!("{name}:{name}") }
}

/// The digest id of credentials `user:password`.
pub fn digest_id(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha1::digest(credentials.as_bytes()));
    format!("{user}:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        let list = ScriptAcl::parse(&mut Cursor::new(text).unwrap()).unwrap();
        assert_eq!(list.to_string(), printed);
        assert_eq!(ScriptAcl::parse(&mut Cursor::new(printed).unwrap()).unwrap(), list);
    }

    #[test]
    fn lists_round_trip() {
        check("world", "world");
        check("null", "null");
        check("none", "none");
        check("auth,1:ip:\"1.2.3.4/8\"", "31:auth:\"\",1:ip:1.2.3.4/8");
        check("-1:null:null", "-1:null:null");
        check("3:user:bob", &format!("3:digest:\"{}\"", digest_id("bob:bob")));
    }

    #[test]
    fn digest_ids_equal_apaches() {
        assert_eq!(digest_id("bob:pw"), "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        assert_eq!(digest_id(&credentials("super")), "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
    }
}
