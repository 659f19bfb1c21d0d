//! Touching the nodes of a batch of requests in advance.
//!
//! In a tree larger than the processor's caches, finding a node is a chain of cache misses, each of which yields the
//! next address. Requests arrive in batches, and the chains of different requests are independent: executing them step
//! by step for the whole batch lets the misses overlap.

use crate::State;
use crate::node::NodeId;
use crate::tree::Tree;
use std::hint::black_box;

/// The number of requests whose nodes are prefetched together.
pub const BATCH: usize = 32;

/// Longer paths are not worth hashing twice.
const PATH_BYTES_MAX: usize = 256;

/// A tree with fewer nodes (about 1 MB) fits into the caches of one core.
const NODES_MIN: usize = 3_000;

impl State {
    /// Loads the nodes of the first [`BATCH`] paths, as far as they exist, into the caches.
    pub fn prefetch<'a>(&self, paths: impl Iterator<Item = &'a [u8]>) {
        if NODES_MIN < self.tree.len() {
            self.tree.prefetch(paths.filter(|path| path.len() <= PATH_BYTES_MAX));
        }
    }
}

impl Tree {
    fn prefetch<'a>(&self, paths: impl Iterator<Item = &'a [u8]>) {
        let mut ids = [NodeId::NONE; BATCH];
        for (id, path) in ids.iter_mut().zip(paths) {
            *id = self.find_by_hash(path);
        }
        let nodes = || ids.iter().filter(|id| **id != NodeId::NONE).filter_map(|id| self.find_at(*id));
        nodes().for_each(|node| _ = black_box(node.parent));
        nodes().for_each(|node| _ = black_box(node.text().first()));
    }
}

/// The path at the beginning of the body, where most requests have it.
pub fn request_path(body: &[u8]) -> Option<&[u8]> {
    let (length, rest) = body.split_first_chunk::<4>()?;
    rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?)
}
