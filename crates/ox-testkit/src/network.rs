//! The network between members of an ensemble: every direction between two members can fail.

use crate::proxy::{Direction, Filters, LinkState, Proxy, ProxySettings};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// All directions between the members. Each member reaches every other one through proxies of its own.
#[derive(Clone, Debug)]
pub struct Network {
    members: usize,
    directions: Arc<Vec<Direction>>,
    listen: Ipv4Addr,
    connect_timeout: Duration,
}

impl Network {
    pub fn new(members: usize) -> Self {
        Self::listening_on(Ipv4Addr::LOCALHOST, members, Duration::ZERO)
    }

    /// With proxies at another address; see [`ProxySettings`].
    pub fn listening_on(listen: Ipv4Addr, members: usize, connect_timeout: Duration) -> Self {
        let directions = Arc::new((0..members * members).map(|_| Direction::default()).collect());
        Self { members, directions, listen, connect_timeout }
    }

    fn direction(&self, from: usize, to: usize) -> &Direction {
        &self.directions[from * self.members + to]
    }

    pub fn set(&self, from: usize, to: usize, state: LinkState) {
        self.direction(from, to).set(state);
    }

    /// Sets both directions between all members of one group and all of the other.
    pub fn part(&self, one: &[usize], other: &[usize], state: LinkState) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b))) {
            self.set(a, b, state);
            self.set(b, a, state);
        }
    }

    /// Holds back everything that other members send to this one.
    pub fn deafen(&self, member: usize) {
        (0..self.members).for_each(|other| self.set(other, member, LinkState::Silent));
    }

    /// Holds back everything that this member sends to others.
    pub fn mute(&self, member: usize) {
        (0..self.members).for_each(|other| self.set(member, other, LinkState::Silent));
    }

    /// Holds back everything between this member and all others.
    pub fn isolate(&self, member: usize) {
        self.deafen(member);
        self.mute(member);
    }

    /// Opens all directions. The proxies deliver the bytes that they hold.
    pub fn heal(&self) {
        self.directions.iter().for_each(|direction| direction.set(LinkState::Open));
    }

    /// Stalls all existing connections; see [`Direction::stall`].
    pub fn stall(&self) {
        self.directions.iter().for_each(Direction::stall);
    }

    /// The address at which `from` reaches an address of `to`.
    pub fn proxy(
        &self,
        from: usize,
        to: usize,
        target: SocketAddr,
        filters: impl Fn(u64) -> Filters + Send + Sync + 'static,
    ) -> SocketAddr {
        let settings = ProxySettings {
            listen: self.listen,
            connect_timeout: self.connect_timeout,
            requests: self.direction(from, to).clone(),
            replies: self.direction(to, from).clone(),
        };
        Proxy::with_settings(target, settings, filters).address()
    }
}
