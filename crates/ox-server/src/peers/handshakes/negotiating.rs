//! TLS handshakes whose first flight is answered.
//!
//! Each has cost a worker's time, so that no flood can fill the queue faster than workers answer. If it is full, the
//! oldest is closed; members' addresses and others have separate queues.

use mio::Token;
use ox_zab::Origin;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Negotiating {
    /// With their deadlines, the oldest first.
    members: VecDeque<(Token, i64)>,
    others: VecDeque<(Token, i64)>,
}

impl Negotiating {
    /// Adds a connection. Returns the connection that has to be closed instead, if there are more than `max`.
    pub(super) fn add(&mut self, token: Token, origin: Origin, deadline_ms: i64, max: usize) -> Option<Token> {
        let queue = match origin {
            Origin::Member => &mut self.members,
            Origin::Other => &mut self.others,
        };
        queue.push_back((token, deadline_ms));
        if max < queue.len() { queue.pop_front().map(|(oldest, _)| oldest) } else { None }
    }

    pub(super) fn remove(&mut self, token: Token) {
        self.queues().for_each(|queue| queue.retain(|(of, _)| *of != token));
    }

    /// Removes and returns the connections whose deadline has passed.
    pub(super) fn expire(&mut self, now_ms: i64) -> Vec<Token> {
        let mut late = Vec::new();
        for queue in self.queues() {
            late.extend(queue.iter().filter(|(_, deadline_ms)| *deadline_ms <= now_ms).map(|(token, _)| *token));
            queue.retain(|(_, deadline_ms)| now_ms < *deadline_ms);
        }
        late
    }

    fn queues(&mut self) -> impl Iterator<Item = &mut VecDeque<(Token, i64)>> {
        [&mut self.members, &mut self.others].into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_closes_its_oldest_and_leaves_the_other_queue() {
        let mut queue = Negotiating::default();
        assert_eq!(queue.add(Token(1), Origin::Member, 10, 2), None);
        for token in 2..4 {
            assert_eq!(queue.add(Token(token), Origin::Other, 20, 2), None);
        }
        assert_eq!(queue.add(Token(4), Origin::Other, 20, 2), Some(Token(2)));
        queue.remove(Token(3));
        assert_eq!(queue.add(Token(5), Origin::Other, 20, 2), None);
        assert_eq!(queue.expire(10), [Token(1)]);
        assert_eq!(queue.expire(20), [Token(4), Token(5)]);
    }
}
