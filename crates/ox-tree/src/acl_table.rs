//! Access control lists, each stored once (Apache's `ReferenceCountedACLCache`).
//!
//! Lists are looked up by their encoding, which is what transactions carry, so applying a create with a known list
//! decodes no entry. Reference counts are exact: a list is dropped with the last node that uses it.

use crate::hash::PathHasher;
use crate::node::AclId;
use hashbrown::HashTable;
use ox_proto::acl::{perms, put_acls};
use ox_proto::{Acl, RawAcls};
use std::sync::Arc;

/// A list together with its encoding and the permissions that need no identity.
#[derive(Debug, PartialEq, Eq)]
pub struct AclList {
    pub entries: Vec<Acl>,
    encoded: Box<[u8]>,
    /// The permissions of `world:anyone`.
    pub world_perms: i32,
}

impl AclList {
    pub fn new(entries: Vec<Acl>) -> Self {
        let mut encoded = Vec::new();
        put_acls(&mut encoded, &entries);
        let is_world = |acl: &&Acl| &*acl.scheme == "world" && &*acl.id == "anyone";
        let world_perms = entries.iter().filter(is_world).fold(0, |all, acl| all | acl.perms);
        // Apache's check treats an empty list as open.
        let world_perms = if entries.is_empty() { perms::ALL } else { world_perms };
        Self { entries, encoded: encoded.into(), world_perms }
    }

    /// The jute vector, count included.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

#[derive(Debug)]
struct Entry {
    list: Arc<AclList>,
    nodes: usize,
}

/// All lists in use, indexed by encoding.
#[derive(Debug)]
pub(crate) struct AclTable {
    entries: Vec<Option<Entry>>,
    by_encoding: HashTable<AclId>,
    hasher: PathHasher,
    free: Vec<AclId>,
}

impl AclTable {
    /// The null list of the built-in nodes: open, and stored as -1 on disk.
    pub(crate) const NULL: AclId = AclId(0);

    pub(crate) fn new(seed: u64) -> Self {
        let open = Arc::new(AclList::new(vec![Acl::new(perms::ALL, "world", "anyone")]));
        Self {
            entries: vec![Some(Entry { list: open, nodes: 1 })],
            by_encoding: HashTable::new(),
            hasher: PathHasher::new(seed),
            free: Vec::new(),
        }
    }

    fn find_id(&self, encoded: &[u8]) -> Option<AclId> {
        self.by_encoding.find(self.hasher.hash(encoded), |id| self.get(*id).encoded() == encoded).copied()
    }

    /// Returns the id of a list and counts one more node for it.
    pub(crate) fn intern(&mut self, acls: RawAcls<'_>) -> AclId {
        if let Some(id) = self.find_id(acls.bytes()) {
            self.retain(id);
            return id;
        }
        let list = AclList::new(acls.to_stored());
        // Apache may have encoded the same text differently (surrogate pairs).
        if let Some(id) = self.find_id(list.encoded()) {
            self.retain(id);
            return id;
        }
        self.insert(list)
    }

    /// Finds a list that some node already uses.
    pub(crate) fn find(&self, acls: RawAcls<'_>) -> Option<&Arc<AclList>> {
        self.find_id(acls.bytes()).map(|id| self.get(id))
    }

    fn insert(&mut self, list: AclList) -> AclId {
        let hash = self.hasher.hash(list.encoded());
        let entry = Some(Entry { list: Arc::new(list), nodes: 1 });
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id.0 as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                AclId(u32::try_from(self.entries.len() - 1).expect("fewer lists than nodes"))
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |id: &AclId| hasher.hash(entries[id.0 as usize].as_ref().expect("indexed").list.encoded());
        self.by_encoding.insert_unique(hash, id, rehash);
        id
    }

    pub(crate) fn retain(&mut self, id: AclId) {
        self.entries[id.0 as usize].as_mut().expect("ids in use stay").nodes += 1;
    }

    /// Counts one node less for `id`, and drops the list with the last one.
    pub(crate) fn release(&mut self, id: AclId) {
        if id == Self::NULL {
            return;
        }
        let slot = &mut self.entries[id.0 as usize];
        let entry = slot.as_mut().expect("ids in use stay");
        entry.nodes -= 1;
        if entry.nodes == 0 {
            let list = slot.take().expect("checked above").list;
            let hash = self.hasher.hash(list.encoded());
            self.by_encoding.find_entry(hash, |candidate| *candidate == id).expect("lists in use are indexed").remove();
            self.free.push(id);
        }
    }

    pub(crate) fn get(&self, id: AclId) -> &Arc<AclList> {
        &self.entries[id.0 as usize].as_ref().expect("ids in use stay").list
    }

    /// All lists except the null list, with their ids on disk.
    pub(crate) fn lists(&self) -> Vec<(i64, Arc<AclList>)> {
        let numbered = self.entries.iter().enumerate().skip(1);
        numbered.filter_map(|(id, entry)| Some((id as i64, Arc::clone(&entry.as_ref()?.list)))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_encoding.len()
    }
}

/// The id under which a snapshot stores a list: -1 for the null list.
pub(crate) fn disk_id(id: AclId) -> i64 {
    if id == AclTable::NULL { -1 } else { i64::from(id.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(acls: &[Acl]) -> Vec<u8> {
        let mut out = Vec::new();
        put_acls(&mut out, acls);
        out
    }

    #[test]
    fn equal_lists_share_one_id_until_the_last_release() {
        let mut table = AclTable::new(0);
        let bytes = encoded(&[Acl::new(1, "digest", "a:b")]);
        let raw = RawAcls::from_encoded(&bytes).unwrap();
        let (first, second) = (table.intern(raw), table.intern(raw));
        assert_eq!(first, second);
        table.release(first);
        assert_eq!(table.len(), 1);
        table.release(second);
        assert_eq!(table.len(), 0);
        assert_eq!(table.intern(raw), first, "the slot is reused");
    }

    #[test]
    fn world_permissions_are_collected_from_the_entries() {
        assert_eq!(AclTable::new(0).get(AclTable::NULL).world_perms, perms::ALL);
        let list = AclList::new(vec![Acl::new(1, "world", "anyone"), Acl::new(16, "digest", "a:b")]);
        assert_eq!(list.world_perms, 1);
        assert_eq!(AclList::new(vec![]).world_perms, perms::ALL);
    }
}
