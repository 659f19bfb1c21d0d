//! The one function that changes the state: a transaction in, counters, sets, digest and events out.
//!
//! It is total. A record re-executes a write that succeeded when it was logged, perhaps over a tree that already
//! contains part of the future (a fuzzy snapshot); the rules here make the outcome the same as without. What does
//! not fit the tree is skipped or overrules it, and reported as a conflict.

use crate::State;
use crate::index::PathHash;
use crate::node::{CONTAINER_OWNER, Node, NodeId, ttl_owner};
use crate::ops::signed;
use crate::outbox::{Event, Outboxes};
use crate::path;
use crate::pending::Hints;
use crate::quota::{self, Figures};
use crate::tree::{NewNode, fresh_stat};
use crate::watch::Table;
use ox_proto::event::EventType;
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{OpCode, RawAcls, Stat, Zxid};

/// What a transaction did, as far as its answer needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing to show, or nothing was done.
    Nothing,
    /// The node as it is right after.
    Stat(Stat),
    /// Each element of a multi.
    Multi(Vec<Applied>),
}

/// How a transaction met the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For the answer.
    pub applied: Applied,
    /// The tree was not what the transaction had been made for; expected only over a fuzzy snapshot.
    pub conflict: bool,
    /// The transaction carries another digest than the tree has now.
    pub digest_differs: bool,
}

/// One application in progress.
struct Applying<'s> {
    state: &'s mut State,
    hints: &'s mut Hints,
    outboxes: Option<&'s mut Outboxes>,
    zxid: Zxid,
    time_ms: i64,
    conflict: bool,
}

impl State {
    /// Applies a committed transaction and leaves events in the outboxes.
    pub fn apply(&mut self, record: &Record<'_>, hints: &mut Hints, outboxes: &mut Outboxes) -> Outcome {
        self.apply_to(record, hints, Some(outboxes))
    }

    /// Applies a transaction from the log, when nobody is watching.
    pub fn replay(&mut self, record: &Record<'_>) -> Outcome {
        self.apply_to(record, &mut Hints::default(), None)
    }

    fn apply_to(&mut self, record: &Record<'_>, hints: &mut Hints, outboxes: Option<&mut Outboxes>) -> Outcome {
        let header = &record.header;
        let (zxid, time_ms) = (header.zxid, header.time_ms);
        let mut applying = Applying { state: self, hints, outboxes, zxid, time_ms, conflict: false };
        let applied = applying.txn(header, &record.txn);
        let conflict = applying.conflict;
        self.last_zxid = self.last_zxid.max(zxid);
        self.note_digest();
        let comparable = |digest: &ox_proto::txn::TxnDigest| digest.version == ox_proto::txn::DIGEST_VERSION;
        let digest_differs = self.tree.digest_enabled()
            && record.digest.filter(comparable).is_some_and(|digest| digest.tree_digest != self.digest());
        Outcome { applied, conflict, digest_differs }
    }

    /// Removes the ephemeral nodes of sessions that do not exist, as a standalone server does when it starts.
    /// Returns how many there were.
    pub fn remove_dead_sessions_nodes(&mut self) -> usize {
        let dead: Vec<_> = self.dead_owners().collect();
        let zxid = self.last_zxid;
        let mut removed = 0;
        for session in dead {
            let paths: Vec<String> = self.ephemerals_of(session).collect();
            removed += paths.len();
            let hints = &mut Hints::default();
            let mut applying = Applying { state: self, hints, outboxes: None, zxid, time_ms: 0, conflict: false };
            paths.iter().for_each(|path| applying.delete(path));
        }
        removed
    }
}

impl Applying<'_> {
    /// Finds the node that is changed next, first where it was when the transaction was prepared.
    fn find(&mut self, hash: PathHash, node_path: &str) -> Option<NodeId> {
        let hint = self.hints.next(hash).filter(|id| self.state.tree.is_still(*id, node_path));
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
                left.sort_unstable(); // ids differ between servers; events and quotas must not
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
            // What Apache dies on: a TTL that is none makes a plain node.
            CreateKind::Ttl { ttl_ms } if ttl_ms < 0 => 0,
            CreateKind::Ttl { ttl_ms } => ttl_owner(ttl_ms),
        };
        let acl = self.state.acls.take(txn.acl);
        let node = Node::new(name, txn.data, acl, &fresh_stat(self.zxid, self.time_ms, owner));
        let zxid = self.zxid;
        let raise = |parent: &mut Node| {
            // Compat: records of 3.3 and older do not carry the counter.
            let cversion =
                if txn.parent_cversion == -1 { parent.cversion.wrapping_add(1) } else { txn.parent_cversion };
            if parent.cversion < cversion {
                parent.cversion = cversion;
                parent.pzxid = zxid;
            }
        };
        let id = self.state.tree.link(parent, NewNode { path: node_path, hash, node }, Some(raise));
        self.state.register(id, owner);
        self.count_in_quota(parent_path, name, node_path, txn.data.map_or(0, <[u8]>::len));
        self.fire_created(id, parent, node_path, parent_path);
        Applied::Stat(self.state.stat_of(id))
    }

    fn count_in_quota(&mut self, parent_path: &str, name: &str, node_path: &str, bytes: usize) {
        if let Some(subject) = quota::subject(parent_path) {
            match name {
                quota::LIMITS => self.state.quotas.add(subject),
                quota::STATS => self.state.recount_quota(subject),
                _ => (),
            }
        }
        self.state.adjust_quota(node_path, 1, signed(bytes));
    }

    /// Deletes a node and, where the tree is ahead of the log, what came below it since.
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

    /// Removes a node and everything below it, children first, and raises its parent's pzxid.
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
            && let Some(subject) = quota::subject(parent_path)
        {
            self.state.quotas.remove(subject);
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
        self.fire(Table::Data, EventType::NodeDataChanged, id, path::external(node_path));
        Applied::Stat(self.state.stat_of(id))
    }

    fn set_acl(&mut self, node_path: &str, acl: RawAcls<'_>, version: i32) -> Applied {
        let Some(id) = self.find_path(node_path) else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let new = self.state.acls.take(acl);
        let old = self.state.tree.set_acl(id, new);
        self.state.acls.release(old);
        self.state.tree.update(id, |node| node.aversion = version);
        Applied::Stat(self.state.stat_of(id))
    }

    fn fire(&mut self, table: Table, kind: EventType, id: NodeId, client_path: &str) {
        if self.outboxes.is_some() && !self.state.watches_mut().is_empty() {
            let mut found = Vec::new(); // allocates only when somebody is found
            self.state.watches_mut().collect(table, client_path, &mut found);
            if !found.is_empty() {
                let readers = self.state.readers(self.state.tree.get(id).acl);
                self.send(&found, kind, client_path, readers);
            }
        }
    }

    fn send(
        &mut self,
        to: &[crate::ConnId],
        kind: EventType,
        path: &str,
        readers: Option<std::sync::Arc<crate::AclList>>,
    ) {
        if let (Some(outboxes), false) = (&mut self.outboxes, to.is_empty()) {
            self.state.fired.note(kind, to.len());
            outboxes.event(to, Event { zxid: self.zxid, kind, path, readers });
        }
    }

    fn fire_created(&mut self, id: NodeId, parent: NodeId, node_path: &str, parent_path: &str) {
        self.fire(Table::Data, EventType::NodeCreated, id, node_path);
        self.fire(Table::Child, EventType::NodeChildrenChanged, parent, path::external(parent_path));
    }

    /// The node's own watchers hear of it once, whichever table they are in.
    fn fire_deleted(
        &mut self,
        readers: Option<std::sync::Arc<crate::AclList>>,
        parent: NodeId,
        node_path: &str,
        parent_path: &str,
    ) {
        if self.outboxes.is_none() || self.state.watches_mut().is_empty() {
            return;
        }
        let (mut told, mut also) = (Vec::new(), Vec::new());
        self.state.watches_mut().collect(Table::Data, node_path, &mut told);
        self.state.watches_mut().collect(Table::Child, node_path, &mut also);
        also.retain(|conn| told.binary_search(conn).is_err()); // both are sorted
        self.send(&told, EventType::NodeDeleted, node_path, readers.clone());
        self.send(&also, EventType::NodeDeleted, node_path, readers);
        self.fire(Table::Child, EventType::NodeChildrenChanged, parent, path::external(parent_path));
    }
}

impl State {
    /// Counts the subtree of `subject` anew and writes the result into its stats node.
    pub(crate) fn recount_quota(&mut self, subject: &str) {
        let (mut count, mut bytes) = (0, 0);
        if let Some(top) = self.tree.find(subject) {
            for id in self.tree.subtree(top) {
                count += 1;
                bytes += signed(self.tree.get(id).data_length());
            }
        }
        self.write_quota(subject, &Figures::usage(count, bytes));
    }

    fn write_quota(&mut self, subject: &str, usage: &Figures) {
        let stats_path = format!("{}{subject}/{}", path::QUOTA, quota::STATS);
        if let Some(id) = self.tree.find(&stats_path) {
            self.tree.set_data(id, &stats_path, Some(usage.to_text().as_bytes()), |_| ());
        }
    }

    fn adjust_quota(&mut self, node_path: &str, count: i64, bytes: i64) {
        let Some(subject) = self.quotas.over(node_path) else { return };
        match self.quota_figures(subject, quota::STATS) {
            Some(Ok(mut usage)) => {
                usage.add(count, bytes);
                self.write_quota(subject, &usage);
            }
            Some(Err(_)) => self.recount_quota(subject),
            None => (),
        }
    }

    /// The figures of a quota's limits or stats node; `None` when there is no such node.
    pub(crate) fn quota_figures(&self, subject: &str, name: &str) -> Option<Result<Figures, quota::Unparsable>> {
        let id = self.tree.find(&format!("{}{subject}/{name}", path::QUOTA))?;
        Some(Figures::parse(self.tree.get(id).data()))
    }
}
