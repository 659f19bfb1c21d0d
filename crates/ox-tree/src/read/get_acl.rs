//! getACL: the ACL of a node, without password hashes for clients that may not change it.

use super::{Requester, may};
use crate::State;
use crate::path;
use ox_proto::acl::{perms, put_acls};
use ox_proto::request::PathRequest;
use ox_proto::{Acl, ErrorCode, Jute};

pub(super) fn put(
    state: &State,
    requester: Requester<'_>,
    request: &PathRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let client_path = request.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
    let id = state.tree.find(path::internal(client_path)).ok_or(ErrorCode::NoNode)?;
    let list = state.acls.get(state.tree.get(id).acl);
    if !may(state, requester, list, perms::READ | perms::ADMIN) {
        return Err(ErrorCode::NoAuth);
    }
    if may(state, requester, list, perms::ADMIN) {
        out.extend_from_slice(list.encoded());
    } else {
        put_acls(out, &list.entries.iter().map(masked).collect::<Vec<_>>());
    }
    state.stat_of(id).put(out);
    Ok(())
}

/// The entry without the password hash of the digest scheme.
fn masked(acl: &Acl) -> Acl {
    match acl.id.split_once(':') {
        Some((user, _)) if &*acl.scheme == "digest" => Acl::new(acl.perms, &acl.scheme, &format!("{user}:x")),
        _ => acl.clone(),
    }
}
