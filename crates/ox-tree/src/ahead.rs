//! Looking at nodes before they are asked for.
//!
//! In a tree larger than the processor's caches, finding a node waits for memory several times, each time to learn where
//! to look next. But requests come in groups, and the waits of one have nothing to do with those of another: going
//! through all of them step by step lets them overlap.

use crate::State;
use crate::node::NodeId;
use crate::tree::Tree;
use std::hint::black_box;

/// Requests that are looked at together.
pub const GROUP: usize = 32;

/// Longer paths are not worth the detour.
const PATH_BYTES_SHORT: usize = 256;

/// Nodes that a core's own cache holds, and its page tables: about 1 MB.
const SMALL_TREE: usize = 3_000;

impl State {
    /// Brings the nodes of the first [`GROUP`] paths near, as far as they are there. Changes nothing.
    pub fn look_ahead<'a>(&self, paths: impl Iterator<Item = &'a [u8]>) {
        if SMALL_TREE < self.tree.len() {
            self.tree.look_ahead(paths.filter(|path| path.len() <= PATH_BYTES_SHORT));
        }
    }
}

impl Tree {
    fn look_ahead<'a>(&self, paths: impl Iterator<Item = &'a [u8]>) {
        let mut ids = [NodeId::NONE; GROUP];
        for (id, path) in ids.iter_mut().zip(paths) {
            *id = self.guess(path);
        }
        let nodes = || ids.iter().filter(|id| **id != NodeId::NONE).filter_map(|id| self.find_at(*id));
        nodes().for_each(|node| _ = black_box(node.parent));
        nodes().for_each(|node| _ = black_box(node.text().first()));
    }
}

/// The path that the body of most requests begins with.
pub fn path_in(body: &[u8]) -> Option<&[u8]> {
    let (length, rest) = body.split_first_chunk::<4>()?;
    rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?)
}
