//! Encoded child lists of large parents, kept until the next link or unlink.
//!
//! Walking a thousand children touches a thousand cache lines twice; copying their encoded names touches a few
//! hundred in order. The cache has a lock of its own because readers fill it while they share the tree.

use crate::node::NodeId;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Shorter lists are cheaper to walk than to keep.
const CHILDREN_MIN: usize = 32;
/// Parents kept at once, as many as Apache's cache of the same purpose.
const PARENTS_MAX: usize = 400;
/// Longer lists are not kept.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Bytes of all lists that are kept; the next one clears the cache.
const LISTS_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
struct Kept {
    lists: HashMap<NodeId, Arc<[u8]>, FixedState>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ListingCache {
    kept: Mutex<Kept>,
}

impl ListingCache {
    /// Appends the list of `parent`, from the cache or by `encode`.
    pub(crate) fn put(&self, parent: NodeId, children: usize, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        if children < CHILDREN_MIN {
            return encode(out);
        }
        let kept = self.kept.lock().lists.get(&parent).cloned();
        if let Some(list) = kept {
            return out.extend_from_slice(&list);
        }
        let start = out.len();
        encode(out);
        let list = &out[start..];
        let mut kept = self.kept.lock();
        if list.len() <= LIST_BYTES_MAX {
            if PARENTS_MAX <= kept.lists.len() || LISTS_BYTES_MAX < kept.bytes + list.len() {
                *kept = Kept::default(); // no record of use is kept; what is wanted comes back at once
            }
            let before = kept.lists.insert(parent, Arc::from(list));
            kept.bytes = kept.bytes + list.len() - before.map_or(0, |list| list.len());
        }
    }

    /// Drops the list of a parent whose children change.
    pub(crate) fn forget(&mut self, parent: NodeId) {
        let kept = self.kept.get_mut();
        if let Some(list) = (!kept.lists.is_empty()).then(|| kept.lists.remove(&parent)).flatten() {
            kept.bytes -= list.len();
        }
    }
}
