//! The state as it was at one moment, for snapshots and for peers that need all of it.
//!
//! Making one clones pointers; the walk afterwards takes no lock and slows nobody down.

use crate::State;
use crate::acl_table::{AclList, disk_id};
use crate::node::{Node, NodeId};
use crate::slab::FrozenSlab;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, SessionId, Zxid};
use std::sync::Arc;

/// A view that does not change.
#[derive(Debug)]
pub struct Frozen {
    slab: FrozenSlab,
    acls: Vec<(i64, Arc<AclList>)>,
    sessions: Vec<(SessionId, i32)>,
    last_zxid: Zxid,
    digest: i64,
    nodes: usize,
}

/// A node as a snapshot stores it.
#[derive(Clone, Copy, Debug)]
pub struct FrozenNode<'a> {
    /// Path in the stored form: the root is empty.
    pub path: &'a str,
    /// Data, possibly null.
    pub data: Option<&'a [u8]>,
    /// Id of the list, -1 for none.
    pub acl: i64,
    /// Stored metadata.
    pub stat: StatPersisted,
}

impl Frozen {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            slab: state.tree.freeze(),
            acls: state.acls.stored(),
            sessions: state.sessions().collect(),
            last_zxid: state.last_zxid(),
            digest: state.digest(),
            nodes: state.tree.len(),
        }
    }

    /// The last transaction in the view.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The tree's digest at that point.
    pub fn digest(&self) -> i64 {
        self.digest
    }

    /// Number of nodes, the root counted once.
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// Live sessions with the timeout they were created with.
    pub fn sessions(&self) -> &[(SessionId, i32)] {
        &self.sessions
    }

    /// The lists that nodes refer to.
    pub fn acls(&self) -> impl Iterator<Item = (i64, &[Acl])> {
        self.acls.iter().map(|(id, list)| (*id, &*list.entries))
    }

    /// Number of those lists.
    pub fn acl_count(&self) -> usize {
        self.acls.len()
    }

    fn node<'a>(&'a self, node: &'a Node, path: &'a str) -> FrozenNode<'a> {
        FrozenNode { path, data: node.data(), acl: disk_id(node.acl), stat: node.persisted() }
    }

    /// Visits every node, parents before their children, the root first.
    pub fn for_each_node<E>(&self, mut visit: impl FnMut(FrozenNode<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut walk = Walk::default();
        while let Some(node) = walk.step(self) {
            visit(node)?;
        }
        Ok(())
    }
}

/// A way through all nodes of a view, parents before their children, the root first; with as many pauses as it takes.
#[derive(Debug)]
pub struct Walk {
    path: String,
    /// Siblings still to visit, with the length of their parent's path.
    open: Vec<(NodeId, usize)>,
}

impl Default for Walk {
    fn default() -> Self {
        Self { path: String::new(), open: vec![(NodeId::ROOT, 0)] }
    }
}

impl Walk {
    /// The next node of `frozen`, always the same view; none behind the last.
    pub fn step<'a>(&'a mut self, frozen: &'a Frozen) -> Option<FrozenNode<'a>> {
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

/// A way through all nodes of a view like [`Walk`], children in the order of their names. Holds the children of the nodes
/// above it.
#[derive(Debug)]
pub struct SortedWalk {
    path: String,
    /// Siblings still to visit, the next one last, with the length of their parent's path.
    open: Vec<(Vec<NodeId>, usize)>,
}

impl Default for SortedWalk {
    fn default() -> Self {
        Self { path: String::new(), open: vec![(vec![NodeId::ROOT], 0)] }
    }
}

impl SortedWalk {
    /// The next node of `frozen`, always the same view; none behind the last.
    pub fn step<'a>(&'a mut self, frozen: &'a Frozen) -> Option<FrozenNode<'a>> {
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
