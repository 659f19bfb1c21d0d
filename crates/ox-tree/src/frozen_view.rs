//! Immutable views of the state at one zxid, for snapshots on disk and on links.
//!
//! Creating a view clones pointers only. Walking it needs no lock and does not slow down writers.

use crate::State;
use crate::acl_table::{AclList, disk_id};
use crate::node::{Node, NodeId};
use crate::slab::FrozenSlab;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, SessionId, Zxid};
use std::sync::Arc;

/// The state at one zxid. It shares memory with the live tree.
#[derive(Debug)]
pub struct FrozenView {
    slab: FrozenSlab,
    acls: Vec<(i64, Arc<AclList>)>,
    sessions: Vec<(SessionId, i32)>,
    last_zxid: Zxid,
    digest: i64,
    nodes: usize,
}

/// A node with the fields that a snapshot stores.
#[derive(Clone, Copy, Debug)]
pub struct FrozenNode<'a> {
    /// The root has the empty path.
    pub path: &'a str,
    pub data: Option<&'a [u8]>,
    /// The id in [`FrozenView::acls`], -1 for the null list.
    pub acl: i64,
    pub stat: StatPersisted,
}

impl FrozenView {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            slab: state.tree.freeze(),
            acls: state.acls.lists(),
            sessions: state.sessions().collect(),
            last_zxid: state.last_zxid(),
            digest: state.digest(),
            nodes: state.tree.len(),
        }
    }

    pub(crate) fn slab(&self) -> &FrozenSlab {
        &self.slab
    }

    /// The last transaction that the view contains.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    pub fn digest(&self) -> i64 {
        self.digest
    }

    /// The number of nodes; the root counts once.
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// Live sessions with the timeouts, in ms, with which they were created.
    pub fn sessions(&self) -> &[(SessionId, i32)] {
        &self.sessions
    }

    /// The lists that nodes refer to, by id.
    pub fn acls(&self) -> impl Iterator<Item = (i64, &[Acl])> {
        self.acls.iter().map(|(id, list)| (*id, &*list.entries))
    }

    pub fn acl_count(&self) -> usize {
        self.acls.len()
    }

    fn node<'a>(&'a self, node: &'a Node, path: &'a str) -> FrozenNode<'a> {
        FrozenNode { path, data: node.data(), acl: disk_id(node.acl), stat: node.persisted() }
    }

    /// Visits every node in pre-order, starting with the root.
    pub fn for_each_node<E>(&self, mut visit: impl FnMut(FrozenNode<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut walk = Walk::default();
        while let Some(node) = walk.step(self) {
            visit(node)?;
        }
        Ok(())
    }
}

/// A resumable pre-order traversal of a view, starting with the root.
#[derive(Debug)]
pub struct Walk {
    path: String,
    /// The next siblings to visit, with the length of their parent's path.
    open: Vec<(NodeId, usize)>,
}

impl Default for Walk {
    fn default() -> Self {
        Self { path: String::new(), open: vec![(NodeId::ROOT, 0)] }
    }
}

impl Walk {
    /// Returns the next node. Every call must pass the same view.
    pub fn step<'a>(&'a mut self, frozen: &'a FrozenView) -> Option<FrozenNode<'a>> {
        let (id, parent_length) = self.open.pop()?;
        let node = frozen.slab.get(id);
        self.path.truncate(parent_length);
        if id != NodeId::ROOT {
            self.path.push('/');
            self.path.push_str(node.name_text());
        }
        if node.next != NodeId::NONE {
            self.open.push((node.next, parent_length));
        }
        if node.first_child != NodeId::NONE {
            self.open.push((node.first_child, self.path.len()));
        }
        Some(frozen.node(node, &self.path))
    }
}

/// Like [`Walk`], with siblings sorted by name. It holds the remaining siblings at every level of the current path.
#[derive(Debug)]
pub struct SortedWalk {
    path: String,
    /// Siblings still to visit in reverse order, with the length of their parent's path.
    open: Vec<(Vec<NodeId>, usize)>,
}

impl Default for SortedWalk {
    fn default() -> Self {
        Self { path: String::new(), open: vec![(vec![NodeId::ROOT], 0)] }
    }
}

impl SortedWalk {
    /// Returns the next node. Every call must pass the same view.
    pub fn step<'a>(&'a mut self, frozen: &'a FrozenView) -> Option<FrozenNode<'a>> {
        let (id, parent_length) = loop {
            let (siblings, parent_length) = self.open.last_mut()?;
            match siblings.pop() {
                Some(id) => break (id, *parent_length),
                None => _ = self.open.pop(),
            }
        };
        let node = frozen.slab.get(id);
        self.path.truncate(parent_length);
        if id != NodeId::ROOT {
            self.path.push('/');
            self.path.push_str(node.name_text());
        }
        let mut children = Vec::new();
        let mut next = node.first_child;
        while next != NodeId::NONE {
            children.push(next);
            next = frozen.slab.get(next).next;
        }
        if !children.is_empty() {
            children.sort_unstable_by(|a, b| frozen.slab.get(*b).name_text().cmp(frozen.slab.get(*a).name_text()));
            self.open.push((children, self.path.len()));
        }
        Some(frozen.node(node, &self.path))
    }
}
