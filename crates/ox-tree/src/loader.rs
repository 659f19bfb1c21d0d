//! Builds a state from a snapshot.
//!
//! Nothing of a snapshot is believed: parents must come first, paths and lists must be there. A node whose list is
//! missing from the table (fuzzy snapshots of Apache) is closed to everybody but super until the log says better.

use crate::acl_table::AclTable;
use crate::index::Crowd;
use crate::node::{AclId, Node, NodeId};
use crate::quota;
use crate::tree::NewNode;
use crate::{Options, State, path};
use ox_proto::acl::put_acls;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, RawAcls, SessionId, Zxid};
use std::collections::BTreeMap;

/// Why a snapshot is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A node stands before its parent, or its path has none.
    #[error("node {0:?} comes without its parent")]
    NoParent(String),
    /// A path occurs twice.
    #[error("node {0:?} occurs twice")]
    Twice(String),
    /// A name is empty or longer than any path can be.
    #[error("node name of {0} bytes")]
    BadName(usize),
    /// The list of an id is null.
    #[error("access control list {0} is null")]
    NullAcl(i64),
    /// The first node is not the root, or there is none.
    #[error("the root is missing")]
    NoRoot,
}

/// A state in the making.
#[derive(Debug)]
pub struct Loader {
    state: State,
    /// Ids of the file; each entry holds one use, so that lists stay while nodes are still coming.
    acls: BTreeMap<i64, AclId>,
    closed: AclId,
    /// Nodes whose list was not in the table.
    unresolved: Vec<String>,
    has_root: bool,
    /// The last node and those above it, with the lengths of their paths: the next node's parent is among them.
    line: Vec<(NodeId, usize)>,
    last_path: String,
    /// Nodes to be indexed together.
    unseen: Crowd,
    unseen_count: usize,
}

/// Nodes indexed together: enough that each shard of the index gets many.
const UNSEEN_MAX: usize = 1 << 18;

impl Loader {
    /// An empty loader.
    pub fn new(options: Options) -> Self {
        let mut state = State::with_root(options);
        let mut bytes = Vec::new();
        put_acls(&mut bytes, &[Acl::new(0, "world", "anyone")]);
        let closed = state.acls.take(RawAcls::from_encoded(&bytes).expect("just encoded"));
        Self {
            state,
            acls: BTreeMap::new(),
            closed,
            unresolved: Vec::new(),
            has_root: false,
            line: vec![(NodeId::ROOT, 0)],
            last_path: String::new(),
            unseen: Crowd::new(),
            unseen_count: 0,
        }
    }

    /// Adds a session.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.state.open_session(id, timeout_ms);
    }

    /// Adds a list under the id the file gives it.
    pub fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), LoadError> {
        if acls.is_null() {
            return Err(LoadError::NullAcl(id));
        }
        let taken = self.state.acls.take(acls);
        if let Some(old) = self.acls.insert(id, taken) {
            self.state.acls.release(old);
        }
        Ok(())
    }

    /// Adds a node; its parent must have come before, the root first of all.
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
        let id = self.state.tree.link_unseen(parent, new, &mut self.unseen);
        self.unseen_count += 1;
        if UNSEEN_MAX <= self.unseen_count {
            self.index()?;
        }
        self.state.register(id, stat.ephemeral_owner);
        self.line.push((id, node_path.len()));
        node_path.clone_into(&mut self.last_path);
        Ok(())
    }

    fn root(&mut self, data: Option<&[u8]>, acl: AclId, stat: StatPersisted) -> Result<(), LoadError> {
        if std::mem::replace(&mut self.has_root, true) {
            return Err(LoadError::Twice(String::new()));
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

    /// Pre-order means that the parent is the last node or one above it.
    fn parent(&mut self, parent_path: &str) -> Result<Option<NodeId>, LoadError> {
        while let Some(&(id, length)) = self.line.last() {
            if length == parent_path.len() && self.last_path.get(..length) == Some(parent_path) {
                return Ok(Some(id));
            }
            if self.line.len() == 1 {
                break;
            }
            self.line.pop();
        }
        self.index()?;
        Ok(self.state.tree.find(parent_path))
    }

    /// Lets all nodes be found that have come so far.
    fn index(&mut self) -> Result<(), LoadError> {
        self.unseen_count = 0;
        let indexed = self.state.tree.index(&mut self.unseen);
        indexed.map_err(|id| LoadError::Twice(self.state.tree.path_of(id)))
    }

    /// Takes the paths of the nodes whose list was not in the table. They are closed until the log says more; see
    /// [`State::is_closed`].
    pub fn take_unresolved(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unresolved)
    }

    /// The loaded state, with its quotas counted anew.
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
            let subject = path::split(&limit).and_then(|(parent, _)| quota::subject(parent)).unwrap_or_default();
            if !subject.is_empty() {
                self.quotas.add(subject);
                self.recount_quota(subject);
            }
        }
    }
}
