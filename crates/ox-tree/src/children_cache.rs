//! Encoded lists of children of large parents, cached until a child is created or deleted.
//!
//! Walking a thousand children touches two thousand cache lines in random order; copying their encoded names touches a
//! few hundred in sequence. The cache has its own lock because readers fill it while they share the read lock of the
//! state.

use crate::node::NodeId;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Shorter lists are cheaper to walk than to cache.
const CHILDREN_MIN: usize = 32;
/// The maximum number of cached lists, as in Apache's response cache.
const PARENTS_MAX: usize = 400;
/// Longer lists are not cached.
const LIST_BYTES_MAX: usize = 1 << 20;
/// The maximum size of all cached lists; exceeding it clears the cache.
const LISTS_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
struct CachedLists {
    lists: HashMap<NodeId, Arc<[u8]>, FixedState>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ChildrenCache {
    cached: Mutex<CachedLists>,
}

impl ChildrenCache {
    /// Appends the list of `parent`, from the cache or by `encode`.
    pub(crate) fn put(&self, parent: NodeId, children: usize, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        if children < CHILDREN_MIN {
            return encode(out);
        }
        let cached = self.cached.lock().lists.get(&parent).cloned();
        if let Some(list) = cached {
            return out.extend_from_slice(&list);
        }
        let start = out.len();
        encode(out);
        let list = &out[start..];
        let mut cached = self.cached.lock();
        if list.len() <= LIST_BYTES_MAX {
            if PARENTS_MAX <= cached.lists.len() || LISTS_BYTES_MAX < cached.bytes + list.len() {
                *cached = CachedLists::default(); // usage is not tracked; popular lists are cached again by their next request
            }
            let before = cached.lists.insert(parent, Arc::from(list));
            cached.bytes = cached.bytes + list.len() - before.map_or(0, |list| list.len());
        }
    }

    pub(crate) fn invalidate(&mut self, parent: NodeId) {
        let cached = self.cached.get_mut();
        if let Some(list) = (!cached.lists.is_empty()).then(|| cached.lists.remove(&parent)).flatten() {
            cached.bytes -= list.len();
        }
    }
}
