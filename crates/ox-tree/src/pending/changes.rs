//! The nodes that transactions on their way change, in order, and the last change of each by the hash of its path.
//!
//! The queue is filled and emptied from end to end; only the small table is looked up at random.

use crate::index::PathHash;
use crate::node::NodeId;
use crate::pending::Projected;
use hashbrown::{HashTable, hash_table::Entry};
use ox_proto::Zxid;
use std::collections::VecDeque;

#[derive(Debug)]
struct Change {
    hash: PathHash,
    /// The transaction that makes it.
    zxid: Zxid,
    /// Where the node is, if it is part of the state already.
    id: NodeId,
    /// The same node's change before this one, if that was still on its way.
    before: Option<u64>,
    /// The node as this change leaves it; `None` when it deletes it.
    node: Option<Projected>,
}

/// The last change of a node. Hashes are 64 bits of a function that nobody outside knows; paths are not kept.
#[derive(Clone, Copy, Debug)]
struct Last {
    hash: PathHash,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    queue: VecDeque<Change>,
    /// Number of the first change in the queue.
    first: u64,
    last: HashTable<Last>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The node as the last change leaves it, if there is one.
    pub(super) fn find(&self, hash: PathHash) -> Option<Option<&Projected>> {
        if self.queue.is_empty() {
            return None;
        }
        let last = self.last.find(hash.bits(), |last| last.hash == hash)?;
        Some(self.queue[self.place(last.number)].node.as_ref())
    }

    pub(super) fn push(&mut self, zxid: Zxid, hash: PathHash, id: NodeId, node: Option<Projected>) {
        let number = self.first + self.queue.len() as u64;
        let before = match self.last.entry(hash.bits(), |last| last.hash == hash, |last| last.hash.bits()) {
            Entry::Occupied(mut last) => Some(std::mem::replace(&mut last.get_mut().number, number)),
            Entry::Vacant(place) => {
                place.insert(Last { hash, number });
                None
            }
        };
        self.queue.push_back(Change { hash, zxid, id, before, node });
    }

    /// Takes out what transactions up to `zxid` change, and notes where the nodes of the last one are.
    pub(super) fn applied(&mut self, zxid: Zxid, hints: &mut Hints) {
        hints.clear();
        while let Some(change) = self.queue.pop_front_if(|change| change.zxid <= zxid) {
            self.forget(change.hash, self.first);
            self.first += 1;
            if change.zxid == zxid {
                hints.places.push((change.hash, change.id));
            }
        }
    }

    /// Takes back what the last transaction changed.
    pub(super) fn take_back(&mut self, zxid: Zxid) {
        while let Some(Change { hash, before, .. }) = self.queue.pop_back_if(|change| change.zxid == zxid) {
            let number = self.first + self.queue.len() as u64;
            match before.filter(|before| self.first <= *before) {
                None => self.forget(hash, number),
                Some(before) => {
                    let last = self.last.find_mut(hash.bits(), |last| last.hash == hash);
                    last.expect("a change is the last of its node or behind it").number = before;
                }
            }
        }
    }

    /// Drops the table's entry if it means this change.
    fn forget(&mut self, hash: PathHash, number: u64) {
        if let Ok(last) = self.last.find_entry(hash.bits(), |last| last.hash == hash && last.number == number) {
            last.remove();
        }
    }

    fn place(&self, number: u64) -> usize {
        usize::try_from(number - self.first).expect("the queue fits into memory")
    }
}

/// Where the nodes of one transaction were when it was prepared, in the order it changes them. Applying it need not
/// look for them again.
#[derive(Debug, Default)]
pub struct Hints {
    places: Vec<(PathHash, NodeId)>,
    next: usize,
}

impl Hints {
    fn clear(&mut self) {
        self.places.clear();
        self.next = 0;
    }

    /// Where the node is that is changed next, if that is known. Once the order is not as it was, nothing is known.
    pub(crate) fn next(&mut self, hash: PathHash) -> Option<NodeId> {
        let (known, id) = *self.places.get(self.next)?;
        if known != hash {
            self.clear();
            return None;
        }
        self.next += 1;
        Some(id).filter(|id| *id != NodeId::NONE)
    }
}
