//! Revalidation: a learner asks its leader whether sessions are alive, a limited number at a time.
//!
//! When a server stops, all its clients may reconnect to one other server. A leader closes the link of a learner that
//! leaves too many replies unread, so further revalidations wait here, in order.

use super::session_txns::Granted;
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::limits::REVALIDATIONS_IN_FLIGHT_MAX;
use crate::outbox::Outboxes;
use crate::sessions::LastSeen;
use ox_proto::SessionId;
use ox_zab::{LinkId, Message};
use std::collections::VecDeque;
use std::net::IpAddr;

/// A session whose client has reconnected here.
#[derive(Debug)]
pub(super) struct Revalidating {
    pub(super) session: SessionId,
    pub(super) timeout_ms: i32,
    pub(super) by: RequestedBy,
}

/// Where the client is connected.
#[derive(Debug)]
pub(super) enum RequestedBy {
    Conn { conn: ConnId, address: IpAddr, read_only: Option<bool>, last_seen: LastSeen },
    Observer(LinkId),
}

#[derive(Debug, Default)]
pub(super) struct Revalidations {
    /// Sent to the leader, without a reply.
    in_flight: VecDeque<Revalidating>,
    waiting: VecDeque<Revalidating>,
}

impl Revalidations {
    pub(super) fn len(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    fn on_reply(&mut self, session: SessionId) -> Option<Revalidating> {
        let at = self.in_flight.iter().position(|asked| asked.session == session)?;
        self.in_flight.remove(at)
    }
}

impl Replica {
    /// Asks the leader whether a session is alive.
    pub(super) fn revalidate(&mut self, now: Now, leader: LinkId, asked: Revalidating, out: &mut Outboxes) {
        self.evict_owner(asked.session, out);
        self.revalidations.waiting.push_back(asked);
        self.send_revalidations(now, leader);
    }

    fn send_revalidations(&mut self, now: Now, leader: LinkId) {
        while self.revalidations.in_flight.len() < REVALIDATIONS_IN_FLIGHT_MAX
            && let Some(next) = self.revalidations.waiting.pop_front()
        {
            if matches!(next.by, RequestedBy::Conn { conn, .. } if self.conns.get(conn).is_none()) {
                continue; // the client has disconnected
            }
            self.send(now, leader, Message::Revalidate(next.session, next.timeout_ms));
            self.revalidations.in_flight.push_back(next);
        }
    }

    pub(super) fn on_revalidated(&mut self, now: Now, session: SessionId, valid: bool, out: &mut Outboxes) {
        let Some(asked) = self.revalidations.on_reply(session) else { return };
        if let Role::Learner(leader) = self.role {
            self.send_revalidations(now, leader);
        }
        let Revalidating { timeout_ms, by, .. } = asked;
        let (conn, address, read_only, last_seen) = match by {
            RequestedBy::Conn { conn, address, read_only, last_seen } => (conn, address, read_only, last_seen),
            RequestedBy::Observer(link) => {
                if valid {
                    self.evict_owner(session, out);
                    self.observer_sessions.touched.insert(session, timeout_ms);
                    self.observer_sessions.owners.insert(session, Some(link));
                }
                return self.send(now, link, Message::Revalidated(session, valid));
            }
        };
        if self.conns.get(conn).is_none() {
            return;
        }
        if valid {
            self.evict_owner(session, out); // several clients may bring the same session
            self.sessions.add(session, timeout_ms, now.mono_ms, last_seen, Some(conn));
            self.addresses.count(session, address);
            self.resume(conn, Granted { session, timeout_ms, read_only }, out);
        } else {
            self.refuse(conn, read_only, out);
        }
    }
}
