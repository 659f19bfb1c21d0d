//! Parked handshakes: clients wait for the next leader instead of being refused.
//!
//! A member that has lost its leader usually has a new one soon. If it closed new connections until then, all members
//! would refuse clients at the same time. Instead it parks their handshakes for a limited time, and replies when it
//! serves again. A handshake without a reply when the leader is lost is parked too, and starts over. A member that has
//! had no leader since its start, or lost it longer ago, may be partitioned from a majority that serves; it refuses, so
//! that clients connect there. Nothing is read from a connection with a parked handshake.
//!
//! A client may also know a commit that this server is about to apply. Its handshake waits for that, for the same
//! limited time.

use super::conn_states::Conns;
use super::{Replica, Role};
use crate::ConnId;
use crate::clock::Now;
use crate::outbox::Outboxes;
use crate::submission::ClientInput;
use ox_proto::Zxid;
use ox_tree::State;
use ox_zab::Epoch;
use std::collections::BTreeMap;

/// A handshake without a reply.
#[derive(Debug)]
pub(super) struct Handshake {
    /// In the order received.
    number: u64,
    since_ms: i64,
    input: ClientInput,
}

/// The parked handshakes. There are at most as many as connections.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// How long after the loss of the leader a handshake may wait; 0 means not at all.
    limit_ms: i64,
    /// When this member last stopped serving.
    lost_ms: Option<i64>,
    /// By number, with the end of the wait.
    waiting: BTreeMap<u64, (ConnId, i64)>,
    next: u64,
    /// No wait ends before this time.
    due_ms: i64,
    /// No handshake waits for an earlier transaction than this.
    due_zxid: Zxid,
}

/// Larger than the zxid of any transaction.
const NEVER: Zxid = Zxid(i64::MAX);

impl Handshakes {
    pub(super) fn new(limit_ms: i64) -> Self {
        Self { limit_ms, lost_ms: None, waiting: BTreeMap::new(), next: 0, due_ms: i64::MAX, due_zxid: NEVER }
    }

    /// Whether handshakes may wait at all.
    pub(super) fn may_wait(&self) -> bool {
        0 < self.limit_ms
    }

    /// Whether a handshake may be ready at a server that serves and has applied this transaction.
    pub(super) fn are_due(&self, applied: Zxid) -> bool {
        !self.waiting.is_empty() && self.due_zxid <= applied
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        (!self.waiting.is_empty()).then_some(self.due_ms)
    }

    pub(super) fn begin(&mut self, now: Now, input: ClientInput) -> Box<Handshake> {
        self.next += 1;
        Box::new(Handshake { number: self.next, since_ms: now.mono_ms, input })
    }

    pub(super) fn forget(&mut self, handshake: &Handshake) {
        self.waiting.remove(&handshake.number);
    }

    fn is_waiting(&self, handshake: &Handshake) -> bool {
        self.waiting.contains_key(&handshake.number)
    }

    /// Parks a handshake for an event at `from_ms`, and for a transaction. False if it may not wait, or no longer.
    fn keep(&mut self, now: Now, conn: ConnId, handshake: &Handshake, from_ms: i64, zxid: Zxid) -> bool {
        let ClientInput::Connect { patience_ms, .. } = &handshake.input else { return false };
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
    /// Parks a handshake if there is no leader. False if there is one, or if the handshake may not wait.
    pub(super) fn keep_handshake(&mut self, now: Now, conn: ConnId) -> bool {
        let (Some(handshake), Some(lost_ms)) = (handshake_of(&self.conns, conn), self.handshakes.lost_ms) else {
            return false;
        };
        self.role == Role::None && self.handshakes.keep(now, conn, handshake, lost_ms, Zxid::ZERO)
    }

    /// Parks a handshake until a transaction is applied. False if the transaction is unknown here, or the handshake may
    /// not wait.
    pub(super) fn keep_until_applied(&mut self, now: Now, conn: ConnId, zxid: Zxid) -> bool {
        let Some(handshake) = handshake_of(&self.conns, conn) else { return false };
        let is_coming = self.is_serving() && zxid <= self.last_proposed_zxid;
        is_coming && self.handshakes.keep(now, conn, handshake, handshake.since_ms, zxid)
    }

    /// Whether a transaction that is not in the state can never be: a server that serves in an epoch has applied all
    /// commits of earlier epochs. Only a read-only server shows such a transaction. A client that has seen it there
    /// must not have to wait for the next write before a server accepts it.
    pub(super) fn was_never_committed(&self, zxid: Zxid) -> bool {
        self.is_serving() && Epoch::of(zxid) < self.peer.status().epochs.current
    }

    /// The leader is lost. Parks all handshakes without a reply.
    pub(super) fn keep_handshakes(&mut self, now: Now) {
        self.handshakes.lost_ms = Some(now.mono_ms);
        for (conn, handshake) in self.conns.all() {
            handshake.into_iter().for_each(|own| _ = self.handshakes.keep(now, conn, own, now.mono_ms, Zxid::ZERO));
        }
    }

    /// Closes all connections without a parked handshake. Their watches are removed when they are closed, and may be
    /// read until then.
    pub(super) fn close_all(&mut self, out: &mut Outboxes) {
        let waits = |handshake: Option<&Handshake>| handshake.is_some_and(|own| self.handshakes.is_waiting(own));
        let served = self.conns.all().filter(|(_, handshake)| !waits(*handshake)).map(|(conn, _)| conn);
        for conn in served.collect::<Vec<_>>() {
            self.close(conn, out);
        }
    }

    /// Closes connections whose handshakes have waited long enough.
    pub(super) fn expire_handshakes(&mut self, now: Now, out: &mut Outboxes) {
        if self.handshakes.deadline().is_none_or(|due_ms| now.mono_ms < due_ms) {
            return;
        }
        let due = self.handshakes.waiting.extract_if(.., |_, (_, until_ms)| *until_ms <= now.mono_ms);
        for (_, (conn, _)) in due.collect::<Vec<_>>() {
            self.close(conn, out);
        }
        let left = self.handshakes.waiting.values().map(|(_, until_ms)| *until_ms);
        self.handshakes.due_ms = left.min().unwrap_or(i64::MAX);
    }

    /// Processes parked handshakes again, because clients are served again or the state is newer.
    pub(super) fn take_handshakes(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        self.handshakes.due_zxid = NEVER;
        for (conn, _) in std::mem::take(&mut self.handshakes.waiting).into_values() {
            let handshake = handshake_of(&self.conns, conn);
            if let Some(input) = handshake.map(|handshake| handshake.input.clone()) {
                self.on_handshake(now, conn, &input, state, out);
                let is_done = handshake_of(&self.conns, conn).is_none_or(|own| !self.handshakes.is_waiting(own));
                self.counters.parked += u64::from(is_done);
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

    fn input(address: IpAddr) -> ClientInput {
        ClientInput::Connect {
            session: SessionId::NONE,
            last_zxid_seen: Zxid::ZERO,
            proven: false,
            timeout_ms: 10_000,
            patience_ms: 2_500,
            read_only: None,
            address,
            ids: Identities::of_address(address).into(),
            last_seen: crate::LastSeen::default(),
        }
    }

    /// At a server that serves, this is checked after each applied transaction.
    #[test]
    fn parked_handshakes_are_due_after_awaited_transaction() {
        let now = Now { mono_ms: 1000, wall_ms: 0 };
        let (mut handshakes, conn) = (Handshakes::new(2000), ConnId::new(0, 0, 1));
        assert!(!handshakes.are_due(NEVER));
        for zxid in [8, 6, 9] {
            let handshake = handshakes.begin(now, input(Ipv4Addr::LOCALHOST.into()));
            assert!(handshakes.keep(now, conn, &handshake, now.mono_ms, Zxid(zxid)));
        }
        assert_eq!([5, 6].map(|applied| handshakes.are_due(Zxid(applied))), [false, true]);
        let handshake = handshakes.begin(now, input(Ipv4Addr::LOCALHOST.into()));
        assert!(handshakes.keep(now, conn, &handshake, now.mono_ms, Zxid::ZERO));
        assert!(handshakes.are_due(Zxid(1)), "one waits for a leader only");
    }
}
