//! Syncs in flight to the leader, and later requests of their connections.
//!
//! Requests after a sync wait until it is replied to, writes too, so that the replies stay in order whatever the leader
//! does meanwhile.

use super::session_txns::Granted;
use crate::ConnId;
use crate::submission::Submission;
use ox_proto::{SessionId, Zxid};
use ox_zab::LinkId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An entry of a submission.
pub(super) type Place = (Arc<Submission>, usize);

/// What waits for a proof of leadership, or for the leader's reply.
#[derive(Debug)]
pub(super) enum SyncWaiter {
    /// A sync of a client of this server.
    Conn(ConnId, Place),
    /// A sync of a learner's client.
    Link(LinkId),
    /// A client of this server whose session has expired, if this server still leads.
    ExpiredConn(ConnId, Option<bool>),
    /// A client of this server whose session is alive, once all proposals are committed.
    ResumedConn(ConnId, Granted),
    /// A learner's revalidation, with its result.
    Revalidation(LinkId, SessionId, bool),
}

#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Number of the first that waits.
    first: u64,
    waiting: VecDeque<SyncWaiter>,
    /// Syncs that the leader has replied to, which wait until the state has applied this transaction.
    confirmed: VecDeque<(Zxid, ConnId, Place)>,
    behind: BTreeMap<ConnId, VecDeque<Place>>,
}

impl Syncs {
    /// Returns the number of the sync.
    pub(super) fn push(&mut self, waiter: SyncWaiter) -> u64 {
        if let SyncWaiter::Conn(conn, _) = waiter {
            self.behind.insert(conn, VecDeque::new());
        }
        self.waiting.push_back(waiter);
        self.first + self.waiting.len() as u64 - 1
    }

    /// Number of syncs without a reply of the leader.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a revalidation of this learner waits for its reply.
    pub(super) fn has_revalidation_of(&self, link: LinkId) -> bool {
        self.waiting.iter().any(|waiter| matches!(waiter, SyncWaiter::Revalidation(at, ..) if *at == link))
    }

    /// Whether later requests of a connection have to wait.
    pub(super) fn blocks(&self, conn: ConnId) -> bool {
        !self.behind.is_empty() && self.behind.contains_key(&conn)
    }

    pub(super) fn hold(&mut self, conn: ConnId, submission: Arc<Submission>, at: usize) {
        if let Some(behind) = self.behind.get_mut(&conn) {
            behind.push_back((submission, at));
        }
    }

    /// The leader has replied to the first. A client's sync waits until everything up to `after` is applied; anything
    /// else is returned.
    pub(super) fn confirm(&mut self, after: Zxid) -> Option<SyncWaiter> {
        self.first += u64::from(!self.waiting.is_empty());
        match self.waiting.pop_front()? {
            SyncWaiter::Conn(conn, place) => {
                self.confirmed.push_back((after, conn, place));
                None
            }
            other @ (SyncWaiter::Link(_)
            | SyncWaiter::ExpiredConn(..)
            | SyncWaiter::ResumedConn(..)
            | SyncWaiter::Revalidation(..)) => Some(other),
        }
    }

    /// The next sync that can be replied to, with the requests that wait for it.
    pub(super) fn pop(&mut self, applied: Zxid) -> Option<(ConnId, Place, VecDeque<Place>)> {
        let (_, conn, place) = self.confirmed.pop_front_if(|(after, ..)| *after <= applied)?;
        Some((conn, place, self.behind.remove(&conn).unwrap_or_default()))
    }

    /// Whether a sync can be replied to.
    pub(super) fn is_due(&self, applied: Zxid) -> bool {
        self.confirmed.front().is_some_and(|(after, ..)| *after <= applied)
    }

    /// A connection was closed: drops its waiting requests.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.behind.remove(&conn);
    }

    /// Drops all syncs; they get no reply.
    pub(super) fn clear(&mut self) {
        self.first += self.waiting.len() as u64;
        self.waiting.clear();
        self.confirmed.clear();
        self.behind.clear();
    }
}
