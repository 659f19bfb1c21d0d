//! Sessions that clients bring to a learner: the leader is asked for them, a bounded number at a time.
//!
//! When the clients of a server that is gone move to another one, there are as many as it had. A leader closes the link of a
//! learner that leaves too many replies unread, so the rest waits here, in order.

use super::session_txns::Granted;
use super::{Replica, Role};
use crate::clock::Now;
use crate::limits::REVALIDATIONS_IN_FLIGHT_MAX;
use crate::sessions::Touch;
use ox_proto::SessionId;
use ox_tree::ConnId;
use ox_tree::outbox::Outboxes;
use ox_zab::{LinkId, Message};
use std::collections::VecDeque;
use std::net::IpAddr;

/// A session that a client has come with, which the leader is asked for.
#[derive(Debug)]
pub(super) struct Revalidating {
    pub(super) session: SessionId,
    pub(super) timeout_ms: i32,
    pub(super) by: AskedBy,
}

/// Where the client is.
#[derive(Debug)]
pub(super) enum AskedBy {
    Conn { conn: ConnId, address: IpAddr, read_only: Option<bool>, touch: Touch },
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
    /// Asks the leader for a session.
    pub(super) fn revalidate(&mut self, leader: LinkId, asked: Revalidating, out: &mut Outboxes) {
        self.take_away(asked.session, out);
        self.revalidations.waiting.push_back(asked);
        self.send_revalidations(leader);
    }

    fn send_revalidations(&mut self, leader: LinkId) {
        while self.revalidations.in_flight.len() < REVALIDATIONS_IN_FLIGHT_MAX
            && let Some(next) = self.revalidations.waiting.pop_front()
        {
            if matches!(next.by, AskedBy::Conn { conn, .. } if self.conns.get(conn).is_none()) {
                continue; // its client has not waited
            }
            self.send(leader, Message::Revalidate(next.session, next.timeout_ms));
            self.revalidations.in_flight.push_back(next);
        }
    }

    /// The leader has replied.
    pub(super) fn on_revalidated(&mut self, now: Now, session: SessionId, valid: bool, out: &mut Outboxes) {
        let Some(asked) = self.revalidations.on_reply(session) else { return };
        if let Role::Learner(leader) = self.role {
            self.send_revalidations(leader);
        }
        let Revalidating { timeout_ms, by, .. } = asked;
        let (conn, address, read_only, touch) = match by {
            AskedBy::Conn { conn, address, read_only, touch } => (conn, address, read_only, touch),
            AskedBy::Observer(link) => {
                if valid {
                    self.take_away(session, out);
                    self.relayed.heard.insert(session, timeout_ms);
                    self.relayed.homes.insert(session, Some(link));
                }
                return self.send(link, Message::Revalidated(session, valid));
            }
        };
        if self.conns.get(conn).is_none() {
            return;
        }
        if valid {
            self.take_away(session, out); // several may ask at the same time
            self.sessions.add(session, timeout_ms, now.mono_ms, touch, Some(conn));
            self.addresses.count(session, address);
            self.resume(conn, Granted { session, timeout_ms, read_only }, out);
        } else {
            self.refuse(conn, read_only, out);
        }
    }
}
