//! Identities of connections, and the permissions that ACLs grant them.
//!
//! The schemes are rows of one table ([`Schemes`]); SASL will be a further row. Identities belong to a
//! connection, are only ever added, and are checked for each request.

mod digest;
mod fixup_acl;
mod ip;
mod key;
mod x509;

pub use digest::digest_id;
pub use fixup_acl::fixup_acl;
pub use ip::java_address;

use crate::acl_table::AclList;
use crate::limits::{IDENTITIES_BYTES_MAX, IDENTITY_OVERHEAD_BYTES};
use crate::{State, TreeOptions};
use ox_proto::quorum::identities::{RawId, RawIds};
use std::borrow::Cow;
use std::net::IpAddr;

/// An identity that a connection has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub scheme: Cow<'static, str>,
    /// In the form of the scheme, e.g. `user:hash` for digest.
    pub id: String,
}

/// All identities of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identities {
    list: Vec<Identity>,
    is_super: bool,
}

impl Identities {
    /// The identity of a new connection: its address.
    pub fn of_address(address: IpAddr) -> Self {
        Self { list: vec![Identity { scheme: "ip".into(), id: java_address(address) }], is_super: false }
    }

    /// The server itself, which passes every ACL check.
    pub fn server() -> Self {
        Self { list: Vec::new(), is_super: true }
    }

    /// No identities, not even an address.
    pub fn none() -> Self {
        Self { list: Vec::new(), is_super: false }
    }

    /// The identities that a learner forwards with a request of its client.
    pub fn forwarded(ids: RawIds<'_>) -> Self {
        let list = ids.iter().filter_map(|RawId { scheme, id }| {
            Some(Identity { scheme: scheme?.into_owned().into(), id: id?.into_owned() })
        });
        let list: Vec<_> = list.collect();
        Self { is_super: list.iter().any(|identity| identity.scheme == "super"), list }
    }

    /// In the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.list.iter()
    }

    /// Adds identities, ignoring duplicates. Returns false if the connection's limit is reached, which counts as failed
    /// authentication.
    pub fn add(&mut self, proven: Vec<Identity>) -> bool {
        for identity in proven {
            if self.list.contains(&identity) {
                continue;
            }
            let bytes = self.list.iter().chain([&identity]).map(|known| known.id.len() + IDENTITY_OVERHEAD_BYTES);
            if IDENTITIES_BYTES_MAX < bytes.sum() {
                return false;
            }
            self.is_super |= identity.scheme == "super";
            self.list.push(identity);
        }
        true
    }

    /// Whether a list grants any bit of `perm`.
    pub fn may(&self, acl: &AclList, perm: i32) -> bool {
        acl.world_perms & perm != 0 || self.is_super || self.may_by_identity(acl, perm)
    }

    fn may_by_identity(&self, acl: &AclList, perm: i32) -> bool {
        acl.entries.iter().filter(|entry| entry.perms & perm != 0).any(|entry| {
            let same_scheme = self.list.iter().filter(|identity| *identity.scheme == *entry.scheme);
            let scheme = Schemes::find(&entry.scheme);
            scheme
                .is_some_and(|scheme| same_scheme.into_iter().any(|identity| (scheme.matches)(&identity.id, &entry.id)))
        })
    }
}

type Authenticate = fn(&State, Option<&[u8]>) -> Option<Vec<Identity>>;

/// An authentication scheme (Apache's `AuthenticationProvider`).
struct Scheme {
    name: &'static str,
    /// Turns the bytes of an auth packet into identities; `None` if it rejects them.
    authenticate: Authenticate,
    /// Whether the id is well-formed in an ACL entry.
    is_valid: fn(&str) -> bool,
    /// Whether a proven id (first) matches the id of an ACL entry (second).
    matches: fn(&str, &str) -> bool,
    /// Whether identities of this scheme replace `auth` entries.
    is_authenticated: bool,
    /// Whether the configuration enables the scheme.
    is_enabled: fn(&TreeOptions) -> bool,
}

const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "ip",
        authenticate: |_, _| Some(Vec::new()), // every connection has its address already
        is_valid: ip::is_valid,
        matches: ip::matches,
        is_authenticated: false,
        is_enabled: |_| true,
    },
    Scheme {
        name: "digest",
        authenticate: digest::authenticate,
        is_valid: digest::is_valid,
        matches: digest::matches,
        is_authenticated: true,
        is_enabled: |options| options.digest_scheme,
    },
    Scheme {
        name: "key",
        authenticate: key::authenticate,
        is_valid: |_| true,
        matches: |proven, entry| proven == entry,
        is_authenticated: true,
        is_enabled: |options| options.key_scheme,
    },
    Scheme {
        name: X509_SCHEME,
        authenticate: |_, _| None, // the identity comes from the TLS handshake, before the first request
        is_valid: x509::is_valid,
        matches: |proven, entry| proven == entry,
        is_authenticated: true,
        is_enabled: |options| options.x509_scheme,
    },
];

/// The scheme of identities that a certificate proves.
pub const X509_SCHEME: &str = "x509";

/// Lookup in the table of schemes.
struct Schemes;

impl Schemes {
    fn find(name: &str) -> Option<&'static Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    fn find_enabled(name: &str, options: &TreeOptions) -> Option<&'static Scheme> {
        Self::find(name).filter(|scheme| (scheme.is_enabled)(options))
    }
}

/// Checks an auth packet. `None` means that authentication failed and the connection must be closed.
pub fn authenticate(state: &State, scheme: Option<&str>, auth: Option<&[u8]>) -> Option<Vec<Identity>> {
    (Schemes::find_enabled(scheme?, state.options())?.authenticate)(state, auth)
}

/// The name that whoAmI reports for an identity.
pub fn user_name(identity: &Identity) -> &str {
    match &*identity.scheme {
        "digest" => identity.id.split(':').next().unwrap_or_default(),
        "super" => "", // Compat: no provider has the scheme (`subject_of_super_user_has_all_permissions`)
        _ => &identity.id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Acl;

    fn identities(users: &[&[u8]], options: &TreeOptions) -> Identities {
        let state = State::new(options.clone());
        let mut identities = Identities::of_address("127.0.0.1".parse().unwrap());
        for user in users {
            identities.add(authenticate(&state, Some("digest"), Some(user)).unwrap());
        }
        identities
    }

    #[test]
    fn entries_grant_by_scheme_and_bit() {
        let options = TreeOptions::default();
        let bob = identities(&[b"bob:pw"], &options);
        let list = AclList::new(vec![Acl::new(1, "digest", &digest_id(b"bob:pw")), Acl::new(2, "ip", "127.0.0.0/8")]);
        assert!(bob.may(&list, 1) && bob.may(&list, 2) && !bob.may(&list, 4));
        assert!(!identities(&[b"bob:other"], &options).may(&list, 1));
    }

    #[test]
    fn super_passes_every_check() {
        let options = TreeOptions { super_digest: Some(digest_id(b"super:secret")), ..TreeOptions::default() };
        let nothing = AclList::new(vec![Acl::new(0, "world", "anyone")]);
        assert!(identities(&[b"super:secret"], &options).may(&nothing, 31));
        assert!(!identities(&[b"super:wrong"], &options).may(&nothing, 31));
    }

    #[test]
    fn unknown_and_disabled_schemes_fail() {
        let off = State::new(TreeOptions { digest_scheme: false, ..TreeOptions::default() });
        let default = State::new(TreeOptions::default());
        assert_eq!(authenticate(&off, Some("digest"), Some(b"a:b")), None);
        assert_eq!(authenticate(&default, Some("sasl"), Some(b"")), None);
        assert_eq!(authenticate(&default, Some("key"), Some(b"")), None);
        assert_eq!(authenticate(&default, Some("super"), Some(b"")), None);
        assert_eq!(authenticate(&default, None, Some(b"")), None);
        assert_eq!(authenticate(&default, Some("digest"), None), None);
        assert_eq!(authenticate(&default, Some("ip"), None), Some(vec![]));
    }
}
