//! setACL: a new ACL for a node.

use super::{ErrorCode, check_version, next_version};
use crate::acl_table::AclList;
use crate::auth::fixup_acl;
use crate::path;
use crate::pending::PendingView;
use ox_proto::acl::perms;
use ox_proto::request::SetAclRequest;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, RawAcls};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) fn prepare(
    view: &mut PendingView<'_>,
    request: &SetAclRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    view.check_session()?;
    let path = request.path.as_deref().ok_or(ErrorCode::BadArguments)?;
    path::validate(path)?;
    let node_path = path::internal(path);
    let acl = fixup_acl(view.state.options(), view.ids, request.acl)?;
    let acl = RawAcls::from_encoded(&acl).map_err(|_| ErrorCode::MarshallingError)?;
    let mut node = view.existing(node_path)?;
    view.check_acl(&node, perms::ADMIN)?;
    check_version(request.version, node.stat.aversion)?;
    node.stat.aversion = next_version(node.stat.aversion);
    node.acl = Arc::new(AclList::new(acl.to_stored()));
    let txn = Txn::SetAcl { path: Cow::Borrowed(path), acl, version: node.stat.aversion };
    txn.put(out);
    view.change(node);
    Ok(txn.kind())
}
