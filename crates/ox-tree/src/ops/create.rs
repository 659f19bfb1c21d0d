//! create, create2, createContainer and createTTL.

use super::{ErrorCode, put_stat, signed};
use crate::apply::{Applied, Applier};
use crate::auth::fixup_acl;
use crate::node::{CONTAINER_OWNER, Node, TTL_MS_MAX, ttl_owner};
use crate::path;
use crate::pending::{NewPendingNode, PendingView};
use crate::quota;
use crate::tree::{NewNode, fresh_stat};
use crate::watch::{EventSink, WatchKind};
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::jute::put_text;
use ox_proto::request::{CreateRequest, CreateTtlRequest};
use ox_proto::txn::{CreateKind, CreateTxn, Txn};
use ox_proto::{OpCode, RawAcls, SessionId, Zxid};
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
    let owner = owner(new.kind, view.session);
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

/// The owner that a node of this kind stores.
fn owner(kind: CreateKind, session: SessionId) -> i64 {
    match kind {
        CreateKind::Create { ephemeral: true } | CreateKind::Create2 { ephemeral: true } => session.0,
        CreateKind::Create { ephemeral: false } | CreateKind::Create2 { ephemeral: false } => 0,
        CreateKind::Container => CONTAINER_OWNER,
        // A negative TTL, which Apache cannot apply, makes a persistent node.
        CreateKind::Ttl { ttl_ms } if ttl_ms < 0 => 0,
        CreateKind::Ttl { ttl_ms } => ttl_owner(ttl_ms),
    }
}

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn create(&mut self, session: SessionId, txn: &CreateTxn<'_>) -> Applied {
        let node_path = path::internal(&txn.path);
        let found = path::split(node_path)
            .filter(|(_, name)| path::is_name(name))
            .and_then(|(parent_path, name)| Some((parent_path, name, self.find_path(parent_path)?)));
        let Some((parent_path, name, parent)) = found else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let hash = self.state.tree.hash(node_path);
        if let Some(existing) = self.find(hash, node_path) {
            self.conflict = true;
            self.remove(existing, node_path, hash, Zxid(i64::MIN));
        }
        let owner = owner(txn.kind, session);
        let acl = self.state.acls.intern(txn.acl);
        let node = Node::new(name, txn.data, acl, &fresh_stat(self.zxid, self.time_ms, owner));
        let zxid = self.zxid;
        let raise = |parent: &mut Node| {
            // Compat: records of 3.3 and older do not carry the parent's cversion.
            let cversion =
                if txn.parent_cversion == -1 { parent.cversion.wrapping_add(1) } else { txn.parent_cversion };
            if parent.cversion < cversion {
                parent.cversion = cversion;
                parent.pzxid = zxid;
            }
        };
        let id = self.state.tree.link(parent, NewNode { path: node_path, hash, node }, Some(raise));
        self.state.register(id, owner);
        self.update_quota(parent_path, name, node_path, txn.data.map_or(0, <[u8]>::len));
        self.fire(WatchKind::Data, EventType::NodeCreated, id, node_path);
        self.fire(WatchKind::Child, EventType::NodeChildrenChanged, parent, path::external(parent_path));
        Applied::Stat(self.state.stat_of(id))
    }

    fn update_quota(&mut self, parent_path: &str, name: &str, node_path: &str, bytes: usize) {
        if let Some(quota_path) = quota::quota_path(parent_path) {
            match name {
                quota::LIMITS => self.state.quotas.add(quota_path),
                quota::STATS => self.state.recount_quota(quota_path),
                _ => (),
            }
        }
        self.state.adjust_quota(node_path, 1, signed(bytes));
    }
}

/// The reply to create has no Stat.
pub(super) fn put_reply(out: &mut Vec<u8>, txn: &CreateTxn<'_>, applied: &Applied) {
    put_text(out, &txn.path);
    if !matches!(txn.kind, CreateKind::Create { .. }) {
        put_stat(out, applied);
    }
}
