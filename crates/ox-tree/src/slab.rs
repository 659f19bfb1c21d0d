//! Nodes in chunks behind `Arc`s, addressed by small ids.
//!
//! Freezing the tree clones the chunk pointers; a later change copies the one chunk it touches. So a snapshot has
//! a consistent view without anybody waiting for it.

use crate::node::{Node, NodeId};
use std::sync::Arc;

/// Nodes per chunk: copying one on its first change after a freeze costs about a microsecond.
const CHUNK: usize = 64;

pub(crate) type Chunk = [Option<Node>; CHUNK];

#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Arc<Chunk>>,
    free: Vec<NodeId>,
    used: usize,
}

/// The nodes as they were at one moment.
#[derive(Clone, Debug)]
pub(crate) struct FrozenSlab(Vec<Arc<Chunk>>);

fn place(id: NodeId) -> (usize, usize) {
    (id.0 as usize / CHUNK, id.0 as usize % CHUNK)
}

impl Slab {
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        let (chunk, slot) = place(id);
        Arc::make_mut(&mut self.chunks[chunk])[slot] = Some(node);
        self.used += 1;
        id
    }

    fn grow(&mut self) -> NodeId {
        let first = self.chunks.len() * CHUNK;
        let last = u32::try_from(first + CHUNK).expect("ids are 32 bits: memory ends before four billion nodes");
        self.chunks.push(Arc::new([const { None }; CHUNK]));
        let first = last - u32::try_from(CHUNK).expect("a small constant");
        self.free.extend((first..last).rev().map(NodeId));
        self.free.pop().expect("a chunk was just added")
    }

    pub(crate) fn remove(&mut self, id: NodeId) -> Node {
        let (chunk, slot) = place(id);
        let node = Arc::make_mut(&mut self.chunks[chunk])[slot].take().expect("a live node is removed once");
        self.free.push(id);
        self.used -= 1;
        node
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        let (chunk, slot) = place(id);
        self.chunks[chunk][slot].as_ref().expect("ids name live nodes")
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let (chunk, slot) = place(id);
        Arc::make_mut(&mut self.chunks[chunk])[slot].as_mut().expect("ids name live nodes")
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let slots = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).map(NodeId).zip(slots).filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    pub(crate) fn freeze(&self) -> FrozenSlab {
        FrozenSlab(self.chunks.clone())
    }
}

impl FrozenSlab {
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        let (chunk, slot) = place(id);
        self.0[chunk][slot].as_ref().expect("a frozen view is closed under its ids")
    }
}
