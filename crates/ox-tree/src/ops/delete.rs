//! delete, and the deletion of containers and TTL nodes by the server.

use super::{ErrorCode, check_version, signed};
use crate::AclList;
use crate::apply::Applier;
use crate::index::PathHash;
use crate::node::{Kind, NodeId};
use crate::path;
use crate::pending::{PendingNode, PendingView};
use crate::quota;
use crate::watch::{EventSink, WatchKind};
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::request::PathVersion;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;
use std::sync::Arc;

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

impl<E: EventSink> Applier<'_, E> {
    /// Deletes a node. If the tree is ahead of the log, children that were created later are deleted with it.
    pub(crate) fn delete(&mut self, node_path: &str) {
        let Some((parent_path, _)) = path::split(node_path) else {
            self.conflict = true;
            return;
        };
        let (zxid, hash) = (self.zxid, self.state.tree.hash(node_path));
        let found = self.find(hash, node_path);
        let parent = self.find_path(parent_path);
        let (Some(id), Some(parent)) = (found, parent) else {
            self.conflict = true;
            if let Some(parent) = parent {
                self.state.tree.update(parent, |parent| parent.pzxid = parent.pzxid.max(zxid));
            }
            return;
        };
        let node = self.state.tree.get(id);
        self.conflict |= node.children != 0;
        let readers = self.state.readers(node.acl);
        self.remove(id, node_path, hash, zxid);
        self.fire_deleted(readers, parent, node_path, parent_path);
    }

    /// Removes a subtree, children first, and raises the parent's pzxid.
    pub(super) fn remove(&mut self, top: NodeId, top_path: &str, hash: PathHash, pzxid: Zxid) {
        if self.state.tree.get(top).children != 0 {
            for id in self.state.tree.subtree(top).into_iter().skip(1).rev() {
                let node_path = self.state.tree.path_of(id);
                self.remove_one(id, &node_path, self.state.tree.hash(&node_path), pzxid);
            }
        }
        self.remove_one(top, top_path, hash, pzxid);
    }

    fn remove_one(&mut self, id: NodeId, node_path: &str, hash: PathHash, pzxid: Zxid) {
        let node = self.state.tree.unlink(id, node_path, hash, pzxid);
        self.state.unregister(id, node.owner);
        self.state.acls.release(node.acl);
        if let Some((parent_path, quota::LIMITS)) = path::split(node_path)
            && let Some(quota_path) = quota::quota_path(parent_path)
        {
            self.state.quotas.remove(quota_path);
        }
        self.state.adjust_quota(node_path, -1, -signed(node.data_length()));
    }

    /// A watcher of the node in both tables receives one event.
    fn fire_deleted(&mut self, readers: Option<Arc<AclList>>, parent: NodeId, node_path: &str, parent_path: &str) {
        if self.events.is_none() || self.state.watches_mut().is_empty() {
            return;
        }
        let (mut notified, mut also) = (Vec::new(), Vec::new());
        self.state.watches_mut().collect(WatchKind::Data, node_path, &mut notified);
        self.state.watches_mut().collect(WatchKind::Child, node_path, &mut also);
        also.retain(|id| notified.binary_search(id).is_err()); // both are sorted
        self.send(&notified, EventType::NodeDeleted, node_path, readers.clone());
        self.send(&also, EventType::NodeDeleted, node_path, readers);
        self.fire(WatchKind::Child, EventType::NodeChildrenChanged, parent, path::external(parent_path));
    }
}
