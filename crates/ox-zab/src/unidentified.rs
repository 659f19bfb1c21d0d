//! Unidentified connections: which of them stay open, and for how long.
//!
//! ```text
//!                     first bytes              complete hello
//!   accept ─► silent ─────────────► partial ──────────────────► identified
//!               │                      │
//!               └── full: oldest closed┴── deadline: closed
//! ```
//! Addresses of configured members and all other addresses have separate shares, and so have connections that sent
//! nothing and connections with an incomplete hello. A full share closes its oldest connection. So a connection is
//! closed before its deadline only if a whole share of its own kind was accepted after it: other addresses cannot
//! displace a member's connection, and incomplete hellos cannot displace a connection whose hello is still in flight.

use std::collections::VecDeque;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An address of a server of the committed or the proposed ensemble.
    Member,
    /// Any other address, including that of a member behind address translation.
    Other,
}

/// Bounds of one port's unidentified connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnidentifiedLimits {
    /// From accept to the complete hello.
    pub deadline_ms: i64,
    /// Connections of one origin that sent nothing.
    pub silent_max: usize,
    /// Connections of one origin whose hello is incomplete.
    pub partial_max: usize,
}

impl UnidentifiedLimits {
    pub fn connections_max(&self) -> usize {
        2 * (self.silent_max + self.partial_max)
    }
}

#[derive(Debug)]
struct Entry<K> {
    connection: K,
    deadline_ms: i64,
}

/// The connections of one origin, each queue in the order of arrival in it.
#[derive(Debug)]
struct Share<K> {
    silent: VecDeque<Entry<K>>,
    partial: VecDeque<Entry<K>>,
}

/// The unidentified connections of one port; `K` names a connection.
#[derive(Debug)]
pub struct Unidentified<K> {
    limits: UnidentifiedLimits,
    members: Share<K>,
    others: Share<K>,
}

impl<K: Copy + PartialEq> Unidentified<K> {
    pub fn new(limits: UnidentifiedLimits) -> Self {
        let share = || Share { silent: VecDeque::new(), partial: VecDeque::new() };
        Self { limits, members: share(), others: share() }
    }

    pub fn len(&self) -> usize {
        [&self.members, &self.others].into_iter().map(|share| share.silent.len() + share.partial.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connection that [`Self::add`] would close. The caller reads from it first, because its hello may have
    /// arrived meanwhile.
    pub fn next_closed(&self, origin: Origin) -> Option<K> {
        let silent = &self.share(origin).silent;
        silent.front().filter(|_| self.limits.silent_max <= silent.len()).map(|entry| entry.connection)
    }

    /// Adds a connection that has sent nothing yet. Returns the connection that has to be closed instead.
    pub fn add(&mut self, now_ms: i64, connection: K, origin: Origin) -> Option<K> {
        let entry = Entry { connection, deadline_ms: now_ms + self.limits.deadline_ms };
        let max = self.limits.silent_max;
        push(&mut self.share_mut(origin).silent, entry, max)
    }

    /// A connection has sent a part of its hello. Returns the connection that has to be closed instead.
    pub fn on_bytes(&mut self, connection: K) -> Option<K> {
        let max = self.limits.partial_max;
        for share in [&mut self.members, &mut self.others] {
            if let Some(entry) = take(&mut share.silent, connection) {
                return push(&mut share.partial, entry, max);
            }
        }
        None
    }

    /// A connection was identified or closed.
    pub fn remove(&mut self, connection: K) {
        for share in [&mut self.members, &mut self.others] {
            for queue in [&mut share.silent, &mut share.partial] {
                take(queue, connection);
            }
        }
    }

    /// Removes and returns the connections whose deadline has passed. The caller closes them.
    pub fn expire(&mut self, now_ms: i64) -> Vec<K> {
        let mut late = Vec::new();
        for share in [&mut self.members, &mut self.others] {
            for queue in [&mut share.silent, &mut share.partial] {
                late.extend(queue.iter().filter(|entry| entry.deadline_ms <= now_ms).map(|entry| entry.connection));
                queue.retain(|entry| now_ms < entry.deadline_ms);
            }
        }
        late
    }

    fn share(&self, origin: Origin) -> &Share<K> {
        match origin {
            Origin::Member => &self.members,
            Origin::Other => &self.others,
        }
    }

    fn share_mut(&mut self, origin: Origin) -> &mut Share<K> {
        match origin {
            Origin::Member => &mut self.members,
            Origin::Other => &mut self.others,
        }
    }
}

fn push<K: Copy>(queue: &mut VecDeque<Entry<K>>, entry: Entry<K>, max: usize) -> Option<K> {
    let closed = if max <= queue.len() { queue.pop_front().map(|entry| entry.connection) } else { None };
    queue.push_back(entry);
    closed
}

fn take<K: Copy + PartialEq>(queue: &mut VecDeque<Entry<K>>, connection: K) -> Option<Entry<K>> {
    let at = queue.iter().position(|entry| entry.connection == connection)?;
    queue.remove(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UnidentifiedLimits = UnidentifiedLimits { deadline_ms: 2_000, silent_max: 8, partial_max: 3 };

    #[test]
    fn full_share_closes_its_oldest_connection() {
        let mut pool = Unidentified::new(LIMITS);
        assert!((0..8).all(|number| pool.add(0, number, Origin::Other).is_none()));
        assert_eq!(pool.next_closed(Origin::Other), Some(0));
        assert_eq!((pool.add(0, 8, Origin::Other), pool.add(0, 9, Origin::Other)), (Some(0), Some(1)));
        pool.remove(2);
        assert_eq!((pool.next_closed(Origin::Other), pool.add(0, 10, Origin::Other)), (None, None));
        assert_eq!(pool.add(0, 11, Origin::Other), Some(3));
    }

    #[test]
    fn other_addresses_do_not_close_member_connections() {
        let mut pool = Unidentified::new(LIMITS);
        assert_eq!(pool.add(0, -1, Origin::Member), None);
        for number in 0..1_000 {
            assert_ne!(pool.add(0, number, Origin::Other), Some(-1));
            assert_ne!(pool.on_bytes(number), Some(-1));
        }
        assert_eq!(pool.expire(1_999).len(), 0);
        assert!(pool.expire(2_000).contains(&-1), "open until its deadline");
    }

    #[test]
    fn partial_hellos_do_not_close_a_silent_connection_and_end_at_the_deadline() {
        let mut pool = Unidentified::new(LIMITS);
        pool.add(0, -1, Origin::Member);
        for number in 0..6 {
            assert_eq!(pool.add(number, number, Origin::Member), None);
            let closed = pool.on_bytes(number);
            assert_eq!(closed, (3 <= number).then(|| number - 3), "the oldest incomplete hello");
            assert_eq!(pool.on_bytes(number), None, "more bytes give no more time, and no other place");
        }
        assert_eq!(pool.expire(2_000), [-1]);
        assert_eq!((pool.expire(2_004), pool.len()), (vec![3, 4], 1));
    }

    struct Open {
        number: u64,
        since_ms: i64,
        is_member: bool,
        is_partial: bool,
    }

    /// Random accepts, bytes, closes and time: the limits hold, and a connection is closed early only if its share was
    /// filled after it.
    #[test]
    fn random_connections_keep_the_bounds() {
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap_or(0) % below
        };
        let mut pool = Unidentified::new(LIMITS);
        let (mut now_ms, mut number, mut open) = (0, 0, Vec::<Open>::new());
        for _ in 0..20_000 {
            let mut closed = None;
            match next(10) {
                0..=4 => {
                    let is_member = next(4) == 0;
                    closed = pool.add(now_ms, number, if is_member { Origin::Member } else { Origin::Other });
                    open.push(Open { number, since_ms: now_ms, is_member, is_partial: false });
                    number += 1;
                }
                5..=6 if !open.is_empty() => {
                    let at = next(open.len());
                    closed = pool.on_bytes(open[at].number);
                    open[at].is_partial = true;
                }
                7 if !open.is_empty() => pool.remove(open.swap_remove(next(open.len())).number),
                _ => now_ms += i64::try_from(next(300)).unwrap_or(0),
            }
            if let Some(closed) = closed {
                let at = open.iter().position(|open| open.number == closed).expect("it was open");
                let closed = open.swap_remove(at);
                let kind = |open: &&Open| (open.is_member, open.is_partial) == (closed.is_member, closed.is_partial);
                let max = if closed.is_partial { LIMITS.partial_max } else { LIMITS.silent_max };
                assert_eq!(open.iter().filter(kind).count(), max, "closed although its share was not full");
                let is_oldest = open.iter().filter(kind).all(|open| closed.number < open.number);
                assert!(closed.is_partial || is_oldest);
            }
            let late = pool.expire(now_ms);
            let is_late = |open: &Open| open.since_ms + LIMITS.deadline_ms <= now_ms;
            assert!(late.iter().all(|late| open.iter().any(|open| open.number == *late && is_late(open))));
            open.retain(|open| !late.contains(&open.number));
            assert!(!open.iter().any(is_late), "a connection outlives its deadline");
            assert_eq!(pool.len(), open.len());
            assert!(pool.len() <= LIMITS.connections_max());
        }
    }
}
