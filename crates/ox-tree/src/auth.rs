//! Identities of connections, and the permissions that ACLs grant them.
//!
//! The schemes are rows of one table ([`SCHEMES`]), and [`SchemeSettings`] tells which of them the configuration
//! enables. Identities belong to a connection, are only ever added, and are checked for each request. Auth packets prove
//! identities of `digest` and `key`; those of `sasl` are proven by an exchange of tokens (`ox-replica/src/sasl.rs`), and
//! those of `x509` by the certificate of a TLS connection.

mod digest;
mod ensemble;
mod fixup_acl;
mod ip;
mod key;
mod sasl;
mod scheme_settings;
mod x509;

pub use digest::{DigestHash, digest_id};
pub use fixup_acl::fixup_acl;
pub use ip::java_address;
pub use scheme_settings::{SchemeSettings, SuperDigest};

use crate::State;
use crate::acl_table::AclList;
use crate::limits::{IDENTITIES_BYTES_MAX, IDENTITY_OVERHEAD_BYTES};
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

    /// Whether the connection has an identity of a scheme.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.list.iter().any(|identity| identity.scheme == scheme)
    }

    /// Whether a list grants any bit of `perm`.
    pub fn may(&self, settings: &SchemeSettings, acl: &AclList, perm: i32) -> bool {
        acl.world_perms & perm != 0 || self.is_super || self.may_by_identity(settings, acl, perm)
    }

    fn may_by_identity(&self, settings: &SchemeSettings, acl: &AclList, perm: i32) -> bool {
        acl.entries.iter().filter(|entry| entry.perms & perm != 0).any(|entry| {
            let mut same_scheme = self.list.iter().filter(|identity| *identity.scheme == *entry.scheme);
            let scheme = find_enabled(&entry.scheme, settings);
            scheme.is_some_and(|scheme| same_scheme.any(|identity| (scheme.matches)(settings, &identity.id, &entry.id)))
        })
    }
}

/// The result of an auth packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// The packet is accepted, and proves these identities.
    Proven(Vec<Identity>),
    /// Authentication failed: the client gets an error, and the connection is closed.
    Failed,
    /// The client names its ensemble.
    Ensemble(EnsembleName),
}

impl AuthOutcome {
    /// The identities of an accepted packet.
    pub fn proven(self) -> Option<Vec<Identity>> {
        match self {
            Self::Proven(identities) => Some(identities),
            Self::Ensemble(EnsembleName::Matches | EnsembleName::Unnamed) => Some(Vec::new()),
            Self::Failed | Self::Ensemble(EnsembleName::Differs) => None,
        }
    }
}

/// Whether an identity has the name of the super user. A client that proves it without being the super user has sent a
/// wrong password.
pub fn names_super_user(settings: &SchemeSettings, identity: &Identity) -> bool {
    identity.scheme == "digest" && settings.super_digest.as_ref().is_some_and(|digest| digest.names(&identity.id))
}

/// What a server thinks of the ensemble name that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsembleName {
    Matches,
    /// The client, or this server, names no ensemble.
    Unnamed,
    /// The client looks for another ensemble: the connection is closed without a reply, so that it tries another server.
    Differs,
}

type Authenticate = fn(&State, Option<&[u8]>) -> AuthOutcome;

/// An authentication scheme (Apache's `AuthenticationProvider`).
struct Scheme {
    name: &'static str,
    /// Turns the bytes of an auth packet into identities.
    authenticate: Authenticate,
    /// Whether the id is well-formed in an ACL entry.
    is_valid: fn(&str) -> bool,
    /// Whether a proven id (first) matches the id of an ACL entry (second).
    matches: fn(&SchemeSettings, &str, &str) -> bool,
    /// Whether identities of this scheme replace `auth` entries.
    is_authenticated: bool,
    /// Whether the configuration enables the scheme.
    is_enabled: fn(&SchemeSettings) -> bool,
}

const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "ip",
        authenticate: |_, _| AuthOutcome::Proven(Vec::new()), // every connection has its address already
        is_valid: ip::is_valid,
        matches: |_, proven, entry| ip::matches(proven, entry),
        is_authenticated: false,
        is_enabled: |_| true,
    },
    Scheme {
        name: "digest",
        authenticate: digest::authenticate,
        is_valid: digest::is_valid,
        matches: |_, proven, entry| digest::matches(proven, entry),
        is_authenticated: true,
        is_enabled: |settings| settings.digest,
    },
    Scheme {
        name: "key",
        authenticate: key::authenticate,
        is_valid: |_| true,
        matches: |_, proven, entry| proven == entry,
        is_authenticated: true,
        is_enabled: |settings| settings.key,
    },
    Scheme {
        name: "sasl",
        authenticate: |_, _| AuthOutcome::Failed, // only an exchange of SASL tokens proves an identity
        is_valid: sasl::is_valid,
        matches: sasl::matches,
        is_authenticated: true,
        is_enabled: |settings| settings.sasl,
    },
    Scheme {
        name: "ensemble",
        authenticate: ensemble::authenticate,
        is_valid: |_| false,
        matches: |_, _, _| false,
        is_authenticated: false,
        is_enabled: |settings| settings.ensemble,
    },
    Scheme {
        name: X509_SCHEME,
        authenticate: |_, _| AuthOutcome::Failed, // the identity comes from the TLS handshake, before the first request
        is_valid: x509::is_valid,
        matches: |_, proven, entry| proven == entry,
        is_authenticated: true,
        is_enabled: |settings| settings.x509,
    },
];

/// The scheme of identities that a certificate proves.
pub const X509_SCHEME: &str = "x509";

fn find_enabled(name: &str, settings: &SchemeSettings) -> Option<&'static Scheme> {
    SCHEMES.iter().find(|scheme| scheme.name == name && (scheme.is_enabled)(settings))
}

/// Checks an auth packet.
pub fn authenticate(state: &State, scheme: Option<&str>, auth: Option<&[u8]>) -> AuthOutcome {
    let scheme = scheme.and_then(|scheme| find_enabled(scheme, &state.options().schemes));
    scheme.map_or(AuthOutcome::Failed, |scheme| (scheme.authenticate)(state, auth))
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
    use crate::TreeOptions;
    use ox_proto::Acl;

    fn identities(users: &[&[u8]], options: &TreeOptions) -> Identities {
        let state = State::new(options.clone());
        let mut identities = Identities::of_address("127.0.0.1".parse().unwrap());
        for user in users {
            identities.add(authenticate(&state, Some("digest"), Some(user)).proven().unwrap());
        }
        identities
    }

    fn options(schemes: SchemeSettings) -> TreeOptions {
        TreeOptions { schemes, ..TreeOptions::default() }
    }

    #[test]
    fn entries_grant_by_scheme_and_bit() {
        let (options, schemes) = (TreeOptions::default(), SchemeSettings::default());
        let bob = identities(&[b"bob:pw"], &options);
        let list = AclList::new(vec![
            Acl::new(1, "digest", &digest_id(DigestHash::Sha1, b"bob:pw")),
            Acl::new(2, "ip", "127.0.0.0/8"),
        ]);
        assert!(bob.may(&schemes, &list, 1) && bob.may(&schemes, &list, 2) && !bob.may(&schemes, &list, 4));
        assert!(!identities(&[b"bob:other"], &options).may(&schemes, &list, 1));
    }

    #[test]
    fn sasl_entries_grant_only_with_the_provider() {
        let mut bob = Identities::of_address("127.0.0.1".parse().unwrap());
        bob.add(vec![Identity { scheme: "sasl".into(), id: "bob".to_owned() }]);
        let list = |id| AclList::new(vec![Acl::new(1, "sasl", id)]);
        let on = SchemeSettings { sasl: true, any_sasl_user: Some("all".to_owned()), ..SchemeSettings::default() };
        assert!(bob.may(&on, &list("bob"), 1) && bob.may(&on, &list("all"), 1) && !bob.may(&on, &list("eve"), 1));
        assert!(!bob.may(&SchemeSettings::default(), &list("bob"), 1));
        assert!(bob.has_scheme("sasl") && !bob.has_scheme("digest"));
    }

    #[test]
    fn super_passes_every_check_with_every_hash() {
        let nothing = AclList::new(vec![Acl::new(0, "world", "anyone")]);
        for (_, hash) in DigestHash::NAMES {
            let super_digest = Some(SuperDigest::new(digest_id(*hash, b"super:secret")));
            let schemes = SchemeSettings { digest_hash: *hash, super_digest, ..SchemeSettings::default() };
            let options = options(schemes.clone());
            assert!(identities(&[b"super:secret"], &options).may(&schemes, &nothing, 31), "{hash:?}");
            assert!(!identities(&[b"super:wrong"], &options).may(&schemes, &nothing, 31), "{hash:?}");
        }
    }

    #[test]
    fn unknown_and_disabled_schemes_fail() {
        let off = State::new(options(SchemeSettings { digest: false, ..SchemeSettings::default() }));
        let default = State::new(TreeOptions::default());
        let sasl = State::new(options(SchemeSettings { sasl: true, ..SchemeSettings::default() }));
        assert_eq!(authenticate(&off, Some("digest"), Some(b"a:b")), AuthOutcome::Failed);
        assert_eq!(authenticate(&sasl, Some("sasl"), Some(b"")), AuthOutcome::Failed);
        for scheme in ["sasl", "key", "super", "x509", "ensemble", "world", "auth"] {
            assert_eq!(authenticate(&default, Some(scheme), Some(b"")), AuthOutcome::Failed, "{scheme}");
        }
        assert_eq!(authenticate(&default, None, Some(b"")), AuthOutcome::Failed);
        assert_eq!(authenticate(&default, Some("digest"), None), AuthOutcome::Failed);
        assert_eq!(authenticate(&default, Some("ip"), None), AuthOutcome::Proven(vec![]));
    }
}
