//! Changed nodes of the transactions in flight, in order, with an index of the last change of each node.
//!
//! The queue is accessed sequentially; only the small index is accessed at random.

use crate::index::PathHash;
use crate::node::NodeId;
use crate::pending::PendingNode;
use hashbrown::{HashTable, hash_table::Entry};
use ox_proto::Zxid;
use std::collections::VecDeque;

#[derive(Debug)]
struct NodeChange {
    hash: PathHash,
    /// The transaction that makes the change.
    zxid: Zxid,
    /// The node, unless a transaction in flight creates it.
    id: NodeId,
    /// The number of the previous change of the same node, if that was in flight too.
    previous: Option<u64>,
    /// The node after the change; `None` if it is deleted.
    node: Option<PendingNode>,
}

/// The last change of a node. The hash alone identifies the node: it has 64 bits and a secret seed.
#[derive(Clone, Copy, Debug)]
struct Last {
    hash: PathHash,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    queue: VecDeque<NodeChange>,
    /// The number of the first change in the queue.
    first: u64,
    last: HashTable<Last>,
}

impl ChangeQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The node after its last change; `None` if no change is in flight, `Some(None)` if it was deleted.
    pub(super) fn find(&self, hash: PathHash) -> Option<Option<&PendingNode>> {
        if self.queue.is_empty() {
            return None;
        }
        let last = self.last.find(hash.bits(), |last| last.hash == hash)?;
        Some(self.queue[self.position(last.number)].node.as_ref())
    }

    pub(super) fn push(&mut self, zxid: Zxid, hash: PathHash, id: NodeId, node: Option<PendingNode>) {
        let number = self.first + self.queue.len() as u64;
        let previous = match self.last.entry(hash.bits(), |last| last.hash == hash, |last| last.hash.bits()) {
            Entry::Occupied(mut last) => Some(std::mem::replace(&mut last.get_mut().number, number)),
            Entry::Vacant(position) => {
                position.insert(Last { hash, number });
                None
            }
        };
        self.queue.push_back(NodeChange { hash, zxid, id, previous, node });
    }

    /// Removes the changes of transactions up to `zxid`, and notes the nodes of that transaction in `hints`.
    pub(super) fn applied(&mut self, zxid: Zxid, hints: &mut NodeHints) {
        hints.clear();
        while let Some(change) = self.queue.pop_front_if(|change| change.zxid <= zxid) {
            self.remove_last(change.hash, self.first);
            self.first += 1;
            if change.zxid == zxid {
                hints.nodes.push((change.hash, change.id));
            }
        }
    }

    /// Removes the changes of the last transaction.
    pub(super) fn roll_back(&mut self, zxid: Zxid) {
        while let Some(NodeChange { hash, previous, .. }) = self.queue.pop_back_if(|change| change.zxid == zxid) {
            let number = self.first + self.queue.len() as u64;
            match previous.filter(|previous| self.first <= *previous) {
                None => self.remove_last(hash, number),
                Some(previous) => {
                    let last = self.last.find_mut(hash.bits(), |last| last.hash == hash);
                    last.expect("an earlier change has a later one in the index").number = previous;
                }
            }
        }
    }

    /// Removes the entry of the index if it refers to this change.
    fn remove_last(&mut self, hash: PathHash, number: u64) {
        if let Ok(last) = self.last.find_entry(hash.bits(), |last| last.hash == hash && last.number == number) {
            last.remove();
        }
    }

    fn position(&self, number: u64) -> usize {
        usize::try_from(number - self.first).expect("the queue fits into memory")
    }
}

/// The positions of the nodes that a transaction changes, in order, as prepare found them. Applying it can skip the
/// lookups.
#[derive(Debug, Default)]
pub struct NodeHints {
    nodes: Vec<(PathHash, NodeId)>,
    next: usize,
}

impl NodeHints {
    fn clear(&mut self) {
        self.nodes.clear();
        self.next = 0;
    }

    /// The position of the next node. A hash that does not match invalidates all remaining hints.
    pub(crate) fn next(&mut self, hash: PathHash) -> Option<NodeId> {
        let (known, id) = *self.nodes.get(self.next)?;
        if known != hash {
            self.clear();
            return None;
        }
        self.next += 1;
        Some(id).filter(|id| *id != NodeId::NONE)
    }
}
