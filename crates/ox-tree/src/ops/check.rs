//! check: a version that a multi depends on.

use super::{ErrorCode, check_version};
use crate::path;
use crate::pending::PendingView;
use ox_proto::OpCode;
use ox_proto::acl::perms;
use ox_proto::request::PathVersion;
use ox_proto::txn::Txn;
use std::borrow::Cow;

pub(super) fn prepare(
    view: &mut PendingView<'_>,
    request: &PathVersion<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    view.check_session()?;
    let path = request.path.as_deref().ok_or(ErrorCode::BadArguments)?;
    path::validate(path)?;
    let node = view.existing(path::internal(path))?;
    view.check_acl(&node, perms::READ)?;
    check_version(request.version, node.stat.version)?;
    // Compat: Apache writes the current version plus one.
    let txn = Txn::Check { path: Cow::Borrowed(path), version: node.stat.version.wrapping_add(1) };
    txn.put(out);
    Ok(txn.kind())
}
