//! Handshakes that wait for the next leader: the first part of elections that clients do not notice.
//!
//! A member that has just lost its leader usually has the next one soon. If it closed new connections until then, all members
//! would refuse clients at the same moment. It keeps their handshakes instead, within a bound, and replies when it serves
//! again. A handshake that is not answered when the leader is lost is kept, too; it starts over. A member that has had no
//! leader since its start, or lost it longer ago, may be cut off from a majority that serves: it refuses, so that clients go
//! there. Nothing is read from a connection that waits.
//!
//! A client may also know of a commit that this server is about to apply. Its handshake waits for that, within the same bound.

use super::conn_states::Conns;
use super::ensemble_member::Todo;
use super::{Replica, Role};
use crate::clock::Now;
use crate::submission::Ask;
use ox_proto::Zxid;
use ox_tree::outbox::Outboxes;
use ox_tree::{ConnId, State};
use std::collections::BTreeMap;

/// A handshake without a reply.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Handshakes are numbered in the order received.
    number: u64,
    since_ms: i64,
    ask: Ask,
}

/// The handshakes that wait for a leader. Their number is bounded by that of connections.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// How long after the loss of the leader a handshake may wait; 0 is not at all.
    limit_ms: i64,
    /// When this member last stopped serving.
    lost_ms: Option<i64>,
    /// By number, with the time at which the wait ends.
    waiting: BTreeMap<u64, (ConnId, i64)>,
    next: u64,
    /// None of them ends before this time.
    due_ms: i64,
    /// None of them can go on before this transaction is applied.
    due_zxid: Zxid,
}

/// No transaction has it.
const NEVER: Zxid = Zxid(i64::MAX);

impl Handshakes {
    pub(super) fn new(limit_ms: i64) -> Self {
        Self { limit_ms, lost_ms: None, waiting: BTreeMap::new(), next: 0, due_ms: i64::MAX, due_zxid: NEVER }
    }

    /// Whether one may go on at a server that serves, and has applied this.
    pub(super) fn are_due(&self, applied: Zxid) -> bool {
        !self.waiting.is_empty() && self.due_zxid <= applied
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        (!self.waiting.is_empty()).then_some(self.due_ms)
    }

    pub(super) fn begin(&mut self, now: Now, ask: Ask) -> Box<Handshake> {
        self.next += 1;
        Box::new(Handshake { number: self.next, since_ms: now.mono_ms, ask })
    }

    pub(super) fn forget(&mut self, handshake: &Handshake) {
        self.waiting.remove(&handshake.number);
    }

    fn is_waiting(&self, handshake: &Handshake) -> bool {
        self.waiting.contains_key(&handshake.number)
    }

    /// Lets a handshake wait for something that began at `from_ms`, and for a transaction. False if it may not, or no longer.
    fn keep(&mut self, now: Now, conn: ConnId, handshake: &Handshake, from_ms: i64, zxid: Zxid) -> bool {
        let Ask::Connect { patience_ms, .. } = &handshake.ask else { return false };
        let until_ms = from_ms.saturating_add(self.limit_ms).min(handshake.since_ms + patience_ms);
        if until_ms <= now.mono_ms {
            return false;
        }
        self.due_ms = self.deadline().map_or(until_ms, |due_ms| due_ms.min(until_ms));
        self.due_zxid = self.due_zxid.min(zxid);
        self.waiting.insert(handshake.number, (conn, until_ms));
        true
    }
}

impl Replica {
    /// Lets a connection's handshake wait if there is no leader. False if there is, or if it may not wait.
    pub(super) fn keep_handshake(&mut self, now: Now, conn: ConnId) -> bool {
        let (Some(handshake), Some(lost_ms)) = (handshake_of(&self.conns, conn), self.handshakes.lost_ms) else {
            return false;
        };
        self.role == Role::None && self.handshakes.keep(now, conn, handshake, lost_ms, Zxid::ZERO)
    }

    /// Lets a handshake wait until a transaction is applied. False if this server does not know of it, or may not wait.
    pub(super) fn keep_until_applied(&mut self, now: Now, conn: ConnId, zxid: Zxid) -> bool {
        let Some(handshake) = handshake_of(&self.conns, conn) else { return false };
        let is_coming = self.is_serving() && zxid <= self.last_made;
        is_coming && self.handshakes.keep(now, conn, handshake, handshake.since_ms, zxid)
    }

    /// The leader is lost; clients were served until now. Handshakes without a reply wait for the next leader.
    pub(super) fn keep_handshakes(&mut self, now: Now) {
        self.handshakes.lost_ms = Some(now.mono_ms);
        for (conn, handshake) in self.conns.all() {
            handshake.into_iter().for_each(|own| _ = self.handshakes.keep(now, conn, own, now.mono_ms, Zxid::ZERO));
        }
    }

    /// Connections whose handshake does not wait.
    pub(super) fn served_conns(&self) -> Vec<ConnId> {
        let waits = |handshake: Option<&Handshake>| handshake.is_some_and(|own| self.handshakes.is_waiting(own));
        self.conns.all().filter(|(_, handshake)| !waits(*handshake)).map(|(conn, _)| conn).collect()
    }

    /// Closes connections whose handshakes have waited long enough.
    pub(super) fn expire_handshakes(&mut self, now: Now) {
        if self.handshakes.deadline().is_none_or(|due_ms| now.mono_ms < due_ms) {
            return;
        }
        let due = self.handshakes.waiting.extract_if(.., |_, (_, until_ms)| *until_ms <= now.mono_ms);
        self.todo.extend(due.map(|(_, (conn, _))| Todo::GiveUp(conn)));
        let left = self.handshakes.waiting.values().map(|(_, until_ms)| *until_ms);
        self.handshakes.due_ms = left.min().unwrap_or(i64::MAX);
    }

    /// Clients are served again, or the state is newer: replies to the handshakes that have waited for that.
    pub(super) fn take_handshakes(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        self.handshakes.due_zxid = NEVER;
        for (conn, _) in std::mem::take(&mut self.handshakes.waiting).into_values() {
            let handshake = handshake_of(&self.conns, conn);
            if let Some(ask) = handshake.map(|handshake| handshake.ask.clone()) {
                self.on_handshake(now, conn, &ask, state, out);
                let is_done = handshake_of(&self.conns, conn).is_none_or(|own| !self.handshakes.is_waiting(own));
                self.tallies.parked += u64::from(is_done);
            }
        }
    }
}

fn handshake_of(conns: &Conns, conn: ConnId) -> Option<&Handshake> {
    conns.get(conn)?.handshake.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::SessionId;
    use ox_tree::auth::Identities;
    use std::net::{IpAddr, Ipv4Addr};

    fn ask(address: IpAddr) -> Ask {
        Ask::Connect {
            session: SessionId::NONE,
            last_zxid_seen: Zxid::ZERO,
            proven: false,
            timeout_ms: 10_000,
            patience_ms: 2_500,
            read_only: None,
            address,
            ids: Identities::of_address(address).into(),
            touch: crate::Touch::default(),
        }
    }

    /// At a server that serves, each transaction that is applied asks.
    #[test]
    fn handshakes_are_run_again_only_when_a_transaction_is_applied_that_one_waits_for() {
        let now = Now { mono_ms: 1000, wall_ms: 0 };
        let (mut handshakes, conn) = (Handshakes::new(2000), ConnId::new(0, 0, 1));
        assert!(!handshakes.are_due(NEVER));
        for zxid in [8, 6, 9] {
            let handshake = handshakes.begin(now, ask(Ipv4Addr::LOCALHOST.into()));
            assert!(handshakes.keep(now, conn, &handshake, now.mono_ms, Zxid(zxid)));
        }
        assert_eq!([5, 6].map(|applied| handshakes.are_due(Zxid(applied))), [false, true]);
        let handshake = handshakes.begin(now, ask(Ipv4Addr::LOCALHOST.into()));
        assert!(handshakes.keep(now, conn, &handshake, now.mono_ms, Zxid::ZERO));
        assert!(handshakes.are_due(Zxid(1)), "one waits for a leader only");
    }
}
