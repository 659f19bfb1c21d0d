//! Syncs on their way to the leader and back, and what their connections sent behind them.
//!
//! Everything behind a sync waits until it is answered, writes too: so its answer comes first whatever the leader
//! does in between.

use super::session_txns::Granted;
use crate::submission::Submission;
use ox_proto::{SessionId, Zxid};
use ox_tree::ConnId;
use ox_zab::LinkId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An item of a submission.
pub(super) type Place = (Arc<Submission>, usize);

/// Who asked.
#[derive(Debug)]
pub(super) enum Asker {
    /// A client of this server.
    Conn(ConnId, Place),
    /// A learner, for a client of its own.
    Link(LinkId),
    /// A client of this server whose session is gone, if this server still leads.
    Gone(ConnId, Option<bool>),
    /// A client of this server whose session lives, if what was proposed is agreed on.
    Lives(ConnId, Granted),
    /// A learner, for a session that its client has come with: whether that lives.
    LivesAt(LinkId, SessionId, bool),
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Number of the first that waits.
    first: u64,
    waiting: VecDeque<Asker>,
    /// Answered by the leader; told when the state has come so far.
    confirmed: VecDeque<(Zxid, ConnId, Place)>,
    behind: BTreeMap<ConnId, VecDeque<Place>>,
}

impl Syncs {
    /// Takes one in. Returns its number.
    pub(super) fn push(&mut self, asker: Asker) -> u64 {
        if let Asker::Conn(conn, _) = asker {
            self.behind.insert(conn, VecDeque::new());
        }
        self.waiting.push_back(asker);
        self.first + self.waiting.len() as u64 - 1
    }

    /// How many wait for the leader.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a learner waits to be told of a session.
    pub(super) fn has_lives_at(&self, link: LinkId) -> bool {
        self.waiting.iter().any(|asker| matches!(asker, Asker::LivesAt(at, ..) if *at == link))
    }

    /// Whether what a connection sends now has to wait.
    pub(super) fn blocks(&self, conn: ConnId) -> bool {
        !self.behind.is_empty() && self.behind.contains_key(&conn)
    }

    /// Lets an item wait.
    pub(super) fn hold(&mut self, conn: ConnId, submission: Arc<Submission>, at: usize) {
        if let Some(behind) = self.behind.get_mut(&conn) {
            behind.push_back((submission, at));
        }
    }

    /// The leader has answered the first; a client's is told when everything up to `after` is applied. Whoever else
    /// asked is returned.
    pub(super) fn confirm(&mut self, after: Zxid) -> Option<Asker> {
        self.first += u64::from(!self.waiting.is_empty());
        match self.waiting.pop_front()? {
            Asker::Conn(conn, place) => {
                self.confirmed.push_back((after, conn, place));
                None
            }
            other @ (Asker::Link(_) | Asker::Gone(..) | Asker::Lives(..) | Asker::LivesAt(..)) => Some(other),
        }
    }

    /// The next one that can be told, with what waits behind it.
    pub(super) fn pop(&mut self, applied: Zxid) -> Option<(ConnId, Place, VecDeque<Place>)> {
        let (_, conn, place) = self.confirmed.pop_front_if(|(after, ..)| *after <= applied)?;
        Some((conn, place, self.behind.remove(&conn).unwrap_or_default()))
    }

    /// Whether one can be told.
    pub(super) fn is_due(&self, applied: Zxid) -> bool {
        self.confirmed.front().is_some_and(|(after, ..)| *after <= applied)
    }

    /// A connection is gone: what it sent is of no interest.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.behind.remove(&conn);
    }

    /// Nobody will answer.
    pub(super) fn clear(&mut self) {
        self.first += self.waiting.len() as u64;
        self.waiting.clear();
        self.confirmed.clear();
        self.behind.clear();
    }
}
