//! Accepted connections until their first complete message, which names the server at the remote end.
//!
//! Any host can connect, and send anything or nothing. Only [`Unidentified`] decides which of these connections stay;
//! no other part of the server sees a connection before it is identified.
//!
//! ```text
//! accept ─► first byte ─► TLS handshake ─► first message ─► identified
//!                 └──────── plain ───────────┘
//! ```
//! With SASL, its exchange follows the first message on the election port, and precedes it on the other ports.
//!
//! Where TLS is possible, the first byte decides. A TLS handshake needs several messages, and garbage that looks like
//! the start of one must not displace it: once its first flight is answered, it moves to a queue of its own
//! ([`Negotiating`]), which only connections whose handshake has cost a worker's time can fill, and with its certificate to
//! another, which only peers with a certificate can fill.

mod negotiating;

use super::listeners::Port;
use super::quorum_sasl::{AuthAcceptor, AuthStep, NOT_AUTHENTICATING, QuorumSasl};
use super::security::PeerSecurity;
use super::tls_handshake::{TlsHandshake, TlsStep};
use super::tls_workers::{JobClass, JobPeer, TlsJobResult};
use crate::io::stream::Stream;
use crate::limits::{ANSWERED_MS_MIN, FIRST_PACKET_BYTES_MAX, IDENTIFY_MS, IDENTIFY_SECURED_MS, SASL_START_MS};
use crate::limits::{LOG_LINES_BURST, UNIDENTIFIED_MAX};
use crate::log_limit::LogLimit;
use crate::status::os_info;
use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use negotiating::{Advance, Negotiating, NegotiatingPeer};
use ox_driver::sockets::{SocketRead, SocketWrite};
use ox_proto::ServerId;
use ox_proto::quorum::hello::{self, Hello};
use ox_proto::quorum::packet::PacketReader;
use ox_tls::FirstByte;
use ox_zab::{Message, Origin, Sender, Unidentified, UnidentifiedLimits};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// The server that a first message names.
pub(super) enum Peer {
    /// A server on the election port.
    Election(Hello),
    /// A learner on the quorum port, or an observer on the observer master port.
    Learner(ServerId),
}

impl Peer {
    pub(super) fn server(&self) -> ServerId {
        match self {
            Self::Election(hello) => hello.server,
            Self::Learner(server) => *server,
        }
    }
}

/// A connection with a valid first message.
pub(super) struct Identified {
    pub(super) peer: Peer,
    pub(super) conn: Accepted,
}

/// An accepted connection, registered under `token`.
pub(super) struct Accepted {
    pub(super) stream: Stream,
    pub(super) token: Token,
    /// Address of the remote end.
    pub(super) address: IpAddr,
    /// Bytes that were read and not used: those after an election hello, and a learner's hello with what follows it.
    pub(super) input: Vec<u8>,
}

enum Stage {
    /// Plain text and TLS are both possible, or plain text is refused.
    FirstByte(TcpStream),
    Tls(TlsHandshake),
    Open(Stream),
}

impl Stage {
    fn tcp_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::FirstByte(tcp) => tcp,
            Self::Tls(handshake) => handshake.tcp_mut(),
            Self::Open(stream) => stream.tcp_mut(),
        }
    }
}

struct Conn {
    port: Port,
    /// `None` only while it changes.
    stage: Option<Stage>,
    address: SocketAddr,
    origin: Origin,
    accepted_ms: i64,
    /// Whether the peer has sent anything.
    has_sent: bool,
    /// Whether the peer has proven that it has a certificate.
    is_verified: bool,
    input: Vec<u8>,
    /// The hello of an election connection, while the SASL exchange goes on.
    hello: Option<Hello>,
    /// The SASL exchange until its end.
    auth: Option<AuthAcceptor>,
    /// Replies of the SASL exchange.
    unsent: Vec<u8>,
}

impl Conn {
    fn register(&mut self, token: Token, registry: &Registry) -> bool {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.stage.as_mut().is_some_and(|stage| registry.register(stage.tcp_mut(), token, interest).is_ok())
    }

    /// Whether the connection needs no SASL exchange, and none has begun after its hello.
    fn may_pass(&self) -> bool {
        self.hello.is_some() && self.input.is_empty() && self.auth.as_ref().is_some_and(AuthAcceptor::is_optional)
    }

    /// Processes input: the hello, and the SASL exchange.
    fn process(&mut self, sasl: Option<&QuorumSasl>, hosts: &BTreeSet<String>) -> Outcome {
        if self.port == Port::Election && self.hello.is_none() {
            match hello::next(&self.input) {
                Ok(Some((hello, used))) => {
                    self.input.drain(..used);
                    self.hello = Some(hello);
                }
                Ok(None) => return self.incomplete(),
                Err(error) => return Outcome::Rejected(error.to_string()),
            }
        }
        if let (Some(auth), Some(sasl)) = (&mut self.auth, sasl) {
            match auth.advance(sasl, hosts, &mut self.input, &mut self.unsent) {
                AuthStep::Wait => return Outcome::Incomplete(false),
                AuthStep::Failed(reason) => return Outcome::Rejected(reason),
                AuthStep::Passed(user) => {
                    let address = self.address;
                    tracing::debug!(%address, user, "server authenticated by SASL");
                    self.auth = None;
                }
            }
        }
        if let Some(hello) = self.hello.take() {
            return Outcome::Identified(Peer::Election(hello), std::mem::take(&mut self.input));
        }
        match learner(&self.input) {
            Ok(Some(peer)) => Outcome::Identified(peer, std::mem::take(&mut self.input)),
            Ok(None) => self.incomplete(),
            Err(reason) => Outcome::Rejected(reason),
        }
    }

    fn incomplete(&self) -> Outcome {
        if self.input.len() < FIRST_PACKET_BYTES_MAX {
            Outcome::Incomplete(false)
        } else {
            Outcome::Rejected("the first message is too long".to_owned())
        }
    }

    fn identified(self, peer: Peer, token: Token, input: Vec<u8>) -> Option<Identified> {
        let Some(Stage::Open(stream)) = self.stage else { return None };
        Some(Identified { peer, conn: Accepted { stream, token, address: self.address.ip(), input } })
    }
}

/// Result of reading from an unidentified connection.
enum Outcome {
    /// The hello is incomplete; whether bytes were received.
    Incomplete(bool),
    Identified(Peer, Vec<u8>),
    /// The connection has ended, or its first message is invalid.
    Rejected(String),
}

/// The unidentified connections of all ports.
pub(super) struct Handshakes {
    began: Instant,
    security: Arc<PeerSecurity>,
    limits: UnidentifiedLimits,
    pools: BTreeMap<Port, Unidentified<Token>>,
    negotiating: BTreeMap<Port, Negotiating>,
    conns: BTreeMap<Token, Conn>,
    ready: BTreeSet<Token>,
    identified: Vec<Identified>,
    rejections: LogLimit,
    /// The hosts of all members, on which Kerberos peers must be.
    hosts: BTreeSet<String>,
    /// Ciphertext that is being decrypted.
    scratch: Vec<u8>,
}

/// The limits, which are lower where the process may have few descriptors.
pub(crate) fn unidentified_limits(open_files_max: u64) -> UnidentifiedLimits {
    let share = usize::try_from(open_files_max / 32).unwrap_or(usize::MAX).clamp(16, UNIDENTIFIED_MAX);
    UnidentifiedLimits { deadline_ms: IDENTIFY_MS, silent_max: share, partial_max: share / 4 }
}

/// The most unidentified connections of one port.
pub(crate) fn unidentified_max(open_files_max: u64) -> usize {
    let limits = unidentified_limits(open_files_max);
    limits.connections_max() + negotiating_max(limits, Origin::Member) + 3 * limits.partial_max
}

/// The most connections of one origin whose first flight is answered. A handshake from a member's address must not be
/// displaced by a flood from there before the next flight arrives.
fn negotiating_max(limits: UnidentifiedLimits, origin: Origin) -> usize {
    match origin {
        Origin::Member => limits.silent_max,
        Origin::Other => limits.partial_max,
    }
}

/// The most first flights from members' addresses that wait for a worker, so that incomplete ones have places, too.
fn first_flights_max(limits: UnidentifiedLimits) -> usize {
    (limits.partial_max / 2).max(1)
}

impl Handshakes {
    /// Connections have to be identified within `deadline_ms`.
    pub(super) fn new(deadline_ms: i64, security: Arc<PeerSecurity>) -> Self {
        let limits = unidentified_limits(os_info::open_files_max());
        let longest_ms = if security.is_negotiated() { IDENTIFY_SECURED_MS } else { limits.deadline_ms };
        Self {
            began: Instant::now(),
            security,
            limits: UnidentifiedLimits { deadline_ms: deadline_ms.min(longest_ms), ..limits },
            pools: BTreeMap::new(),
            negotiating: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            identified: Vec::new(),
            rejections: LogLimit::new(LOG_LINES_BURST),
            hosts: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    /// Sets the hosts of all members.
    pub(super) fn set_hosts(&mut self, hosts: BTreeSet<String>) {
        self.hosts = hosts;
    }

    /// Takes an accepted connection, and reads from it immediately: its hello may have arrived.
    pub(super) fn add(
        &mut self,
        port: Port,
        (tcp, address): (TcpStream, SocketAddr),
        origin: Origin,
        token: Token,
        registry: &Registry,
    ) {
        let has_tls = self.security.tls.is_some();
        let stage = Some(if has_tls { Stage::FirstByte(tcp) } else { Stage::Open(Stream::Plain(tcp)) });
        let (accepted_ms, has_sent, is_verified) = (self.now_ms(), false, false);
        let auth = self.security.sasl.as_ref().map(QuorumSasl::acceptor);
        let (hello, input, unsent) = (None, Vec::new(), Vec::new());
        let mut conn =
            Conn { port, stage, address, origin, accepted_ms, has_sent, is_verified, input, hello, auth, unsent };
        match self.read(&mut conn, token) {
            Outcome::Rejected(reason) => self.reject(&conn, &reason),
            Outcome::Identified(peer, input) => {
                if conn.register(token, registry) {
                    self.identified.extend(conn.identified(peer, token, input));
                }
            }
            Outcome::Incomplete(has_sent) => {
                if !conn.register(token, registry) {
                    return;
                }
                // A connection that is about to be closed may have become readable meanwhile.
                while let Some(oldest) = self.pool(port).next_closed(origin)
                    && self.advance(oldest)
                {}
                let now_ms = self.now_ms();
                let closed = self.pool(port).add(now_ms, token, origin);
                self.close(closed);
                self.conns.insert(token, conn);
                if has_sent {
                    let closed = self.pool(port).on_bytes(token);
                    self.close(closed);
                }
            }
        }
    }

    /// How many connections a port may accept now. Handshakes from members' addresses that exceed the capacity wait in the
    /// queue of the kernel, which is served in the order of arrival: so a flood from such an address delays a member, but
    /// does not displace it. Other addresses cannot cause that wait.
    pub(super) fn room(&self, port: Port) -> usize {
        if self.security.tls.is_none() {
            return usize::MAX;
        }
        let max = negotiating_max(self.limits, Origin::Member);
        let has_place = |queue: &Negotiating| !queue.is_full(Origin::Member, max, self.now_ms(), ANSWERED_MS_MIN);
        if !self.negotiating.get(&port).is_none_or(has_place) {
            return 0;
        }
        let awaits_answer = |conn: &&Conn| {
            let is_waiting = matches!(&conn.stage, Some(Stage::Tls(handshake)) if handshake.awaits_answer());
            conn.port == port && conn.origin == Origin::Member && is_waiting
        };
        first_flights_max(self.limits).saturating_sub(self.conns.values().filter(awaits_answer).count())
    }

    /// Closes all unidentified connections of a port.
    pub(super) fn close_port(&mut self, port: Port) {
        self.pools.remove(&port);
        self.negotiating.remove(&port);
        self.conns.retain(|_, conn| conn.port != port);
    }

    /// Marks a connection ready; false if the token belongs to none here.
    pub(super) fn on_ready(&mut self, token: Token) -> bool {
        let is_here = self.conns.contains_key(&token);
        if is_here {
            self.ready.insert(token);
        }
        is_here
    }

    /// Continues a TLS handshake with the result of its job; the result is returned if it belongs to none here.
    pub(super) fn on_tls(&mut self, result: TlsJobResult) -> Option<TlsJobResult> {
        let token = result.token;
        let Some(Conn { stage: Some(Stage::Tls(handshake)), port, .. }) = self.conns.get_mut(&token) else {
            return Some(result);
        };
        let port = *port;
        let was_advanced = handshake.is_advanced();
        match handshake.on_result(result) {
            Err(reason) => {
                self.pool(port).remove(token);
                self.negotiating.entry(port).or_default().remove(token);
                if let Some(conn) = self.conns.remove(&token) {
                    self.reject(&conn, &reason);
                }
            }
            Ok(()) => {
                if handshake.is_advanced() && !was_advanced {
                    self.note_advance(token, Advance::Answered);
                }
                self.advance(token);
            }
        }
        None
    }

    /// Reads from ready connections, and closes those whose time is over.
    pub(super) fn run_iteration(&mut self) {
        for token in std::mem::take(&mut self.ready) {
            self.advance(token);
        }
        let now_ms = self.now_ms();
        let mut late: Vec<Token> = self.pools.values_mut().flat_map(|pool| pool.expire(now_ms)).collect();
        late.extend(self.negotiating.values_mut().flat_map(|queue| queue.expire(now_ms)));
        for token in late {
            self.conns.remove(&token);
        }
        self.close_undetected(now_ms);
        self.pass_silent(now_ms);
    }

    /// Identifies election connections on which no SASL exchange has begun after a while, if none is required: a server
    /// without SASL may have nothing to send.
    fn pass_silent(&mut self, now_ms: i64) {
        if self.security.sasl.as_ref().is_none_or(|sasl| sasl.is_required) {
            return;
        }
        let is_silent = |conn: &Conn| conn.may_pass() && conn.accepted_ms + SASL_START_MS <= now_ms;
        let silent = self.conns.iter().filter(|(_, conn)| is_silent(conn)).map(|(token, _)| *token);
        for token in silent.collect::<Vec<_>>() {
            let Some(mut conn) = self.conns.remove(&token) else { continue };
            let Some(hello) = conn.hello.take() else { continue };
            self.pool(conn.port).remove(token);
            self.negotiating.entry(conn.port).or_default().remove(token);
            self.identified.extend(conn.identified(Peer::Election(hello), token, Vec::new()));
        }
    }

    /// Closes connections that have sent no byte, on ports where the first byte decides.
    fn close_undetected(&mut self, now_ms: i64) {
        let Some(tls) = &self.security.tls else { return };
        let detection_ms = i64::from(tls.config().detection_ms);
        let is_late =
            |conn: &Conn| matches!(conn.stage, Some(Stage::FirstByte(_))) && conn.accepted_ms + detection_ms <= now_ms;
        let late = self.conns.iter().filter(|(_, conn)| is_late(conn)).map(|(token, conn)| (*token, conn.port));
        for (token, port) in late.collect::<Vec<_>>() {
            self.pool(port).remove(token);
            self.conns.remove(&token);
        }
    }

    /// Connections that were identified since the last call.
    pub(super) fn take(&mut self) -> Vec<Identified> {
        std::mem::take(&mut self.identified)
    }

    /// Reads from a connection. False if its state has not changed.
    fn advance(&mut self, token: Token) -> bool {
        let Some(mut conn) = self.conns.remove(&token) else { return false };
        let (port, was_verified) = (conn.port, conn.is_verified);
        match self.read(&mut conn, token) {
            Outcome::Incomplete(has_sent) => {
                let is_verified = conn.is_verified;
                self.conns.insert(token, conn);
                if is_verified && !was_verified {
                    self.note_advance(token, Advance::Verified);
                } else if has_sent {
                    let closed = self.pool(port).on_bytes(token);
                    self.close(closed);
                }
                return has_sent;
            }
            Outcome::Identified(peer, input) => self.identified.extend(conn.identified(peer, token, input)),
            Outcome::Rejected(reason) => self.reject(&conn, &reason),
        }
        self.pool(port).remove(token);
        self.negotiating.entry(port).or_default().remove(token);
        true
    }

    /// Moves a connection to the queue of its advance.
    fn note_advance(&mut self, token: Token, advance: Advance) {
        let Some(&Conn { port, address, origin, accepted_ms, .. }) = self.conns.get(&token) else { return };
        self.pool(port).remove(token);
        let max = match advance {
            Advance::Answered => negotiating_max(self.limits, origin),
            Advance::Verified => self.limits.partial_max,
        };
        let (since_ms, deadline_ms) = (self.now_ms(), accepted_ms + self.limits.deadline_ms);
        let peer = NegotiatingPeer { token, address: address.ip(), since_ms, deadline_ms };
        let closed = self.negotiating.entry(port).or_default().add(peer, advance, origin, max);
        self.close(closed);
    }

    fn close(&mut self, token: Option<Token>) {
        token.into_iter().for_each(|token| _ = self.conns.remove(&token));
    }

    fn pool(&mut self, port: Port) -> &mut Unidentified<Token> {
        let limits = self.limits;
        self.pools.entry(port).or_insert_with(|| Unidentified::new(limits))
    }

    fn reject(&mut self, conn: &Conn, reason: &str) {
        // Without any bytes it was a port scan, or a check by a load balancer.
        if !conn.has_sent {
            return;
        }
        if self.security.is_negotiated() {
            self.security.metrics.quorum_handshakes_rejected.add(1);
        }
        if let Some(suppressed) = self.rejections.allow(self.now_ms()) {
            let (address, port) = (conn.address, conn.port);
            tracing::warn!(%address, ?port, reason, suppressed, "rejected connection without a valid hello");
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Reads what has arrived, through all stages.
    fn read(&mut self, conn: &mut Conn, token: Token) -> Outcome {
        loop {
            match conn.stage.take() {
                Some(Stage::FirstByte(tcp)) => match self.detect(conn, tcp) {
                    Ok(stage) => conn.stage = Some(stage),
                    Err(outcome) => return outcome,
                },
                Some(Stage::Tls(mut handshake)) => match handshake.advance(token, &self.security.workers) {
                    TlsStep::Wait(has_sent) => {
                        conn.stage = Some(Stage::Tls(handshake));
                        return Outcome::Incomplete(has_sent);
                    }
                    TlsStep::Complete => {
                        conn.stage = handshake.into_stream().map(|stream| {
                            conn.is_verified = stream.tls_state().is_some_and(|tls| tls.peer_certificates().is_some());
                            Stage::Open(stream)
                        });
                    }
                    TlsStep::Failed(reason) => return Outcome::Rejected(reason),
                },
                Some(Stage::Open(mut stream)) => {
                    let sasl = (self.security.sasl.as_ref(), &self.hosts);
                    let outcome = read_hello(conn, &mut stream, sasl, &mut self.scratch);
                    conn.stage = Some(Stage::Open(stream));
                    return outcome;
                }
                None => return Outcome::Rejected("its handshake has ended".to_owned()),
            }
        }
    }

    /// Decides by the first byte; without it, the connection keeps its stage.
    fn detect(&self, conn: &mut Conn, tcp: TcpStream) -> Result<Stage, Outcome> {
        let mut first = [0];
        let peeked = loop {
            match tcp.peek(&mut first) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                peeked => break peeked,
            }
        };
        match peeked {
            Ok(0) => return Err(Outcome::Rejected("closed by the peer".to_owned())),
            Ok(_) => conn.has_sent = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                conn.stage = Some(Stage::FirstByte(tcp));
                return Err(Outcome::Incomplete(false));
            }
            Err(error) => return Err(Outcome::Rejected(error.to_string())),
        }
        let Some(tls) = &self.security.tls else { return Ok(Stage::Open(Stream::Plain(tcp))) };
        match FirstByte::classify(first[0]) {
            FirstByte::Plain if tls.config().accepts_plain => Ok(Stage::Open(Stream::Plain(tcp))),
            FirstByte::Plain => Err(Outcome::Rejected("Blocked insecure connection attempt".to_owned())),
            FirstByte::Tls => {
                let config = Arc::clone(tls.current().server.config());
                let class = if conn.origin == Origin::Member { JobClass::Member } else { JobClass::Other };
                let peer = JobPeer { class, address: conn.address.ip() };
                let handshake = TlsHandshake::accept(tcp, peer, config);
                handshake.map(Stage::Tls).map_err(|error| Outcome::Rejected(error.to_string()))
            }
        }
    }
}

/// Reads from an open stream until the peer is identified.
fn read_hello(
    conn: &mut Conn,
    stream: &mut Stream,
    (sasl, hosts): (Option<&QuorumSasl>, &BTreeSet<String>),
    scratch: &mut Vec<u8>,
) -> Outcome {
    let (mut has_received, mut chunk) = (false, [0; FIRST_PACKET_BYTES_MAX]);
    loop {
        if !flush(&mut conn.unsent, stream) {
            return Outcome::Rejected("it does not take replies".to_owned());
        }
        match stream.receive(&mut chunk, scratch).read {
            SocketRead::End if conn.may_pass() => {
                let Some(hello) = conn.hello.take() else { return Outcome::Incomplete(false) };
                return Outcome::Identified(Peer::Election(hello), Vec::new()); // to be dialled back
            }
            // A server with a smaller id closes its connection after the hello.
            SocketRead::End if conn.hello.is_some() && conn.auth.is_some() => {
                return Outcome::Rejected(NOT_AUTHENTICATING.to_owned());
            }
            SocketRead::End => return Outcome::Rejected("closed by the peer".to_owned()),
            SocketRead::Bytes(count) => conn.input.extend_from_slice(&chunk[..count]),
            SocketRead::Nothing => return Outcome::Incomplete(has_received),
        }
        (conn.has_sent, has_received) = (true, true);
        let outcome = conn.process(sasl, hosts);
        if let Outcome::Incomplete(_) = outcome {
            continue;
        }
        let is_sent = flush(&mut conn.unsent, stream) && conn.unsent.is_empty();
        let is_identified = matches!(outcome, Outcome::Identified(..));
        return if is_identified && !is_sent {
            Outcome::Rejected("it does not take replies".to_owned())
        } else {
            outcome
        };
    }
}

/// Sends what the socket accepts. False if the stream is broken.
fn flush(unsent: &mut Vec<u8>, stream: &mut Stream) -> bool {
    while !unsent.is_empty() {
        match stream.send(unsent) {
            SocketWrite::Bytes(0) | SocketWrite::Broken => return false,
            SocketWrite::Bytes(count) => _ = unsent.drain(..count),
            SocketWrite::Full => return true,
        }
    }
    true
}

/// The learner that the first packet names; `None` while it is incomplete.
fn learner(input: &[u8]) -> Result<Option<Peer>, String> {
    if hello::is_versioned(input) {
        let text = "this is a connection to the election port: are the two ports of a server.N line swapped?";
        return Err(text.to_owned());
    }
    let packet = PacketReader::default().next(input, FIRST_PACKET_BYTES_MAX).map_err(|error| error.to_string())?;
    let Some((packet, _)) = packet else { return Ok(None) };
    let message = Message::read(&packet, &Bytes::copy_from_slice(input), Sender::Learner);
    let Message::Hello { server, .. } = message.map_err(|error| error.to_string())? else {
        return Err("the first packet is not a hello".to_owned());
    };
    Ok(Some(Peer::Learner(server)))
}

#[cfg(test)]
mod tests;
