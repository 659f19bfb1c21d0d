//! Building a state from a snapshot.
//!
//! The contents of a snapshot are validated: parents must precede their children, paths must be well-formed and unique.
//! A node whose ACL is missing from the table, which happens in fuzzy snapshots of Apache, is accessible to super only
//! until the log sets its ACL.

use crate::acl_table::AclTable;
use crate::index::Unindexed;
use crate::node::{AclId, Node, NodeId};
use crate::quota;
use crate::tree::NewNode;
use crate::{State, TreeOptions, path};
use ox_proto::acl::put_acls;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, RawAcls, SessionId, Zxid};
use std::collections::BTreeMap;

/// Why a snapshot was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A node precedes its parent, or its path contains no slash.
    #[error("node {0:?} has no parent")]
    NoParent(String),
    #[error("node {0:?} occurs twice")]
    Duplicate(String),
    /// The name is empty or longer than any path can be.
    #[error("node name of {0} bytes")]
    BadName(usize),
    #[error("access control list {0} is null")]
    NullAcl(i64),
    /// The first node is not the root, or the snapshot has no nodes.
    #[error("the root is missing")]
    NoRoot,
}

/// A partially loaded state.
#[derive(Debug)]
pub struct Loader {
    state: State,
    /// By the ids of the snapshot. Each entry holds one reference, so that lists stay until all nodes are loaded.
    acls: BTreeMap<i64, AclId>,
    closed: AclId,
    /// Paths of nodes whose ACL was not in the table.
    unresolved: Vec<String>,
    has_root: bool,
    /// The last node and its ancestors, with the lengths of their paths. The parent of the next node is usually among
    /// them.
    ancestry: Vec<(NodeId, usize)>,
    last_path: String,
    /// Nodes to be indexed in one batch.
    unindexed: Unindexed,
    unindexed_count: usize,
}

/// The number of nodes indexed in one batch: large enough that each shard of the index receives many.
const INDEX_BATCH: usize = 1 << 18;

impl Loader {
    pub fn new(options: TreeOptions) -> Self {
        let mut state = State::with_root(options);
        let mut bytes = Vec::new();
        put_acls(&mut bytes, &[Acl::new(0, "world", "anyone")]);
        let closed = state.acls.intern(RawAcls::from_encoded(&bytes).expect("just encoded"));
        Self {
            state,
            acls: BTreeMap::new(),
            closed,
            unresolved: Vec::new(),
            has_root: false,
            ancestry: vec![(NodeId::ROOT, 0)],
            last_path: String::new(),
            unindexed: Unindexed::new(),
            unindexed_count: 0,
        }
    }

    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.state.open_session(id, timeout_ms);
    }

    /// Adds a list under its id in the snapshot.
    pub fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), LoadError> {
        if acls.is_null() {
            return Err(LoadError::NullAcl(id));
        }
        let taken = self.state.acls.intern(acls);
        if let Some(old) = self.acls.insert(id, taken) {
            self.state.acls.release(old);
        }
        Ok(())
    }

    /// Adds a node. The root must be first, and a parent must precede its children.
    pub fn node(
        &mut self,
        node_path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let acl = self.resolve(node_path, acl);
        if node_path.is_empty() {
            return self.root(data, acl, stat);
        }
        if !self.has_root {
            return Err(LoadError::NoRoot);
        }
        let no_parent = || LoadError::NoParent(node_path.to_owned());
        let (parent_path, name) = path::split(node_path).ok_or_else(no_parent)?;
        if !path::is_name(name) {
            return Err(LoadError::BadName(name.len()));
        }
        let parent = self.parent(parent_path)?.ok_or_else(no_parent)?;
        let new =
            NewNode { path: node_path, hash: self.state.tree.hash(node_path), node: Node::new(name, data, acl, &stat) };
        let id = self.state.tree.link_unindexed(parent, new, &mut self.unindexed);
        self.unindexed_count += 1;
        if INDEX_BATCH <= self.unindexed_count {
            self.index()?;
        }
        self.state.register(id, stat.ephemeral_owner);
        self.ancestry.push((id, node_path.len()));
        node_path.clone_into(&mut self.last_path);
        Ok(())
    }

    fn root(&mut self, data: Option<&[u8]>, acl: AclId, stat: StatPersisted) -> Result<(), LoadError> {
        if std::mem::replace(&mut self.has_root, true) {
            return Err(LoadError::Duplicate(String::new()));
        }
        self.state.tree.set_acl(NodeId::ROOT, acl);
        self.state.tree.set_data(NodeId::ROOT, "", data, |root| root.set_persisted(&stat));
        Ok(())
    }

    fn resolve(&mut self, node_path: &str, disk_id: i64) -> AclId {
        let id = match self.acls.get(&disk_id) {
            Some(id) => *id,
            None if disk_id == -1 => AclTable::NULL,
            None => {
                self.unresolved.push(node_path.to_owned());
                self.closed
            }
        };
        self.state.acls.retain(id);
        id
    }

    // In pre-order, the parent is the last node or one of its ancestors.
    fn parent(&mut self, parent_path: &str) -> Result<Option<NodeId>, LoadError> {
        while let Some(&(id, length)) = self.ancestry.last() {
            if length == parent_path.len() && self.last_path.get(..length) == Some(parent_path) {
                return Ok(Some(id));
            }
            if self.ancestry.len() == 1 {
                break;
            }
            self.ancestry.pop();
        }
        self.index()?;
        Ok(self.state.tree.find(parent_path))
    }

    // Indexes all nodes added so far.
    fn index(&mut self) -> Result<(), LoadError> {
        self.unindexed_count = 0;
        let indexed = self.state.tree.index(&mut self.unindexed);
        indexed.map_err(|id| LoadError::Duplicate(self.state.tree.path_of(id)))
    }

    /// Returns the paths of nodes whose ACL was not in the table. They are closed until the log sets their ACL; see
    /// [`State::is_closed`].
    pub fn take_unresolved(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unresolved)
    }

    /// Completes the state and recounts its quotas.
    pub fn finish(mut self, last_zxid: Zxid) -> Result<State, LoadError> {
        if !self.has_root {
            return Err(LoadError::NoRoot);
        }
        self.index()?;
        for id in self.acls.into_values() {
            self.state.acls.release(id);
        }
        self.state.acls.release(self.closed);
        self.state.last_zxid = last_zxid;
        self.state.activate_quotas();
        Ok(self.state)
    }
}

impl State {
    fn activate_quotas(&mut self) {
        let Some(top) = self.tree.find(path::QUOTA) else { return };
        let limits: Vec<String> = self
            .tree
            .subtree(top)
            .into_iter()
            .filter(|id| self.tree.get(*id).children == 0 && self.tree.get(*id).name() == quota::LIMITS.as_bytes())
            .map(|id| self.tree.path_of(id))
            .collect();
        for limit in limits {
            let quota_path = path::split(&limit).and_then(|(parent, _)| quota::quota_path(parent)).unwrap_or_default();
            if !quota_path.is_empty() {
                self.quotas.add(quota_path);
                self.recount_quota(quota_path);
            }
        }
    }
}
