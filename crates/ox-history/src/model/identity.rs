//! Identities of a connection, and the permissions that an ACL grants them (client protocol, 7).

use crate::op::RequestedAcl;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ox_proto::acl::RawAcl;
use ox_proto::{Acl, ErrorCode};
use sha1::{Digest as _, Sha1};

/// The identities that a connection has authenticated.
#[derive(Clone, Debug, Default)]
pub struct AuthIds(Vec<(String, String)>);

/// The result of an auth packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticated {
    Yes,
    /// Refused; the connection is closed.
    No,
}

impl AuthIds {
    /// The identities of a new connection from `address`.
    pub fn of_address(address: &str) -> Self {
        Self(vec![("ip".to_owned(), address.to_owned())])
    }

    /// Whether `acl` grants one of the bits of `perm`.
    pub fn may(&self, acl: &[Acl], perm: i32) -> bool {
        if acl.is_empty() || self.0.iter().any(|(scheme, _)| scheme == "super") {
            return true;
        }
        acl.iter().filter(|entry| entry.perms & perm != 0).any(|entry| match &*entry.scheme {
            "world" => &*entry.id == "anyone",
            "ip" => self.0.iter().any(|(scheme, id)| scheme == "ip" && address_matches(id, &entry.id)),
            "digest" => self.0.iter().any(|(scheme, id)| scheme == "digest" && **id == *entry.id),
            _ => false,
        })
    }

    /// The identities that whoAmI returns.
    pub(crate) fn users(&self) -> Vec<(String, String)> {
        let user = |(scheme, id): &(String, String)| {
            let user = if scheme == "digest" { id.split(':').next().unwrap_or_default() } else { id };
            (scheme.clone(), user.to_owned())
        };
        self.0.iter().map(user).collect()
    }

    /// The ACL that a write stores for the requested one.
    pub(crate) fn fixup_acl(&self, requested: &RequestedAcl) -> Result<Vec<Acl>, ErrorCode> {
        let mut stored = Vec::new();
        for entry in distinct(requested.as_deref().unwrap_or_default())? {
            if entry.scheme.as_deref() == Some("auth") {
                let own = self.0.iter().filter(|(scheme, _)| scheme == "digest");
                let before = stored.len();
                stored.extend(own.map(|(scheme, id)| Acl::new(entry.perms, scheme, id)));
                if stored.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            } else {
                stored.push(valid(entry)?);
            }
        }
        if stored.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(stored) }
    }
}

/// The entries without repetitions.
fn distinct<'a>(entries: &'a [RawAcl<'static>]) -> Result<Vec<&'a RawAcl<'static>>, ErrorCode> {
    let mut distinct: Vec<&RawAcl<'static>> = Vec::new();
    for entry in entries {
        for other in distinct.iter().filter(|other| other.perms == entry.perms) {
            // Apache compares the fields of the later entry one after another, and fails at one that is null.
            if entry.scheme.is_none() || (other.scheme == entry.scheme && entry.id.is_none()) {
                return Err(ErrorCode::MarshallingError);
            }
        }
        if !distinct.contains(&entry) {
            distinct.push(entry);
        }
    }
    Ok(distinct)
}

/// Validates an auth packet and adds the identity it authenticates.
pub fn authenticate(ids: &mut AuthIds, super_id: Option<&str>, scheme: &str, auth: &[u8]) -> Authenticated {
    match scheme {
        "ip" => Authenticated::Yes,
        "digest" => {
            let text = String::from_utf8_lossy(auth);
            let user = text.split(':').next().unwrap_or_default();
            let id = format!("{user}:{}", STANDARD.encode(Sha1::digest(text.as_bytes())));
            let mut added = vec![("digest".to_owned(), id.clone())];
            if super_id == Some(&id) {
                added.push(("super".to_owned(), String::new()));
            }
            for identity in added {
                if !ids.0.contains(&identity) {
                    ids.0.push(identity);
                }
            }
            Authenticated::Yes
        }
        _ => Authenticated::No,
    }
}

/// The stored form of an entry of a scheme with ids.
fn valid(entry: &RawAcl<'_>) -> Result<Acl, ErrorCode> {
    let scheme = entry.scheme.as_deref().unwrap_or_default();
    if !matches!(scheme, "world" | "ip" | "digest") {
        return Err(ErrorCode::InvalidAcl);
    }
    let id = entry.id.as_deref().ok_or(ErrorCode::MarshallingError)?;
    let is_valid = match scheme {
        "world" => id == "anyone",
        "ip" => network(id).is_some(),
        _ => id.trim_end_matches(':').split(':').count() == 2,
    };
    if is_valid { Ok(Acl::new(entry.perms, scheme, id)) } else { Err(ErrorCode::InvalidAcl) }
}

/// Address and number of significant bits. IPv4 only: histories have nothing else.
fn network(id: &str) -> Option<(u32, u32)> {
    let (address, bits) = id.split_once('/').unwrap_or((id, "32"));
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    (bits <= 32).then_some((address.to_bits(), bits))
}

fn address_matches(address: &str, entry: &str) -> bool {
    let (Some((address, _)), Some((wanted, bits))) = (network(address), network(entry)) else { return false };
    bits == 0 || (address ^ wanted) >> (32 - bits) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::requested;

    #[test]
    fn acl_grants_by_scheme_and_permission() {
        let mut ids = AuthIds::of_address("10.0.0.7");
        assert_eq!(authenticate(&mut ids, None, "digest", b"bob:pw"), Authenticated::Yes);
        assert_eq!(authenticate(&mut ids, None, "kerberos", b"bob"), Authenticated::No);
        let bob = Acl::new(1, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        assert!(ids.may(std::slice::from_ref(&bob), 1) && !ids.may(std::slice::from_ref(&bob), 2));
        assert!(ids.may(&[Acl::new(2, "ip", "10.0.0.0/8")], 2) && !ids.may(&[Acl::new(2, "ip", "10.0.1.0/24")], 2));
        assert_eq!(ids.fixup_acl(&requested(&[Acl::new(1, "auth", "")])), Ok(vec![bob]));
        assert_eq!(ids.fixup_acl(&Some(Vec::new())), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn super_user_has_all_permissions() {
        let mut ids = AuthIds::default();
        authenticate(&mut ids, Some("super:lK75jTNcA+U9vtVEw5vB51mj/w4="), "digest", b"super:secret");
        assert!(ids.may(&[Acl::new(0, "world", "anyone")], 16));
    }
}
