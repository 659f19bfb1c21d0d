//! Index from path to node. It stores half of the path's hash with each node id; the caller verifies the path.
//!
//! The table is split into shards, so that growth never delays a write for long: each growth rehashes one shard, from
//! the stored hashes.

use crate::hash::PathHasher;
use crate::node::NodeId;
use hashbrown::{HashTable, hash_table};

const SHARDS: usize = 256;

/// The hash of a path in the tree's form (see [`crate::path`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathHash(u64);

impl PathHash {
    /// The whole hash, as a key for other tables.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn shard(self) -> usize {
        (self.0 >> 56) as usize % SHARDS
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is kept beside the id")]
    fn low(self) -> u32 {
        self.0 as u32
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    id: NodeId,
}

impl Entry {
    /// Distributes the stored half over the bits that the hash table uses.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[HashTable<Entry>]>,
    hasher: PathHasher,
}

impl Index {
    pub(crate) fn new(seed: u64) -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect(), hasher: PathHasher::new(seed) }
    }

    pub(crate) fn hash(&self, path: impl AsRef<[u8]>) -> PathHash {
        PathHash(self.hasher.hash(path))
    }

    pub(crate) fn find(&self, hash: PathHash, mut is_it: impl FnMut(NodeId) -> bool) -> Option<NodeId> {
        let low = hash.low();
        self.shards[hash.shard()]
            .find(Entry::spread(low), |entry| entry.hash == low && is_it(entry.id))
            .map(|entry| entry.id)
    }

    pub(crate) fn insert(&mut self, hash: PathHash, id: NodeId) {
        let entry = Entry { hash: hash.low(), id };
        self.shards[hash.shard()].insert_unique(Entry::spread(entry.hash), entry, |entry| Entry::spread(entry.hash));
    }

    /// Inserts a batch, shard by shard, so that each shard is resized once and stays in the processor's cache.
    /// `is_same` compares the paths of two nodes; the first duplicate is returned as an error.
    pub(crate) fn insert_all(
        &mut self,
        unindexed: &mut Unindexed,
        is_same: impl Fn(NodeId, NodeId) -> bool,
    ) -> Result<(), NodeId> {
        for (shard, entries) in self.shards.iter_mut().zip(&mut unindexed.0) {
            shard.reserve(entries.len(), |entry| Entry::spread(entry.hash));
            for new in entries.drain(..) {
                let is_there = |entry: &Entry| entry.hash == new.hash && is_same(entry.id, new.id);
                match shard.entry(Entry::spread(new.hash), is_there, |entry| Entry::spread(entry.hash)) {
                    hash_table::Entry::Occupied(_) => return Err(new.id),
                    hash_table::Entry::Vacant(place) => _ = place.insert(new),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, hash: PathHash, id: NodeId) {
        let found = self.shards[hash.shard()].find_entry(Entry::spread(hash.low()), |entry| entry.id == id);
        found.expect("every node is indexed").remove();
    }
}

/// Nodes that are linked into the tree but not indexed yet, by shard.
#[derive(Debug)]
pub(crate) struct Unindexed(Box<[Vec<Entry>]>);

impl Unindexed {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Vec::new()).collect())
    }

    pub(crate) fn push(&mut self, hash: PathHash, id: NodeId) {
        self.0[hash.shard()].push(Entry { hash: hash.low(), id });
    }
}
