//! TLS handshakes whose first flight is answered, and connections whose certificate is verified.
//!
//! An answered handshake has cost a worker's time, so that no flood can fill its queue faster than workers answer. A
//! verified connection has a certificate of the trust store: nothing without one takes its place. If a queue is full, the
//! oldest connection of the address that has most is closed, so that a flood from one address costs the others nothing.
//! Members' addresses and others have separate queues.

use mio::Token;
use ox_zab::Origin;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Advance {
    /// The first flight of the peer was valid, and has been answered.
    Answered,
    /// The peer has proven that it has a certificate of the trust store.
    Verified,
}

/// A connection in one of the queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct NegotiatingPeer {
    pub(super) token: Token,
    pub(super) address: IpAddr,
    /// When it entered its queue.
    pub(super) since_ms: i64,
    pub(super) deadline_ms: i64,
}

#[derive(Default)]
pub(super) struct Negotiating {
    /// By advance, and whether the peers have an address of a member; the oldest first.
    queues: BTreeMap<(Advance, bool), VecDeque<NegotiatingPeer>>,
}

impl Negotiating {
    /// Adds a connection, or moves it to the queue of its advance. Returns the connection that has to be closed instead, if
    /// there are more than `max`.
    pub(super) fn add(&mut self, peer: NegotiatingPeer, advance: Advance, origin: Origin, max: usize) -> Option<Token> {
        self.remove(peer.token);
        let queue = self.queues.entry((advance, origin == Origin::Member)).or_default();
        queue.push_back(peer);
        if queue.len() <= max {
            return None;
        }
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        queue.iter().for_each(|peer| *counts.entry(peer.address).or_default() += 1);
        let oldest_of_most =
            |(at, peer): &(usize, &NegotiatingPeer)| (counts.get(&peer.address).copied(), Reverse(*at));
        let (at, _) = queue.iter().enumerate().max_by_key(oldest_of_most)?;
        queue.remove(at).map(|closed| closed.token)
    }

    /// Whether one more connection whose first flight is answered would close one that is younger than `age_ms`.
    pub(super) fn is_full(&self, origin: Origin, max: usize, now_ms: i64, age_ms: i64) -> bool {
        let queue = self.queues.get(&(Advance::Answered, origin == Origin::Member));
        queue.is_some_and(|queue| {
            max <= queue.len() && queue.front().is_some_and(|oldest| now_ms < oldest.since_ms + age_ms)
        })
    }

    pub(super) fn remove(&mut self, token: Token) {
        self.queues.values_mut().for_each(|queue| queue.retain(|peer| peer.token != token));
    }

    /// Removes and returns the connections whose deadline has passed.
    pub(super) fn expire(&mut self, now_ms: i64) -> Vec<Token> {
        let mut late = Vec::new();
        for queue in self.queues.values_mut() {
            late.extend(queue.iter().filter(|peer| peer.deadline_ms <= now_ms).map(|peer| peer.token));
            queue.retain(|peer| now_ms < peer.deadline_ms);
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 3;

    fn peer(token: usize, host: u8, deadline_ms: i64) -> NegotiatingPeer {
        NegotiatingPeer { token: Token(token), address: [10, 0, 0, host].into(), since_ms: 0, deadline_ms }
    }

    #[test]
    fn full_queue_closes_its_oldest_and_leaves_the_other_queues() {
        let mut queue = Negotiating::default();
        let (answered, member) = (Advance::Answered, Origin::Member);
        assert_eq!(queue.add(peer(1, 1, 10), answered, member, MAX), None);
        assert_eq!(queue.add(peer(2, 1, 10), Advance::Verified, Origin::Other, MAX), None);
        for token in 3..6 {
            assert_eq!(queue.add(peer(token, 1, 20), answered, Origin::Other, MAX), None);
        }
        assert_eq!(queue.add(peer(6, 1, 20), answered, Origin::Other, MAX), Some(Token(3)));
        queue.remove(Token(4));
        assert_eq!(queue.add(peer(7, 1, 20), answered, Origin::Other, MAX), None);
        assert_eq!(queue.expire(10), [Token(1), Token(2)]);
        assert_eq!(queue.expire(20), [Token(5), Token(6), Token(7)]);
    }

    #[test]
    fn full_queue_of_young_connections_has_no_place() {
        let mut queue = Negotiating::default();
        for token in 0..MAX {
            assert!(!queue.is_full(Origin::Member, MAX, 0, 100));
            queue.add(peer(token, 1, 1000), Advance::Answered, Origin::Member, MAX);
        }
        assert!(queue.is_full(Origin::Member, MAX, 99, 100));
        assert!(!queue.is_full(Origin::Member, MAX, 100, 100), "the oldest has had its time");
        assert!(!queue.is_full(Origin::Other, MAX, 99, 100));
    }

    #[test]
    fn address_with_most_connections_loses_its_oldest() {
        let mut queue = Negotiating::default();
        let mut add = |token, host| queue.add(peer(token, host, 10), Advance::Answered, Origin::Member, MAX);
        assert_eq!([add(1, 1), add(2, 2), add(3, 2)], [None; 3]);
        assert_eq!(add(4, 2), Some(Token(2)));
        assert_eq!(add(5, 3), Some(Token(3)), "and not that of address 1, which is older");
        assert_eq!(add(6, 2), Some(Token(4)));
        assert_eq!(add(7, 4), Some(Token(1)), "all have one: the oldest");
    }

    #[test]
    fn flood_of_unverified_peers_does_not_close_a_verified_one() {
        let mut queue = Negotiating::default();
        queue.add(peer(1, 1, 10), Advance::Answered, Origin::Member, MAX);
        assert_eq!(queue.add(peer(1, 1, 10), Advance::Verified, Origin::Member, MAX), None);
        for token in 2..100 {
            assert_ne!(queue.add(peer(token, 1, 10), Advance::Answered, Origin::Member, MAX), Some(Token(1)));
        }
        assert_eq!(queue.expire(10).len(), MAX + 1);
    }
}
