//! The state as it was at one moment, for snapshots and for peers that need all of it.
//!
//! Making one clones pointers; the walk afterwards takes no lock and slows nobody down.

use crate::State;
use crate::acl_table::{AclList, disk_id};
use crate::node::NodeId;
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

    /// Visits every node, parents before their children, the root first.
    pub fn for_each_node<E>(&self, mut visit: impl FnMut(FrozenNode<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut path = String::new();
        // Siblings still to visit, with the length of their parent's path.
        let mut open = vec![(NodeId::ROOT, 0)];
        while let Some((id, parent_length)) = open.pop() {
            let node = self.slab.get(id);
            path.truncate(parent_length);
            if id != NodeId::ROOT {
                path.push('/');
                path.push_str(node.name_text());
            }
            visit(FrozenNode { path: &path, data: node.data(), acl: disk_id(node.acl), stat: node.persisted() })?;
            if node.next != NodeId::NONE {
                open.push((node.next, parent_length));
            }
            if node.first_child != NodeId::NONE {
                open.push((node.first_child, path.len()));
            }
        }
        Ok(())
    }
}
