//! Pending changes: nodes and sessions as the transactions in flight will leave them (Apache's `outstandingChanges`).
//!
//! The leader checks a request against the tree plus these changes. They contain every node that a transaction in
//! flight changes, with counters, ACL and digest, but without data. An entry is removed when its transaction is
//! applied. With nothing in flight, a lookup costs one branch.

mod changes;
mod view;

use crate::acl_table::AclList;
use crate::index::PathHash;
use crate::node::NodeId;
use changes::ChangeQueue;
pub use changes::NodeHints;
use ox_proto::stat::StatPersisted;
use ox_proto::{SessionId, Zxid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
pub(crate) use view::NewPendingNode;
pub use view::{PendingView, WriteStamp};

/// A node as the next write finds it.
#[derive(Clone, Debug)]
pub(crate) struct PendingNode {
    hash: PathHash,
    id: NodeId,
    pub(crate) stat: StatPersisted,
    /// The counter that names sequential children. It wraps, whereas the stored cversion stops at its maximum.
    pub(crate) sequence: i32,
    pub(crate) children: i64,
    pub(crate) data_length: usize,
    pub(crate) acl: Arc<AclList>,
    in_digest: bool,
    prefix_crc: u32,
    digest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionChange {
    Opens,
    Closes,
}

/// All changes of the transactions in flight.
#[derive(Debug, Default)]
pub struct PendingChanges {
    changes: ChangeQueue,
    /// Ephemeral nodes created in flight, which closeSession must delete too.
    ephemerals: VecDeque<(Zxid, SessionId, String)>,
    /// Sessions that a transaction in flight opens or closes.
    sessions: BTreeMap<SessionId, (Zxid, SessionChange)>,
    session_changes: VecDeque<(Zxid, SessionId)>,
    /// The tree's digest after all transactions in flight.
    digest: u64,
    hints: NodeHints,
}

impl PendingChanges {
    /// Removes the changes of transactions up to `zxid`, which the caller has applied or is about to apply. Returns the
    /// positions of the nodes that the last one changes.
    pub fn applied(&mut self, zxid: Zxid) -> &mut NodeHints {
        self.changes.applied(zxid, &mut self.hints);
        while self.ephemerals.pop_front_if(|(changed, ..)| *changed <= zxid).is_some() {}
        while let Some((_, session)) = self.session_changes.pop_front_if(|(changed, _)| *changed <= zxid) {
            if self.sessions.get(&session).is_some_and(|(changed, _)| *changed <= zxid) {
                self.sessions.remove(&session);
            }
        }
        &mut self.hints
    }

    /// Whether no transaction in flight changes a node.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether a closeSession for the session is in flight.
    pub fn is_closing(&self, session: SessionId) -> bool {
        self.session_change(session) == Some(SessionChange::Closes)
    }

    fn session_change(&self, session: SessionId) -> Option<SessionChange> {
        self.sessions.get(&session).map(|(_, change)| *change)
    }
}
