//! Storage of nodes: pages of chunks of nodes, both behind `Arc`s, addressed by 32-bit ids.
//!
//! Freezing clones the pointers to the pages. The first change afterwards copies the affected page and chunk. So a
//! snapshot has a consistent view without blocking writers, and creating it takes microseconds.
//!
//! ```text
//! id bits 31..12 page | 11..3 chunk within the page | 2..0 node within the chunk
//! ```

use crate::node::{Node, NodeId};
use std::sync::Arc;

/// Nodes per chunk. While a frozen view exists, a change copies its chunk and increments the payload reference count of
/// each node in it, at random addresses: this favours small chunks. Each chunk costs a pointer and an allocation: this
/// favours large ones.
const CHUNK: usize = 8;
/// Chunks per page: 4096 nodes. Copying a page increments the reference count of each chunk.
const PAGE: usize = 512;

type Chunk = [Option<Node>; CHUNK];
type Page = [Option<Arc<Chunk>>; PAGE];

#[derive(Debug, Default)]
pub(crate) struct Slab {
    pages: Vec<Arc<Page>>,
    chunks: usize,
    free: Vec<NodeId>,
    used: usize,
}

/// All nodes as of one point in time.
#[derive(Clone, Debug)]
pub(crate) struct FrozenSlab(Vec<Arc<Page>>);

fn locate(id: NodeId) -> (usize, usize, usize) {
    let id = id.0 as usize;
    (id / (PAGE * CHUNK), id / CHUNK % PAGE, id % CHUNK)
}

fn find(pages: &[Arc<Page>], id: NodeId) -> Option<&Node> {
    let (page, chunk, slot) = locate(id);
    pages[page][chunk].as_ref()?[slot].as_ref()
}

impl Slab {
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        *self.slot(id) = Some(node);
        self.used += 1;
        id
    }

    /// Adds a chunk and returns its first id.
    fn grow(&mut self) -> NodeId {
        let first = self.chunks * CHUNK;
        let end = u32::try_from(first + CHUNK).expect("ids are 32 bits: memory ends before four billion nodes");
        if self.chunks.is_multiple_of(PAGE) {
            self.pages.push(Arc::new([const { None }; PAGE]));
        }
        let page = self.pages.last_mut().expect("a page was added if needed");
        Arc::make_mut(page)[self.chunks % PAGE] = Some(Arc::new([const { None }; CHUNK]));
        self.chunks += 1;
        let start = end - u32::try_from(CHUNK).expect("a small constant");
        self.free.extend((start + 1..end).rev().map(NodeId));
        NodeId(start)
    }

    pub(crate) fn remove(&mut self, id: NodeId) -> Node {
        let node = self.slot(id).take().expect("a live node is removed once");
        self.free.push(id);
        self.used -= 1;
        node
    }

    pub(crate) fn find(&self, id: NodeId) -> Option<&Node> {
        find(&self.pages, id)
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.find(id).expect("ids name live nodes")
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        self.slot(id).as_mut().expect("ids name live nodes")
    }

    fn slot(&mut self, id: NodeId) -> &mut Option<Node> {
        let (page, chunk, slot) = locate(id);
        let chunk = Arc::make_mut(&mut self.pages[page])[chunk].as_mut().expect("ids name existing chunks");
        &mut Arc::make_mut(chunk)[slot]
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let slots = self.pages.iter().flat_map(|page| page.iter().flatten()).flat_map(|chunk| chunk.iter());
        (0..).map(NodeId).zip(slots).filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    pub(crate) fn freeze(&self) -> FrozenSlab {
        FrozenSlab(self.pages.clone())
    }
}

impl FrozenSlab {
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        find(&self.0, id).expect("a frozen view is closed under its ids")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::AclId;
    use ox_proto::stat::StatPersisted;

    fn node(name: usize) -> Node {
        Node::new(&name.to_string(), None, AclId(0), &StatPersisted::default())
    }

    #[test]
    fn ids_are_sequential_and_reused() {
        let mut slab = Slab::default();
        let count = 2 * PAGE * CHUNK + 1;
        for at in 0..count {
            assert_eq!(slab.insert(node(at)).0 as usize, at);
        }
        assert_eq!((slab.len(), slab.pages.len()), (count, 3));
        assert!(slab.iter().all(|(id, node)| node.name_text() == id.0.to_string()));
        assert_eq!(slab.remove(NodeId(77)).name_text(), "77");
        assert_eq!(slab.iter().count(), count - 1);
        assert_eq!(slab.insert(node(5)), NodeId(77));
    }

    #[test]
    fn frozen_slab_is_immutable_and_shares_unchanged_chunks() {
        let mut slab = Slab::default();
        (0..2 * PAGE * CHUNK).for_each(|at| _ = slab.insert(node(at)));
        let frozen = slab.freeze();
        slab.get_mut(NodeId(8)).version = 9;
        slab.remove(NodeId(9));
        assert_eq!((frozen.get(NodeId(8)).version, frozen.get(NodeId(9)).name_text()), (0, "9"));
        assert!(Arc::ptr_eq(&slab.pages[1], &frozen.0[1]), "an untouched page is shared");
        let same =
            |chunk: usize| Arc::ptr_eq(slab.pages[0][chunk].as_ref().unwrap(), frozen.0[0][chunk].as_ref().unwrap());
        assert!(!same(1) && same(0) && same(2), "only the touched chunk was copied");
    }
}
