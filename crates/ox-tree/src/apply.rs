//! Applying transactions: the only code that changes the state.
//!
//! Applying never fails. A record repeats a write that succeeded when it was logged, perhaps over a tree that already
//! contains later changes (a fuzzy snapshot); the rules in this module make the result the same as without them. A
//! change that does not fit the tree is skipped or overrides the tree, and is reported as a conflict.

use crate::index::PathHash;
use crate::node::{CONTAINER_OWNER, Node, NodeId, ttl_owner};
use crate::ops::signed;
use crate::path;
use crate::pending::NodeHints;
use crate::quota::{self, StatsTrack};
use crate::tree::{NewNode, fresh_stat};
use crate::watch::{Event, EventSink, WatchKind, WatcherId};
use crate::{AclList, State};
use ox_proto::event::EventType;
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{OpCode, RawAcls, Stat, Zxid};
use std::convert::Infallible;
use std::sync::Arc;

/// The result of a transaction, as far as the reply needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The reply has no body, or the transaction changed nothing.
    Nothing,
    /// The node's Stat after the change.
    Stat(Stat),
    /// The results of the elements of a multi.
    Multi(Vec<Applied>),
}

/// The result of a transaction, and how well it matched the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyOutcome {
    pub applied: Applied,
    /// The tree was not in the state that the transaction was prepared for. Expected over a fuzzy snapshot only.
    pub conflict: bool,
    /// The transaction carries a digest that differs from the tree's.
    pub digest_differs: bool,
}

/// The application of one transaction.
struct Applier<'s, E> {
    state: &'s mut State,
    hints: &'s mut NodeHints,
    /// Watches fire only if there is a sink.
    events: Option<&'s mut E>,
    zxid: Zxid,
    time_ms: i64,
    conflict: bool,
}

impl State {
    /// Applies a committed transaction and passes the events of its watches to `events`.
    pub fn apply(&mut self, record: &Record<'_>, hints: &mut NodeHints, events: &mut impl EventSink) -> ApplyOutcome {
        self.apply_to(record, hints, Some(events))
    }

    /// Applies a transaction from the log, without watches.
    pub fn replay(&mut self, record: &Record<'_>) -> ApplyOutcome {
        self.apply_to(record, &mut NodeHints::default(), None::<&mut Infallible>)
    }

    fn apply_to(
        &mut self,
        record: &Record<'_>,
        hints: &mut NodeHints,
        events: Option<&mut impl EventSink>,
    ) -> ApplyOutcome {
        let header = &record.header;
        let (zxid, time_ms) = (header.zxid, header.time_ms);
        let mut applier = Applier { state: self, hints, events, zxid, time_ms, conflict: false };
        let applied = applier.txn(header, &record.txn);
        let conflict = applier.conflict;
        self.last_zxid = self.last_zxid.max(zxid);
        self.note_digest();
        let comparable = |digest: &ox_proto::txn::TxnDigest| digest.version == ox_proto::txn::DIGEST_VERSION;
        let digest_differs = self.tree.digest_enabled()
            && record.digest.filter(comparable).is_some_and(|digest| digest.tree_digest != self.digest());
        ApplyOutcome { applied, conflict, digest_differs }
    }

    /// Removes the ephemeral nodes of sessions that do not exist, as a standalone server does at start. Returns the
    /// number of removed nodes.
    pub fn remove_dead_sessions_nodes(&mut self) -> usize {
        let dead: Vec<_> = self.dead_owners().collect();
        let zxid = self.last_zxid;
        let mut removed = 0;
        for session in dead {
            let paths: Vec<String> = self.ephemerals_of(session).collect();
            removed += paths.len();
            let hints = &mut NodeHints::default();
            let events = None::<&mut Infallible>;
            let mut applier = Applier { state: self, hints, events, zxid, time_ms: 0, conflict: false };
            paths.iter().for_each(|path| applier.delete(path));
        }
        removed
    }
}

impl<E: EventSink> Applier<'_, E> {
    /// Finds the next node to change, first at the position where prepare found it.
    fn find(&mut self, hash: PathHash, node_path: &str) -> Option<NodeId> {
        let hint = self.hints.next(hash).filter(|id| self.state.tree.is_node_at(*id, node_path));
        hint.or_else(|| self.state.tree.find_hashed(hash, node_path))
    }

    fn find_path(&mut self, node_path: &str) -> Option<NodeId> {
        self.find(self.state.tree.hash(node_path), node_path)
    }

    fn txn(&mut self, header: &TxnHeader, txn: &Txn<'_>) -> Applied {
        match txn {
            Txn::CreateSession { timeout_ms } => {
                self.state.open_session(header.session, *timeout_ms);
                Applied::Nothing
            }
            Txn::CloseSession { paths } => {
                for path in paths.iter().flatten() {
                    self.delete(path::internal(path));
                }
                let mut left: Vec<String> = self.state.ephemerals_of(header.session).collect();
                left.sort_unstable(); // node ids differ between servers, but the order of events and quota updates must not
                left.iter().for_each(|path| self.delete(path));
                self.state.sessions.remove(&header.session);
                Applied::Nothing
            }
            Txn::Error { .. } | Txn::Check { .. } => Applied::Nothing,
            Txn::Create(create) => self.create(header, create),
            Txn::Delete { path } | Txn::DeleteContainer { path } => {
                self.delete(path::internal(path));
                Applied::Nothing
            }
            Txn::SetData { path, data, version } | Txn::Reconfig { path, data, version } => {
                self.set_data(path::internal(path), *data, *version)
            }
            Txn::SetAcl { path, acl, version } => self.set_acl(path::internal(path), *acl, *version),
            Txn::Multi(elements) if elements.iter().any(|element| element.kind() == OpCode::Error) => Applied::Nothing,
            Txn::Multi(elements) => Applied::Multi(elements.iter().map(|element| self.txn(header, element)).collect()),
        }
    }

    fn create(&mut self, header: &TxnHeader, txn: &CreateTxn<'_>) -> Applied {
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
        let owner = match txn.kind {
            CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } => {
                if ephemeral {
                    header.session.0
                } else {
                    0
                }
            }
            CreateKind::Container => CONTAINER_OWNER,
            // A negative TTL, which Apache cannot apply, makes a persistent node.
            CreateKind::Ttl { ttl_ms } if ttl_ms < 0 => 0,
            CreateKind::Ttl { ttl_ms } => ttl_owner(ttl_ms),
        };
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
        self.fire_created(id, parent, node_path, parent_path);
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

    /// Deletes a node. If the tree is ahead of the log, children that were created later are deleted with it.
    fn delete(&mut self, node_path: &str) {
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
    fn remove(&mut self, top: NodeId, top_path: &str, hash: PathHash, pzxid: Zxid) {
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

    fn set_data(&mut self, node_path: &str, data: Option<&[u8]>, version: i32) -> Applied {
        let Some(id) = self.find_path(node_path) else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let (zxid, time_ms) = (self.zxid, self.time_ms);
        let before = self.state.tree.get(id).data_length();
        self.state.tree.set_data(id, node_path, data, |node| {
            node.version = version;
            node.mzxid = zxid;
            node.mtime = time_ms;
        });
        self.state.adjust_quota(node_path, 0, signed(data.map_or(0, <[u8]>::len)) - signed(before));
        self.fire(WatchKind::Data, EventType::NodeDataChanged, id, path::external(node_path));
        Applied::Stat(self.state.stat_of(id))
    }

    fn set_acl(&mut self, node_path: &str, acl: RawAcls<'_>, version: i32) -> Applied {
        let Some(id) = self.find_path(node_path) else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let new = self.state.acls.intern(acl);
        let old = self.state.tree.set_acl(id, new);
        self.state.acls.release(old);
        self.state.tree.update(id, |node| node.aversion = version);
        Applied::Stat(self.state.stat_of(id))
    }

    fn fire(&mut self, watch_kind: WatchKind, kind: EventType, id: NodeId, client_path: &str) {
        if self.events.is_some() && !self.state.watches_mut().is_empty() {
            let mut found = Vec::new(); // allocates only if there is a watcher
            self.state.watches_mut().collect(watch_kind, client_path, &mut found);
            if !found.is_empty() {
                let readers = self.state.readers(self.state.tree.get(id).acl);
                self.send(&found, kind, client_path, readers);
            }
        }
    }

    fn send(&mut self, to: &[WatcherId], kind: EventType, path: &str, readers: Option<Arc<AclList>>) {
        if let (Some(events), false) = (&mut self.events, to.is_empty()) {
            self.state.fired.record(kind, to.len());
            events.event(to, &Event { zxid: self.zxid, kind, path, readers });
        }
    }

    fn fire_created(&mut self, id: NodeId, parent: NodeId, node_path: &str, parent_path: &str) {
        self.fire(WatchKind::Data, EventType::NodeCreated, id, node_path);
        self.fire(WatchKind::Child, EventType::NodeChildrenChanged, parent, path::external(parent_path));
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

impl State {
    /// Recounts the subtree of a quota and writes the result into its stats node.
    pub(crate) fn recount_quota(&mut self, quota_path: &str) {
        let (mut count, mut bytes) = (0, 0);
        if let Some(top) = self.tree.find(quota_path) {
            for id in self.tree.subtree(top) {
                count += 1;
                bytes += signed(self.tree.get(id).data_length());
            }
        }
        self.write_quota(quota_path, &StatsTrack::usage(count, bytes));
    }

    fn write_quota(&mut self, quota_path: &str, usage: &StatsTrack) {
        let stats_path = format!("{}{quota_path}/{}", path::QUOTA, quota::STATS);
        if let Some(id) = self.tree.find(&stats_path) {
            self.tree.set_data(id, &stats_path, Some(usage.to_text().as_bytes()), |_| ());
        }
    }

    fn adjust_quota(&mut self, node_path: &str, count: i64, bytes: i64) {
        let Some(quota_path) = self.quotas.find_covering(node_path) else { return };
        match self.quota_track(quota_path, quota::STATS) {
            Some(Ok(mut usage)) => {
                usage.add(count, bytes);
                self.write_quota(quota_path, &usage);
            }
            Some(Err(_)) => self.recount_quota(quota_path),
            None => (),
        }
    }

    /// The parsed limits or stats node of a quota; `None` if the node does not exist.
    pub(crate) fn quota_track(
        &self,
        quota_path: &str,
        name: &str,
    ) -> Option<Result<StatsTrack, quota::MalformedQuota>> {
        let id = self.tree.find(&format!("{}{quota_path}/{name}", path::QUOTA))?;
        Some(StatsTrack::parse(self.tree.get(id).data()))
    }
}
