//! create, create2, createContainer and createTTL.

use super::{ErrorCode, signed};
use crate::auth::fixup_acl;
use crate::node::{CONTAINER_OWNER, TTL_MS_MAX, ttl_owner};
use crate::path;
use crate::pending::{NewPendingNode, PendingView};
use crate::quota;
use crate::tree::fresh_stat;
use ox_proto::acl::perms;
use ox_proto::request::{CreateRequest, CreateTtlRequest};
use ox_proto::txn::{CreateKind, CreateTxn, Txn};
use ox_proto::{OpCode, RawAcls};
use std::borrow::Cow;

/// The flags of a create, which are an enumeration, not bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreateMode {
    pub(super) ephemeral: bool,
    pub(super) sequential: bool,
    pub(super) container: bool,
    pub(super) ttl: bool,
}

impl CreateMode {
    pub(super) fn from_flags(flags: i32) -> Option<Self> {
        let (ephemeral, sequential, container, ttl) = match flags {
            0 => (false, false, false, false),
            1 => (true, false, false, false),
            2 => (false, true, false, false),
            3 => (true, true, false, false),
            4 => (false, false, true, false),
            5 => (false, false, false, true),
            6 => (false, true, false, true),
            _ => return None,
        };
        Some(Self { ephemeral, sequential, container, ttl })
    }

    /// The kind of node that a create of type `op` makes. The container flag alone does not make a container.
    pub(super) fn kind(self, op: OpCode) -> CreateKind {
        if op == OpCode::CreateContainer {
            CreateKind::Container
        } else if op == OpCode::Create2 {
            CreateKind::Create2 { ephemeral: self.ephemeral }
        } else {
            CreateKind::Create { ephemeral: self.ephemeral }
        }
    }
}

/// A create request with decoded flags.
pub(super) struct CreateParams<'a> {
    pub(super) path: Option<&'a str>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl: RawAcls<'a>,
    pub(super) sequential: bool,
    /// As in the flags, even if the node will not be ephemeral.
    pub(super) ephemeral: bool,
    pub(super) kind: CreateKind,
}

/// Whether a request creates an ephemeral node and therefore needs a global session.
pub(super) fn creates_ephemeral(op: OpCode, request: &CreateRequest<'_>) -> bool {
    matches!(op, OpCode::Create | OpCode::Create2)
        && CreateMode::from_flags(request.flags).is_some_and(|mode| mode.ephemeral)
}

pub(super) fn prepare(
    view: &mut PendingView<'_>,
    op: OpCode,
    request: &CreateRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.ttl {
        check_ttl_enabled(view)?;
        return Err(ErrorCode::BadArguments); // the request has no ttl field
    }
    let kind = mode.kind(op);
    let CreateRequest { path, data, acl, .. } = request;
    let CreateMode { sequential, ephemeral, .. } = mode;
    create(view, &CreateParams { path: path.as_deref(), data: *data, acl: *acl, sequential, ephemeral, kind }, out)
}

pub(super) fn prepare_ttl(
    view: &mut PendingView<'_>,
    request: &CreateTtlRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
    if !mode.ttl {
        return Err(ErrorCode::BadArguments); // Apache crashes on a negative ttl
    }
    check_ttl_enabled(view)?;
    if !(1..=TTL_MS_MAX).contains(&request.ttl_ms) {
        return Err(ErrorCode::BadArguments);
    }
    let kind = CreateKind::Ttl { ttl_ms: request.ttl_ms };
    let CreateTtlRequest { path, data, acl, .. } = request;
    let CreateMode { sequential, ephemeral, .. } = mode;
    create(view, &CreateParams { path: path.as_deref(), data: *data, acl: *acl, sequential, ephemeral, kind }, out)
}

fn check_ttl_enabled(view: &PendingView<'_>) -> Result<(), ErrorCode> {
    if view.state.options().extended_types { Ok(()) } else { Err(ErrorCode::Unimplemented) }
}

pub(super) fn create(
    view: &mut PendingView<'_>,
    new: &CreateParams<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    if new.ephemeral {
        view.check_ephemerals()?;
    }
    view.check_session()?;
    if new.ephemeral {
        view.check_global_session()?;
    }
    let path = new.path.ok_or(ErrorCode::MarshallingError)?;
    let (parent_path, _) = path::check_splittable(path)?;
    let acl = fixup_acl(view.state.options(), view.ids, new.acl)?;
    let acl = RawAcls::from_encoded(&acl).map_err(|_| ErrorCode::MarshallingError)?;
    let parent_path = path::internal(parent_path); // `//x` has the root as its parent; the path is refused as invalid below
    let mut parent = view.existing(parent_path)?;
    view.check_acl(&parent, perms::CREATE)?;
    let path = match new.sequential {
        true => Cow::Owned(format!("{path}{:010}", parent.sequence)),
        false => Cow::Borrowed(path),
    };
    path::validate(&path)?;
    let node_path = path::internal(&path);
    let hash = view.vacant(node_path)?;
    if view.state.is_ephemeral(parent.stat.ephemeral_owner) {
        return Err(ErrorCode::NoChildrenForEphemerals);
    }
    // Apache crashes on a limits node directly below the quota root, and when certain other nodes are deleted (K72).
    let stays = matches!(new.kind, CreateKind::Create { ephemeral: false } | CreateKind::Create2 { ephemeral: false });
    if (!stays || parent_path == path::QUOTA) && quota::removal_crashes_apache(node_path) {
        return Err(ErrorCode::BadArguments);
    }
    check_quota(view, node_path, 1, signed(new.data.map_or(0, <[u8]>::len)))?;

    let parent_cversion = parent.sequence.wrapping_add(1);
    let owner = match new.kind {
        CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } if ephemeral => view.session.0,
        CreateKind::Create { .. } | CreateKind::Create2 { .. } => 0,
        CreateKind::Container => CONTAINER_OWNER,
        CreateKind::Ttl { ttl_ms } => ttl_owner(ttl_ms),
    };
    let txn =
        Txn::Create(CreateTxn { kind: new.kind, path: Cow::Borrowed(&path), data: new.data, acl, parent_cversion });
    txn.put(out);
    parent.sequence = parent_cversion;
    parent.children += 1;
    if parent.stat.cversion < parent_cversion {
        parent.stat.cversion = parent_cversion;
        parent.stat.pzxid = view.zxid;
    }
    view.change(parent);
    let stat = fresh_stat(view.zxid, view.time_ms, owner);
    view.create(&NewPendingNode { path: node_path, hash, data: new.data, acl }, stat);
    Ok(txn.kind())
}

/// Refuses a write that exceeds a hard limit, and records the last exceeded limit of any kind. As in Apache, the usage
/// is that of the committed stats node.
pub(super) fn check_quota(
    view: &mut PendingView<'_>,
    node_path: &str,
    count: i64,
    bytes: i64,
) -> Result<(), ErrorCode> {
    if !view.state.options().enforce_quota {
        return Ok(());
    }
    let Some(quota_path) = view.state.quotas.find_covering(node_path) else { return Ok(()) };
    let Some(limits) = view.state.quota_track(quota_path, quota::LIMITS) else { return Ok(()) };
    // Compat: malformed text refuses the write, but only where Apache parses it. It parses the usage only if a limit
    // applies to what grows.
    let limits = limits.map_err(|_| ErrorCode::MarshallingError)?;
    if !limits.is_concerned(count, bytes) {
        return Ok(());
    }
    let Some(usage) = view.state.quota_track(quota_path, quota::STATS) else { return Ok(()) };
    let usage = usage.map_err(|_| ErrorCode::MarshallingError)?;
    for over in limits.exceeded(quota_path, &usage, count, bytes).into_iter().flatten() {
        let is_hard = over.is_hard;
        view.note_quota_exceeded(over);
        if is_hard {
            return Err(ErrorCode::QuotaExceeded);
        }
    }
    Ok(())
}
