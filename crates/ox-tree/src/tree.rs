//! The tree of nodes.
//!
//! The children of a node are an intrusive doubly linked list through the slab, so that listing a parent and deleting a
//! million children are linear. Invariants: every node but the root is in the index, in its parent's list and in its
//! parent's count; every node with a child stores its whole path.

use crate::children_cache::ChildrenCache;
use crate::index::{Index, PathHash, Unindexed};
use crate::node::{AclId, Node, NodeId, node_digest, prefix_crc};
use crate::path;
use crate::slab::{FrozenSlab, Slab};
use ox_proto::Zxid;
use ox_proto::stat::StatPersisted;

#[derive(Debug)]
pub(crate) struct Tree {
    slab: Slab,
    index: Index,
    children_cache: ChildrenCache,
    digest_enabled: bool,
    digest: u64,
    /// The size of all paths and data, for the metrics.
    bytes: u64,
}

/// A node to be linked, with its path in the tree's form.
pub(crate) struct NewNode<'a> {
    pub(crate) path: &'a str,
    pub(crate) hash: PathHash,
    pub(crate) node: Node,
}

impl Tree {
    /// A tree with only a root.
    pub(crate) fn new(seed: u64, digest_enabled: bool, root: Node) -> Self {
        let mut tree = Self {
            slab: Slab::default(),
            index: Index::new(seed),
            children_cache: ChildrenCache::default(),
            digest_enabled,
            digest: 0,
            bytes: 0,
        };
        let hash = tree.hash("");
        let mut root = tree.digested("", root);
        root.store_path("");
        let id = tree.slab.insert(root);
        assert_eq!(id, NodeId::ROOT);
        tree.index.insert(hash, id);
        tree
    }

    pub(crate) fn hash(&self, path: &str) -> PathHash {
        self.index.hash(path)
    }

    /// Finds a node by its path in the tree's form.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        self.find_hashed(self.hash(path), path)
    }

    pub(crate) fn find_hashed(&self, hash: PathHash, path: &str) -> Option<NodeId> {
        self.index.find(hash, |id| self.has_path(id, path.as_bytes()))
    }

    /// A node whose path has the same hash; the path is not compared.
    pub(crate) fn find_by_hash(&self, path: &[u8]) -> NodeId {
        self.index.find(self.index.hash(path), |_| true).unwrap_or(NodeId::NONE)
    }

    pub(crate) fn find_at(&self, id: NodeId) -> Option<&Node> {
        self.slab.find(id)
    }

    /// Whether `id` is in use and its node has this path.
    pub(crate) fn is_node_at(&self, id: NodeId, path: &str) -> bool {
        self.find_at(id).is_some() && self.has_path(id, path.as_bytes())
    }

    fn has_path(&self, id: NodeId, path: &[u8]) -> bool {
        let node = self.slab.get(id);
        if node.stores_path() {
            return node.text() == path;
        }
        match path.strip_suffix(node.text()) {
            Some([parent @ .., b'/']) => self.slab.get(node.parent).text() == parent,
            _ => false,
        }
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.slab.get(id)
    }

    /// The node's path in the tree's form.
    pub(crate) fn path_of(&self, id: NodeId) -> String {
        let node = self.slab.get(id);
        let mut path = String::new();
        if !node.stores_path() {
            path.push_str(text(self.slab.get(node.parent)));
            path.push('/');
        }
        path.push_str(text(node));
        path
    }

    /// All nodes, in arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.slab.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn digest_enabled(&self) -> bool {
        self.digest_enabled
    }

    pub(crate) fn children(&self, parent: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.get(parent).first_child;
        let next = |id: &NodeId| Some(self.get(*id).next).filter(|id| *id != NodeId::NONE);
        std::iter::successors(Some(first).filter(|id| *id != NodeId::NONE), next)
    }

    /// The node and all its descendants, parents first.
    pub(crate) fn subtree(&self, top: NodeId) -> Vec<NodeId> {
        let mut found = vec![top];
        let mut at = 0;
        while at < found.len() {
            let children = self.children(found[at]);
            found.extend(children);
            at += 1;
        }
        found
    }

    /// The number of descendants, without `top` itself.
    pub(crate) fn count_below(&self, top: NodeId) -> usize {
        if top == NodeId::ROOT {
            return self.len() - 1;
        }
        let (mut count, mut at) = (0, self.get(top).first_child);
        let mut open = Vec::new();
        loop {
            if at == NodeId::NONE {
                match open.pop() {
                    Some(next) => at = next,
                    None => return count,
                }
                continue;
            }
            count += 1;
            let node = self.get(at);
            if node.first_child == NodeId::NONE {
                at = node.next;
            } else {
                open.push(node.next);
                at = node.first_child;
            }
        }
    }

    /// Appends the encoded list of child names, count included.
    pub(crate) fn put_children(&self, parent: NodeId, out: &mut Vec<u8>) {
        let count = self.get(parent).children as usize;
        self.children_cache.put(parent, count, out, |out| {
            ox_proto::jute::put_count(out, count);
            for child in self.children(parent) {
                ox_proto::jute::put_buffer(out, Some(self.get(child).name()));
            }
        });
    }

    /// Adds a node below `parent` and applies `change` to the parent. The path must not exist.
    pub(crate) fn link(&mut self, parent: NodeId, new: NewNode<'_>, change: Option<impl FnOnce(&mut Node)>) -> NodeId {
        let hash = new.hash;
        let id = self.attach(parent, new, change);
        self.index.insert(hash, id);
        id
    }

    /// Adds a node below `parent`. Lookups do not find it until [`Self::index`] is called.
    pub(crate) fn link_unindexed(&mut self, parent: NodeId, new: NewNode<'_>, unindexed: &mut Unindexed) -> NodeId {
        let hash = new.hash;
        let id = self.attach(parent, new, None::<fn(&mut Node)>);
        unindexed.push(hash, id);
        id
    }

    /// Adds nodes to the index. A node whose path exists already is returned as an error.
    pub(crate) fn index(&mut self, unindexed: &mut Unindexed) -> Result<(), NodeId> {
        let slab = &self.slab;
        self.index.insert_all(unindexed, |one, other| {
            let (one, other) = (slab.get(one), slab.get(other));
            one.parent == other.parent && one.name() == other.name()
        })
    }

    fn attach(&mut self, parent: NodeId, new: NewNode<'_>, change: Option<impl FnOnce(&mut Node)>) -> NodeId {
        let NewNode { path, hash: _, node } = new;
        self.bytes += (path.len() + node.data_length()) as u64;
        let mut node = self.digested(path, node);
        let first = self.slab.get(parent).first_child;
        node.parent = parent;
        node.next = first;
        node.previous = NodeId::NONE;
        let id = self.slab.insert(node);
        if first != NodeId::NONE {
            self.slab.get_mut(first).previous = id;
        }
        let parent_node = self.slab.get_mut(parent);
        parent_node.first_child = id;
        parent_node.children += 1;
        if !parent_node.stores_path() {
            parent_node.store_path(path::split(path).map_or("", |(parent, _)| parent));
        }
        if let Some(change) = change {
            change(parent_node);
            refresh_digest(parent_node, &mut self.digest, self.digest_enabled);
        }
        self.children_cache.invalidate(parent);
        id
    }

    /// Removes a node without children from its parent's list, the index and the digest. Raises the parent's pzxid to
    /// `pzxid`.
    pub(crate) fn unlink(&mut self, id: NodeId, node_path: &str, hash: PathHash, pzxid: Zxid) -> Node {
        self.index.remove(hash, id);
        let node = self.slab.remove(id);
        assert_eq!(node.children, 0, "only childless nodes are unlinked");
        self.digest = self.digest.wrapping_sub(u64::from(node.digest));
        self.bytes -= (node_path.len() + node.data_length()) as u64;
        if node.previous != NodeId::NONE {
            self.slab.get_mut(node.previous).next = node.next;
        }
        if node.next != NodeId::NONE {
            self.slab.get_mut(node.next).previous = node.previous;
        }
        let parent_node = self.slab.get_mut(node.parent);
        if node.previous == NodeId::NONE {
            parent_node.first_child = node.next;
        }
        parent_node.children -= 1;
        if parent_node.pzxid < pzxid {
            parent_node.pzxid = pzxid;
            refresh_digest(parent_node, &mut self.digest, self.digest_enabled);
        }
        self.children_cache.invalidate(node.parent);
        self.children_cache.invalidate(id);
        node
    }

    /// Replaces a node's data and applies `change` to its counters.
    pub(crate) fn set_data(
        &mut self,
        id: NodeId,
        node_path: &str,
        data: Option<&[u8]>,
        change: impl FnOnce(&mut Node),
    ) {
        let node = self.slab.get_mut(id);
        self.bytes -= node.data_length() as u64;
        node.set_data(data);
        change(node);
        self.bytes += node.data_length() as u64;
        if self.digest_enabled && node.in_digest() {
            node.prefix_crc = prefix_crc(node_path, node.data());
        }
        refresh_digest(node, &mut self.digest, self.digest_enabled);
    }

    /// Applies `change` to the counters of a node and updates the digest.
    pub(crate) fn update(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let node = self.slab.get_mut(id);
        change(node);
        refresh_digest(node, &mut self.digest, self.digest_enabled);
    }

    pub(crate) fn set_acl(&mut self, id: NodeId, acl: AclId) -> AclId {
        std::mem::replace(&mut self.slab.get_mut(id).acl, acl)
    }

    /// Computes the digest of a node before it is linked, and adds it to the tree's digest.
    fn digested(&mut self, node_path: &str, mut node: Node) -> Node {
        if self.digest_enabled {
            if path::in_digest(node_path) {
                node.prefix_crc = prefix_crc(node_path, node.data());
            } else {
                node.exclude_from_digest();
            }
            refresh_digest(&mut node, &mut self.digest, true);
        }
        node
    }

    pub(crate) fn freeze(&self) -> FrozenSlab {
        self.slab.freeze()
    }
}

/// Recomputes a node's digest, and updates the sum by the difference.
fn refresh_digest(node: &mut Node, sum: &mut u64, enabled: bool) {
    if enabled && node.in_digest() {
        let new = node_digest(node.prefix_crc, &node.persisted());
        let old = std::mem::replace(&mut node.digest, new);
        *sum = sum.wrapping_sub(u64::from(old)).wrapping_add(u64::from(new));
    }
}

fn text(node: &Node) -> &str {
    std::str::from_utf8(node.text()).expect("texts are stored from strings")
}

/// The Stat of a new node.
pub(crate) fn fresh_stat(zxid: Zxid, time_ms: i64, owner: i64) -> StatPersisted {
    StatPersisted {
        czxid: zxid,
        mzxid: zxid,
        ctime: time_ms,
        mtime: time_ms,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        pzxid: zxid,
    }
}
