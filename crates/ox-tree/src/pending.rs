//! What writes will find that are prepared before earlier ones are applied.
//!
//! The proposer validates against the tree plus this overlay. It holds every node that a transaction on its way changes:
//! counters, list and digest, never data. Entries go when their transaction is applied; while nothing is on its way
//! the overlay costs one branch.

mod changes;
mod view;

use crate::acl_table::AclList;
use crate::index::PathHash;
use crate::node::NodeId;
use changes::Changes;
pub use changes::Hints;
use ox_proto::stat::StatPersisted;
use ox_proto::{SessionId, Zxid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
pub(crate) use view::NewProjected;
pub use view::{Stamp, View};

/// A node as a write finds it.
#[derive(Clone, Debug)]
pub(crate) struct Projected {
    hash: PathHash,
    id: NodeId,
    pub(crate) stat: StatPersisted,
    /// The parent counter that names sequential children. It wraps where the stored cversion sticks.
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
    Begins,
    Ends,
}

/// The overlay.
#[derive(Debug, Default)]
pub struct Pending {
    changes: Changes,
    /// Ephemeral nodes on their way, which a close of their session must not miss.
    ephemerals: VecDeque<(Zxid, SessionId, String)>,
    /// Sessions whose beginning or end is on its way.
    sessions: BTreeMap<SessionId, (Zxid, SessionChange)>,
    session_changes: VecDeque<(Zxid, SessionId)>,
    /// The tree's digest after all of them.
    digest: u64,
    hints: Hints,
}

impl Pending {
    /// Forgets what transactions up to `zxid` change, which are part of the state now or at once. Tells where the nodes
    /// are.
    pub fn applied(&mut self, zxid: Zxid) -> &mut Hints {
        self.changes.applied(zxid, &mut self.hints);
        while self.ephemerals.pop_front_if(|(changed, ..)| *changed <= zxid).is_some() {}
        while let Some((_, session)) = self.session_changes.pop_front_if(|(changed, _)| *changed <= zxid) {
            if self.sessions.get(&session).is_some_and(|(changed, _)| *changed <= zxid) {
                self.sessions.remove(&session);
            }
        }
        &mut self.hints
    }

    /// True when no write on its way changes a node.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether a close of the session is on its way.
    pub fn is_closing(&self, session: SessionId) -> bool {
        self.session_change(session) == Some(SessionChange::Ends)
    }

    fn session_change(&self, session: SessionId) -> Option<SessionChange> {
        self.sessions.get(&session).map(|(_, change)| *change)
    }
}
