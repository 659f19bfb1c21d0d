//! Connecting to servers. While a connect is unanswered, further ones follow it: after a packet loss the kernel repeats
//! a SYN only after pauses of 1, 2 and 4 s, and a network that is back should be noticed sooner. Where a server has
//! several addresses, all are tried at the same time. The first connection that opens is used. A server that is in no
//! configuration gets one connect to each of a few addresses: any host may claim to be one, and name the addresses of
//! other hosts.
//!
//! Where connections use TLS, an open connection is not the end: its handshake follows, and the first connection whose
//! handshake is complete is used. The same holds for SASL: an election connection sends its hello first, then both
//! kinds of connections authenticate.

use super::Tokens;
use super::election::hello_of;
use super::port_tls::PeerSide;
use super::quorum_sasl::{AuthInitiator, AuthStart, AuthStep};
use super::resolver::Resolver;
use super::sasl_dial::{SaslDial, TicketRequest};
use super::security::PeerSecurity;
use super::timed_log_limit::TimedLogLimit;
use super::tls_handshake::{TlsHandshake, TlsStep};
use super::tls_workers::{JobClass, JobPeer, TlsJobResult};
use crate::clock::wall_ms;
use crate::io::stream::Stream;
use crate::limits::{CONNECT_RETRY, CONNECTS_MAX, UNKNOWN_ADDRESSES_MAX, UNKNOWN_DIALS_MAX};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::Address;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server and the port to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Election(ServerId),
    /// The election port of a server that is in no configuration.
    Unknown(ServerId),
    Leader(ServerId),
}

impl Target {
    fn job_peer(self, address: SocketAddr) -> JobPeer {
        let class = match self {
            Self::Election(_) | Self::Leader(_) => JobClass::Dial,
            // Any host may have named the address.
            Self::Unknown(_) => JobClass::Other,
        };
        JobPeer { class, address: address.ip() }
    }
}

/// The result of a dial.
pub(super) struct Dialed {
    pub(super) target: Target,
    /// The cause if no address could be reached in time.
    pub(super) stream: Result<Established, String>,
}

/// A connection that can be used.
pub(super) struct Established {
    pub(super) stream: Stream,
    /// Bytes that follow the SASL exchange.
    pub(super) input: Vec<u8>,
    /// Whether an election connection has sent its hello.
    pub(super) is_greeted: bool,
}

impl Established {
    fn new(stream: Stream) -> Self {
        Self { stream, input: Vec::new(), is_greeted: false }
    }
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
    /// The host of the configuration that has the address.
    host: String,
    stream: TcpStream,
}

/// An open connection until it can be used.
struct Negotiation {
    target: Target,
    address: SocketAddr,
    host: String,
    stage: Stage,
}

enum Stage {
    Tls(TlsHandshake),
    /// TLS is complete, or not used; a Kerberos ticket is needed.
    Ticket(Stream, TicketRequest),
    Sasl(SaslDial),
}

/// Runs at most one dial per target.
pub(super) struct Dialer {
    pub(super) resolver: Resolver,
    election_timeout: Duration,
    leader_timeout: Duration,
    dials: BTreeMap<Target, Dial>,
    /// Newer connects have larger tokens.
    connects: BTreeMap<Token, Connect>,
    negotiations: BTreeMap<Token, Negotiation>,
    done: Vec<Dialed>,
    security: Arc<PeerSecurity>,
    /// The id and the election addresses of this server, for its hello.
    greeting: (ServerId, Vec<Address>),
    mismatch_log: TimedLogLimit,
}

impl Dialer {
    pub(super) fn new(resolver: Resolver, member: &MemberConfig, security: Arc<PeerSecurity>) -> Self {
        let election_timeout = Duration::from_millis(member.cnx_timeout_ms.unsigned_abs());
        let leader_timeout = Duration::from_millis(member.connect_ms.max(1).unsigned_abs());
        Self::with(resolver, election_timeout, leader_timeout, security)
    }

    pub(super) fn with(
        resolver: Resolver,
        election_timeout: Duration,
        leader_timeout: Duration,
        security: Arc<PeerSecurity>,
    ) -> Self {
        Self {
            resolver,
            election_timeout,
            leader_timeout,
            dials: BTreeMap::new(),
            connects: BTreeMap::new(),
            negotiations: BTreeMap::new(),
            done: Vec::new(),
            security,
            greeting: (ServerId(0), Vec::new()),
            mismatch_log: TimedLogLimit::new(),
        }
    }

    /// Sets what the hello of this server contains.
    pub(super) fn set_greeting(&mut self, me: ServerId, mine: Vec<Address>) {
        self.greeting = (me, mine);
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
        self.take_tickets(registry);
        for target in self.dials.keys().copied().collect::<Vec<_>>() {
            let is_negotiating = self.is_negotiating(target);
            let is_due = |dial: &&mut Dial| (dial.next_at <= now && !is_negotiating) || dial.ends_at <= now;
            let Some(dial) = self.dials.get_mut(&target).filter(is_due) else { continue };
            if dial.ends_at <= now {
                self.end(target, Err("no reply in time".to_owned()));
                continue;
            }
            let found: Vec<_> =
                dial.addresses.iter().map(|at| (self.resolver.look_up(&at.host, now), at.clone())).collect();
            dial.is_pending = found.iter().any(|(found, _)| found.is_none());
            let has_found = found.iter().any(|(found, _)| found.is_some());
            dial.next_at = if dial.is_pending && !has_found { now } else { now + CONNECT_RETRY };
            let found = found.into_iter().flat_map(|(found, Address { host, port })| {
                found.unwrap_or_default().into_iter().map(move |address| (at_port(address, port), host.clone()))
            });
            let mut found: Vec<(SocketAddr, String)> = found.collect();
            if found.is_empty() {
                dial.failed = Some("unknown host".to_owned());
            }
            if matches!(target, Target::Unknown(_)) {
                found.retain(|(at, _)| dial.may_try(*at));
            }
            for (address, host) in found {
                self.connect(target, (address, host), tokens.next(), registry);
            }
            self.end_if_failed(target);
        }
    }

    fn connect(&mut self, target: Target, (address, host): (SocketAddr, String), token: Token, registry: &Registry) {
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
            self.connects.insert(token, Connect { target, address, host, stream });
        }
    }

    fn connects_of(&self, target: Target) -> impl Iterator<Item = (&Token, &Connect)> {
        self.connects.iter().filter(move |(_, connect)| connect.target == target)
    }

    fn is_negotiating(&self, target: Target) -> bool {
        self.negotiations.values().any(|negotiation| negotiation.target == target)
    }

    /// Handles a connect that has finished, or a handshake that continues; false if the token belongs to none.
    pub(super) fn on_ready(&mut self, token: Token, registry: &Registry) -> bool {
        if let Some(negotiation) = self.negotiations.remove(&token) {
            self.negotiate(token, negotiation, registry);
            return true;
        }
        let Some(connect) = self.connects.remove(&token) else { return false };
        let target = connect.target;
        match connect.stream.take_error() {
            Ok(None) => {
                if connect.stream.peer_addr().is_err() {
                    self.connects.insert(token, connect); // not connected yet
                    return true;
                }
                if self.on_open(token, connect, registry) {
                    return true;
                }
            }
            Ok(Some(error)) | Err(error) => self.note_failure(target, connect.address, &error),
        }
        self.end_if_failed(target);
        true
    }

    /// Uses an open connection, or begins its negotiation. False if it cannot be used.
    fn on_open(&mut self, token: Token, connect: Connect, registry: &Registry) -> bool {
        let Connect { target, address, host, mut stream } = connect;
        let endpoint = self.security.tls.as_ref().and_then(|tls| tls.endpoint(address.ip(), &host));
        if endpoint.is_none() && !self.authenticates() {
            let is_free = registry.deregister(&mut stream).is_ok();
            if is_free {
                self.end(target, Ok(Established::new(Stream::Plain(stream))));
            }
            return is_free;
        }
        if registry.reregister(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_err() {
            return false;
        }
        let stage = match endpoint {
            Some(endpoint) => Ok(Stage::Tls(TlsHandshake::connect(stream, target.job_peer(address), endpoint))),
            None => self.sasl_stage(Stream::Plain(stream), target, &host),
        };
        match stage {
            Ok(stage) => self.negotiate(token, Negotiation { target, address, host, stage }, registry),
            Err(reason) => self.fail(target, address, &reason),
        }
        true
    }

    fn authenticates(&self) -> bool {
        self.security.sasl.as_ref().is_some_and(|sasl| sasl.authenticates)
    }

    /// Begins the SASL exchange, or gets a ticket for it.
    fn sasl_stage(&self, stream: Stream, target: Target, host: &str) -> Result<Stage, String> {
        let Some(sasl) = &self.security.sasl else { return Err("SASL is off".to_owned()) };
        let _ = stream.tcp().set_nodelay(true);
        match sasl.initiator() {
            AuthStart::Now(exchange, first) => self.begin_sasl(stream, target, (exchange, first)),
            AuthStart::WithTicket(tickets) => {
                let timeout = match target {
                    Target::Election(_) | Target::Unknown(_) => self.election_timeout,
                    Target::Leader(_) => self.leader_timeout,
                };
                let security = Arc::clone(&self.security);
                let wake = move || security.workers.wake();
                Ok(Stage::Ticket(stream, TicketRequest::start(tickets, host.to_owned(), timeout, wake)?))
            }
        }
    }

    /// Sends the first bytes of the exchange, after the hello of an election connection.
    fn begin_sasl(&self, stream: Stream, target: Target, start: (AuthInitiator, Vec<u8>)) -> Result<Stage, String> {
        let local = stream.tcp().local_addr().ok().map(|address| address.ip());
        let hello = match target {
            Target::Election(_) | Target::Unknown(_) => {
                let (me, mine) = &self.greeting;
                hello_of(*me, mine, local).map_err(|error| error.to_string())?
            }
            Target::Leader(_) => Vec::new(),
        };
        let mut dial = SaslDial::new(stream, start, hello);
        dial.start()?;
        Ok(Stage::Sasl(dial))
    }

    /// Continues dials whose ticket has arrived.
    fn take_tickets(&mut self, registry: &Registry) {
        let waiting =
            self.negotiations.iter().filter(|(_, negotiation)| matches!(negotiation.stage, Stage::Ticket(..)));
        for token in waiting.map(|(token, _)| *token).collect::<Vec<_>>() {
            if let Some(negotiation) = self.negotiations.remove(&token) {
                self.negotiate(token, negotiation, registry);
            }
        }
    }

    /// Continues a handshake with the result of its job. Ignores results for connections that are closed.
    pub(super) fn on_tls(&mut self, result: TlsJobResult, registry: &Registry) {
        let token = result.token;
        let Some(mut negotiation) = self.negotiations.remove(&token) else { return };
        let Stage::Tls(handshake) = &mut negotiation.stage else { return };
        match handshake.on_result(result) {
            Ok(()) => self.negotiate(token, negotiation, registry),
            Err(reason) => self.fail(negotiation.target, negotiation.address, &format!("TLS: {reason}")),
        }
    }

    fn negotiate(&mut self, token: Token, negotiation: Negotiation, registry: &Registry) {
        let Negotiation { target, address, host, stage } = negotiation;
        let next = match stage {
            Stage::Tls(mut handshake) => match handshake.advance(token, &self.security.workers) {
                TlsStep::Wait(_) => Ok(Some(Stage::Tls(handshake))),
                TlsStep::Failed(reason) => Err(format!("TLS: {reason}")),
                TlsStep::Complete => self.on_tls_complete(handshake, target, (address, &host), registry),
            },
            Stage::Ticket(stream, request) => match request.take() {
                None => Ok(Some(Stage::Ticket(stream, request))),
                Some(Err(reason)) => Err(format!("SASL: {reason}")),
                Some(Ok(start)) => self.begin_sasl(stream, target, start).map(Some),
            },
            Stage::Sasl(mut dial) => match dial.advance() {
                AuthStep::Wait => Ok(Some(Stage::Sasl(dial))),
                AuthStep::Failed(reason) => Err(format!("SASL: {reason}")),
                AuthStep::Passed(_) => Ok(self.finish(target, dial.into_established(), registry)),
            },
        };
        match next {
            Ok(Some(stage)) => _ = self.negotiations.insert(token, Negotiation { target, address, host, stage }),
            Ok(None) => (),
            Err(reason) => self.fail(target, address, &reason),
        }
    }

    /// Checks the certificate, and uses the connection or begins its SASL exchange.
    fn on_tls_complete(
        &mut self,
        handshake: TlsHandshake,
        target: Target,
        (address, host): (SocketAddr, &str),
        registry: &Registry,
    ) -> Result<Option<Stage>, String> {
        let Some(stream) = handshake.into_stream() else { return Err("the TLS handshake is incomplete".to_owned()) };
        self.check(&stream, address, host)?;
        if !self.authenticates() {
            return Ok(self.finish(target, Established::new(stream), registry));
        }
        self.sasl_stage(stream, target, host).map(Some)
    }

    /// Ends a dial with a connection.
    fn finish(&mut self, target: Target, mut established: Established, registry: &Registry) -> Option<Stage> {
        match registry.deregister(established.stream.tcp_mut()) {
            Ok(()) => self.end(target, Ok(established)),
            Err(_) => self.end_if_failed(target),
        }
        None
    }

    fn fail(&mut self, target: Target, address: SocketAddr, reason: &str) {
        self.note_failure(target, address, &reason);
        self.end_if_failed(target);
    }

    /// Checks the certificate of the server that has accepted a connection. The handshake has enforced what is
    /// enforced.
    fn check(&mut self, stream: &Stream, address: SocketAddr, host: &str) -> Result<(), String> {
        let (Some(tls), Some(state)) = (&self.security.tls, stream.tls_state()) else { return Ok(()) };
        let now_seconds = wall_ms().div_euclid(1000);
        let mismatch = tls.check(state, PeerSide::Acceptor, address.ip(), [host.to_owned()], now_seconds)?;
        if let Some(mismatch) = mismatch {
            self.security.metrics.quorum_host_name_mismatches.add(1);
            if let Some(suppressed) = self.mismatch_log.allow() {
                tracing::warn!(%address, %mismatch, suppressed, "server accepted with a certificate of another host");
            }
        }
        Ok(())
    }

    fn note_failure(&mut self, target: Target, address: SocketAddr, error: &dyn std::fmt::Display) {
        if let Some(dial) = self.dials.get_mut(&target) {
            dial.failed = Some(format!("{address}: {error}"));
        }
    }

    /// Ends a dial of which every connect was refused.
    fn end_if_failed(&mut self, target: Target) {
        let is_pending = self.dials.get(&target).is_some_and(|dial| dial.is_pending);
        if !is_pending && self.connects_of(target).next().is_none() && !self.is_negotiating(target) {
            self.end(target, Err("not reachable".to_owned()));
        }
    }

    /// Ends a dial. The cause of its last failed connect is better than the given one.
    fn end(&mut self, target: Target, stream: Result<Established, String>) {
        if let Some(dial) = self.dials.remove(&target) {
            self.connects.retain(|_, connect| connect.target != target);
            self.negotiations.retain(|_, negotiation| negotiation.target != target);
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
