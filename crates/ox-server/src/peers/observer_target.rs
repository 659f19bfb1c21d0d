//! The server that a learner links to: the leader or, for an observer, one of the observer masters in turn.

use super::addresses::EnsembleAddresses;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Role};
use rand::seq::SliceRandom;
use std::time::Duration;

/// Observer masters in a random order, so that observers spread over them.
pub(super) struct ObserverTargets {
    is_observer: bool,
    masters: Vec<(ServerId, Vec<Address>)>,
    next: usize,
    delay_ms: u64,
}

/// The server to dial for a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkTarget {
    pub(super) server: ServerId,
    pub(super) addresses: Vec<Address>,
    /// How long to wait before dialling.
    pub(super) pause: Duration,
}

impl ObserverTargets {
    pub(super) fn new(addresses: &EnsembleAddresses, delay_ms: u64) -> Self {
        let mut observer_targets = Self { is_observer: false, masters: Vec::new(), next: 0, delay_ms };
        observer_targets.reconfigure(addresses);
        observer_targets
    }

    /// Applies a new configuration.
    pub(super) fn reconfigure(&mut self, addresses: &EnsembleAddresses) {
        self.is_observer = addresses.own().role == Role::Observer;
        let mut masters = addresses.observer_masters();
        let is_new = |master| !self.masters.contains(master);
        if masters.len() != self.masters.len() || masters.iter().any(is_new) {
            masters.shuffle(&mut rand::rng());
            (self.masters, self.next) = (masters, 0);
        }
    }

    /// The server to dial while `leader` leads.
    pub(super) fn choose(&mut self, leader: ServerId, addresses: &EnsembleAddresses) -> Option<LinkTarget> {
        if let Some(master) = self.choose_observer_master() {
            return Some(master);
        }
        let pause = if self.is_observer { self.pause() } else { Duration::ZERO };
        Some(LinkTarget { server: leader, addresses: addresses.quorum_addresses(leader)?, pause })
    }

    fn choose_observer_master(&mut self) -> Option<LinkTarget> {
        let (server, addresses) =
            self.masters.get(self.next % self.masters.len().max(1)).filter(|_| self.is_observer)?;
        let (server, addresses) = (*server, addresses.clone());
        let is_new_round = 0 < self.next && self.next.is_multiple_of(self.masters.len());
        self.next += 1;
        Some(LinkTarget { server, addresses, pause: if is_new_round { self.pause() } else { Duration::ZERO } })
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(if self.delay_ms == 0 { 0 } else { rand::random_range(0..self.delay_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observer_tries_all_masters_and_pauses_after_each_round() {
        let masters = (1..=3).map(|id| (ServerId(id), Vec::new())).collect();
        let mut observer_targets = ObserverTargets { is_observer: true, masters, next: 0, delay_ms: 1 << 40 };
        let mut choose =
            || observer_targets.choose_observer_master().map(|choice| (choice.server.0, choice.pause.is_zero()));
        let expected = [(1, true), (2, true), (3, true), (1, false), (2, true), (3, true), (1, false)];
        for expected in expected {
            assert_eq!(choose(), Some(expected));
        }
    }
}
