//! Whom an observer connects to: the leader, or one of the followers that serve observers, each in its turn.

use super::addresses::Places;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Role};
use rand::seq::SliceRandom;
use std::time::Duration;

/// Servers to try, in an order of this server's own, so that observers spread over them.
pub(super) struct Masters {
    is_observer: bool,
    others: Vec<(ServerId, Vec<Address>)>,
    next: usize,
    delay_ms: u64,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) server: ServerId,
    pub(super) addresses: Vec<Address>,
    /// To be waited first.
    pub(super) pause: Duration,
}

impl Masters {
    pub(super) fn new(places: &Places, delay_ms: u64) -> Self {
        let mut masters = Self { is_observer: false, others: Vec::new(), next: 0, delay_ms };
        masters.reconfigure(places);
        masters
    }

    /// Servers are elsewhere, or others.
    pub(super) fn reconfigure(&mut self, places: &Places) {
        self.is_observer = places.mine().role == Role::Observer;
        let mut others = places.observer_masters();
        let is_new = |other| !self.others.contains(other);
        if others.len() != self.others.len() || others.iter().any(is_new) {
            others.shuffle(&mut rand::rng());
            (self.others, self.next) = (others, 0);
        }
    }

    /// Whom to dial while `leader` leads.
    pub(super) fn choose(&mut self, leader: ServerId, places: &Places) -> Option<Choice> {
        if let Some(other) = self.choose_other() {
            return Some(other);
        }
        let pause = if self.is_observer { self.pause() } else { Duration::ZERO };
        Some(Choice { server: leader, addresses: places.quorum_addresses(leader)?, pause })
    }

    fn choose_other(&mut self) -> Option<Choice> {
        let (server, addresses) = self.others.get(self.next % self.others.len().max(1)).filter(|_| self.is_observer)?;
        let (server, addresses) = (*server, addresses.clone());
        let is_again = 0 < self.next && self.next.is_multiple_of(self.others.len());
        self.next += 1;
        Some(Choice { server, addresses, pause: if is_again { self.pause() } else { Duration::ZERO } })
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(if self.delay_ms == 0 { 0 } else { rand::random_range(0..self.delay_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observers_go_round_and_rest_after_each_round() {
        let others = (1..=3).map(|id| (ServerId(id), Vec::new())).collect();
        let mut masters = Masters { is_observer: true, others, next: 0, delay_ms: 1 << 40 };
        let mut choose = || masters.choose_other().map(|choice| (choice.server.0, choice.pause.is_zero()));
        let expected = [(1, true), (2, true), (3, true), (1, false), (2, true), (3, true), (1, false)];
        for expected in expected {
            assert_eq!(choose(), Some(expected));
        }
    }
}
