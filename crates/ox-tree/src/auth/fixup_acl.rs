//! From the ACL that a client sends to the one that is stored (Apache's `fixupACL`).

use super::{Identities, SchemeSettings, find_enabled};
use crate::TreeOptions;
use ox_proto::acl::put_acls;
use ox_proto::{Acl, ErrorCode, RawAcl, RawAcls};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Removes duplicates, expands `auth` entries and validates every entry. Returns the encoding of the stored list.
pub fn fixup_acl<'a>(options: &TreeOptions, ids: &Identities, acls: RawAcls<'a>) -> Result<Cow<'a, [u8]>, ErrorCode> {
    if acls == RawAcls::OPEN {
        return Ok(Cow::Borrowed(acls.bytes()));
    }
    let distinct = without_duplicates(acls)?;
    if distinct.is_empty() {
        return Err(ErrorCode::InvalidAcl);
    }
    let (mut fixed, mut bytes_left) = (Vec::new(), options.record_bytes_max);
    for entry in distinct {
        let scheme = entry.scheme.as_deref().ok_or(ErrorCode::InvalidAcl)?;
        if scheme == "auth" {
            expand_auth(&options.schemes, ids, entry.perms, &mut fixed, &mut bytes_left)?;
            continue;
        }
        // Compat: Apache throws on a null id only where it inspects the id, that is for a scheme that it knows.
        let known = scheme == "world" || find_enabled(scheme, &options.schemes).is_some();
        let id = match entry.id.as_deref() {
            Some(id) => id,
            None if known => return Err(ErrorCode::MarshallingError),
            None => return Err(ErrorCode::InvalidAcl),
        };
        let valid = match scheme {
            "world" => id == "anyone",
            _ => find_enabled(scheme, &options.schemes).is_some_and(|scheme| (scheme.is_valid)(id)),
        };
        if !valid {
            return Err(ErrorCode::InvalidAcl);
        }
        fixed.push(Acl::new(entry.perms, scheme, id));
    }
    let mut encoded = Vec::new();
    put_acls(&mut encoded, &fixed);
    Ok(Cow::Owned(encoded))
}

/// The list without duplicates, in order. Sets instead of pairwise comparison: a list may fill a whole frame.
// Compat: Apache calls `equals` on the new entry, and throws on a null field of it if all fields before are equal.
fn without_duplicates(acls: RawAcls<'_>) -> Result<Vec<RawAcl<'_>>, ErrorCode> {
    let entries: Vec<RawAcl<'_>> = acls.iter().collect();
    let (mut perms, mut schemes, mut whole) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut is_new = Vec::with_capacity(entries.len());
    for RawAcl { perms: bits, scheme, id } in &entries {
        let (scheme, id) = (scheme.as_deref(), id.as_deref());
        let fails = match (scheme, id) {
            (None, _) => perms.contains(bits),
            (Some(_), None) => schemes.contains(&(*bits, scheme)),
            (Some(_), Some(_)) => false,
        };
        if fails {
            return Err(ErrorCode::MarshallingError);
        }
        perms.insert(*bits);
        schemes.insert((*bits, scheme));
        is_new.push(whole.insert((*bits, scheme, id)));
    }
    Ok(entries.into_iter().zip(is_new).filter_map(|(entry, is_new)| is_new.then_some(entry)).collect())
}

/// Replaces an `auth` entry by the connection's identities, within the remaining bytes.
fn expand_auth(
    settings: &SchemeSettings,
    ids: &Identities,
    perms: i32,
    fixed: &mut Vec<Acl>,
    bytes_left: &mut usize,
) -> Result<(), ErrorCode> {
    let scheme = |name: &str| find_enabled(name, settings);
    let authenticated =
        ids.iter().filter(|identity| scheme(&identity.scheme).is_some_and(|scheme| scheme.is_authenticated));
    let before = fixed.len();
    for identity in authenticated {
        *bytes_left = bytes_left.checked_sub(identity.id.len()).ok_or(ErrorCode::MarshallingError)?;
        fixed.push(Acl::new(perms, &identity.scheme, &identity.id));
    }
    if fixed.len() == before { Err(ErrorCode::InvalidAcl) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{DigestHash, Identity, digest_id};

    fn check_with(options: &TreeOptions, acls: &[Acl], expected: Result<&[Acl], ErrorCode>) {
        let mut ids = Identities::of_address("127.0.0.1".parse().unwrap());
        let proven = [("super", ""), ("digest", &digest_id(DigestHash::Sha1, b"bob:pw")), ("sasl", "bob@R")];
        ids.add(proven.map(|(scheme, id)| Identity { scheme: scheme.to_owned().into(), id: id.to_owned() }).into());
        let mut bytes = Vec::new();
        put_acls(&mut bytes, acls);
        let fixed = fixup_acl(options, &ids, RawAcls::from_encoded(&bytes).unwrap());
        let fixed = fixed.map(|bytes| RawAcls::from_encoded(&bytes).unwrap().to_stored());
        assert_eq!(fixed.as_deref(), expected.as_ref().map(|acls| *acls));
    }

    fn check(acls: &[Acl], expected: Result<&[Acl], ErrorCode>) {
        check_with(&TreeOptions::default(), acls, expected);
    }

    #[test]
    fn entries_are_validated_and_auth_expanded() {
        let bob = || Acl::new(3, "digest", &digest_id(DigestHash::Sha1, b"bob:pw"));
        check(&[Acl::new(3, "auth", "x")], Ok(&[bob()]));
        check(&[Acl::new(3, "auth", ""), Acl::new(3, "auth", "y")], Ok(&[bob(), bob()]));
        check(&[bob(), bob(), Acl::new(1, "ip", "10.0.0.0/8")], Ok(&[bob(), Acl::new(1, "ip", "10.0.0.0/8")]));
        check(&[Acl::new(-1, "world", "anyone")], Ok(&[Acl::new(-1, "world", "anyone")]));
        check(&[], Err(ErrorCode::InvalidAcl));
        let invalid =
            [("world", "x"), ("digest", "a"), ("super", ""), ("sasl", "x"), ("ip", "x"), ("x", "y"), ("ensemble", "e")];
        for (scheme, id) in invalid {
            check(&[Acl::new(1, scheme, id)], Err(ErrorCode::InvalidAcl));
        }
    }

    #[test]
    fn configured_schemes_decide_what_auth_expands_to() {
        let options = |schemes| TreeOptions { schemes, ..TreeOptions::default() };
        let on = options(SchemeSettings { digest: false, sasl: true, ensemble: true, ..SchemeSettings::default() });
        check_with(&on, &[Acl::new(3, "auth", "")], Ok(&[Acl::new(3, "sasl", "bob@R")]));
        check_with(&on, &[Acl::new(1, "sasl", "zk/h@R")], Ok(&[Acl::new(1, "sasl", "zk/h@R")]));
        for (scheme, id) in [("sasl", "a@b@c"), ("digest", "a:b"), ("ensemble", "e")] {
            check_with(&on, &[Acl::new(1, scheme, id)], Err(ErrorCode::InvalidAcl));
        }
        let off = options(SchemeSettings { digest: false, ..SchemeSettings::default() });
        check_with(&off, &[Acl::new(3, "auth", "")], Err(ErrorCode::InvalidAcl));
    }
}
