//! Connecting to servers. While a connect is unanswered, further ones follow it: after a packet loss the kernel repeats
//! a SYN only after pauses of 1, 2 and 4 s, and a network that is back should be noticed sooner. Where a server has
//! several addresses, all are tried at the same time. The first connection that opens is used. A server that is in no
//! configuration gets one connect to each of a few addresses: any host may claim to be one, and name the addresses of
//! other hosts.

use super::Tokens;
use super::resolver::Resolver;
use crate::limits::{CONNECT_RETRY, CONNECTS_MAX, UNKNOWN_ADDRESSES_MAX, UNKNOWN_DIALS_MAX};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::Address;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server and the port to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Election(ServerId),
    /// The election port of a server that is in no configuration.
    Unknown(ServerId),
    Leader(ServerId),
}

/// The result of a dial.
pub(super) struct Dialed {
    pub(super) target: Target,
    /// The cause if no address could be reached in time.
    pub(super) stream: Result<TcpStream, String>,
}

struct Dial {
    addresses: Vec<Address>,
    starts_at: Instant,
    /// When the next connects are started.
    next_at: Instant,
    ends_at: Instant,
    /// Whether the first lookup of a host name is pending.
    is_pending: bool,
    /// Addresses of an unknown server that were tried.
    tried: Vec<SocketAddr>,
    /// Why the last connect failed.
    failed: Option<String>,
}

impl Dial {
    /// Whether an address of an unknown server may be tried now.
    fn may_try(&mut self, address: SocketAddr) -> bool {
        let is_new = !self.tried.contains(&address) && self.tried.len() < UNKNOWN_ADDRESSES_MAX;
        self.tried.extend(is_new.then_some(address));
        is_new
    }
}

struct Connect {
    target: Target,
    address: SocketAddr,
    stream: TcpStream,
}

/// Runs at most one dial per target.
pub(super) struct Dialer {
    pub(super) resolver: Resolver,
    election_timeout: Duration,
    leader_timeout: Duration,
    dials: BTreeMap<Target, Dial>,
    /// Newer connects have larger tokens.
    connects: BTreeMap<Token, Connect>,
    done: Vec<Dialed>,
}

impl Dialer {
    pub(super) fn new(resolver: Resolver, member: &MemberConfig) -> Self {
        let election_timeout = Duration::from_millis(member.cnx_timeout_ms.unsigned_abs());
        let leader_timeout = Duration::from_millis(member.connect_ms.max(1).unsigned_abs());
        Self::with(resolver, election_timeout, leader_timeout)
    }

    pub(super) fn with(resolver: Resolver, election_timeout: Duration, leader_timeout: Duration) -> Self {
        let (dials, connects, done) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { resolver, election_timeout, leader_timeout, dials, connects, done }
    }

    pub(super) fn is_dialing(&self, target: Target) -> bool {
        self.dials.contains_key(&target)
    }

    /// Starts a dial after a pause, unless one is active.
    pub(super) fn dial(&mut self, target: Target, addresses: Vec<Address>, pause: Duration, now: Instant) {
        let unknown = self.dials.keys().filter(|target| matches!(target, Target::Unknown(_))).count();
        if self.is_dialing(target) || (matches!(target, Target::Unknown(_)) && UNKNOWN_DIALS_MAX <= unknown) {
            return;
        }
        let timeout = match target {
            Target::Election(_) | Target::Unknown(_) => self.election_timeout,
            Target::Leader(_) => self.leader_timeout,
        };
        let (starts_at, ends_at) = (now + pause, now + pause + timeout);
        let (is_pending, tried, failed) = (false, Vec::new(), None);
        let dial = Dial { addresses, starts_at, next_at: starts_at, ends_at, is_pending, tried, failed };
        self.dials.insert(target, dial);
    }

    /// Starts the next connect immediately, because the target has just connected to this server.
    pub(super) fn hurry(&mut self, target: Target, now: Instant) {
        if let Some(dial) = self.dials.get_mut(&target) {
            dial.next_at = dial.next_at.min(now.max(dial.starts_at));
        }
    }

    /// Starts the connects that are due.
    pub(super) fn run_iteration(&mut self, now: Instant, tokens: &mut Tokens, registry: &Registry) {
        self.resolver.take(now);
        for target in self.dials.keys().copied().collect::<Vec<_>>() {
            let Some(dial) = self.dials.get_mut(&target).filter(|dial| dial.next_at <= now || dial.ends_at <= now)
            else {
                continue;
            };
            if dial.ends_at <= now {
                self.end(target, Err("no reply in time".to_owned()));
                continue;
            }
            let found: Vec<_> =
                dial.addresses.iter().map(|at| (self.resolver.look_up(&at.host, now), at.port)).collect();
            dial.is_pending = found.iter().any(|(found, _)| found.is_none());
            let has_found = found.iter().any(|(found, _)| found.is_some());
            dial.next_at = if dial.is_pending && !has_found { now } else { now + CONNECT_RETRY };
            let found = found.into_iter().flat_map(|(found, port)| {
                found.unwrap_or_default().into_iter().map(move |address| at_port(address, port))
            });
            let mut found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                dial.failed = Some("unknown host".to_owned());
            }
            if matches!(target, Target::Unknown(_)) {
                found.retain(|at| dial.may_try(*at));
            }
            for address in found {
                self.connect(target, address, tokens.next(), registry);
            }
            self.end_if_failed(target);
        }
    }

    fn connect(&mut self, target: Target, address: SocketAddr, token: Token, registry: &Registry) {
        let older: Vec<Token> =
            self.connects_of(target).filter(|(_, of)| of.address == address).map(|(at, _)| *at).collect();
        if let Some(oldest) = older.first().filter(|_| CONNECTS_MAX <= older.len()) {
            self.connects.remove(oldest);
        }
        let mut stream = match TcpStream::connect(address) {
            Ok(stream) => stream,
            Err(error) => return self.note_failure(target, address, &error),
        };
        if registry.register(&mut stream, token, Interest::WRITABLE).is_ok() {
            self.connects.insert(token, Connect { target, address, stream });
        }
    }

    fn connects_of(&self, target: Target) -> impl Iterator<Item = (&Token, &Connect)> {
        self.connects.iter().filter(move |(_, connect)| connect.target == target)
    }

    /// Handles a connect that has finished; false if the token belongs to none.
    pub(super) fn on_ready(&mut self, token: Token, registry: &Registry) -> bool {
        let Some(mut connect) = self.connects.remove(&token) else { return false };
        let target = connect.target;
        match connect.stream.take_error() {
            Ok(None) => {
                if connect.stream.peer_addr().is_err() {
                    self.connects.insert(token, connect); // not connected yet
                    return true;
                }
                if registry.deregister(&mut connect.stream).is_ok() {
                    self.end(target, Ok(connect.stream));
                    return true;
                }
            }
            Ok(Some(error)) | Err(error) => self.note_failure(target, connect.address, &error),
        }
        self.end_if_failed(target);
        true
    }

    fn note_failure(&mut self, target: Target, address: SocketAddr, error: &io::Error) {
        if let Some(dial) = self.dials.get_mut(&target) {
            dial.failed = Some(format!("{address}: {error}"));
        }
    }

    /// Ends a dial of which every connect was refused.
    fn end_if_failed(&mut self, target: Target) {
        let is_pending = self.dials.get(&target).is_some_and(|dial| dial.is_pending);
        if !is_pending && self.connects_of(target).next().is_none() {
            self.end(target, Err("not reachable".to_owned()));
        }
    }

    /// Ends a dial. The cause of its last failed connect is better than the given one.
    fn end(&mut self, target: Target, stream: Result<TcpStream, String>) {
        if let Some(dial) = self.dials.remove(&target) {
            self.connects.retain(|_, connect| connect.target != target);
            let stream = stream.map_err(|cause| dial.failed.unwrap_or(cause));
            self.done.push(Dialed { target, stream });
        }
    }

    /// Takes the results of dials that have ended.
    pub(super) fn take(&mut self) -> Vec<Dialed> {
        std::mem::take(&mut self.done)
    }
}

/// The same address and scope, with another port.
fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests;
