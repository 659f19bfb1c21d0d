//! delete, and the deletion of containers and TTL nodes by the server.

use super::{ErrorCode, check_version};
use crate::node::Kind;
use crate::path;
use crate::pending::{PendingNode, PendingView};
use crate::quota;
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
    let path = request.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
    let parent_path = check_path(path)?;
    let parent = view.existing(parent_path)?;
    view.check_acl(&parent, perms::DELETE)?;
    let node = view.existing(path)?;
    check_version(request.version, node.stat.version)?;
    if 0 < node.children {
        return Err(ErrorCode::NotEmpty);
    }
    // Apache crashes when it applies the deletion of such a limits node (K72).
    if quota::removal_crashes_apache(path) {
        return Err(ErrorCode::BadArguments);
    }
    remove(view, &node, Some(parent));
    let txn = Txn::Delete { path: Cow::Borrowed(path) };
    txn.put(out);
    Ok(txn.kind())
}

/// `never_used_ms` is the time for which a container that never had a child is kept, 0 for no limit.
pub(super) fn prepare_container(
    view: &mut PendingView<'_>,
    path: &str,
    never_used_ms: i64,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    let parent_path = check_path(path)?;
    let node = view.existing(path)?;
    if 0 < node.children {
        return Err(ErrorCode::NotEmpty);
    }
    if node.stat.ephemeral_owner == 0 || view.state.is_ephemeral(node.stat.ephemeral_owner) {
        return Err(ErrorCode::BadVersion);
    }
    // A node that was changed or recreated after it was found expired has its full time again. Apache deletes it.
    let idle_ms = view.time_ms.saturating_sub(node.stat.mtime);
    let is_fresh = match view.state.kind(node.stat.ephemeral_owner) {
        Kind::Ttl(ttl_ms) => idle_ms <= ttl_ms,
        Kind::Container => node.stat.cversion == 0 && (never_used_ms == 0 || idle_ms <= never_used_ms),
        Kind::Persistent | Kind::Ephemeral(_) => false,
    };
    if is_fresh {
        return Err(ErrorCode::BadVersion);
    }
    let parent = view.node(parent_path);
    remove(view, &node, parent);
    let txn = Txn::DeleteContainer { path: Cow::Borrowed(path) };
    txn.put(out);
    Ok(txn.kind())
}

/// The parent of a path that clients may delete.
fn check_path(path: &str) -> Result<&str, ErrorCode> {
    let (parent, _) = path::check_splittable(path)?;
    let parent = path::internal(parent);
    match path {
        path::ROOT | path::SYSTEM | path::QUOTA | path::CONFIG => Err(ErrorCode::BadArguments),
        _ => Ok(parent),
    }
}

/// Records the deletion of the node and the change of its parent's counters.
pub(super) fn remove(view: &mut PendingView<'_>, node: &PendingNode, parent: Option<PendingNode>) {
    view.delete(node);
    if let Some(mut parent) = parent {
        parent.children -= 1;
        parent.stat.pzxid = parent.stat.pzxid.max(view.zxid);
        view.change(parent);
    }
}
