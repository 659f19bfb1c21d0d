//! Accepted connections until their first complete message, which names the server at the remote end.
//!
//! Any host can connect, and send anything or nothing. Only [`Unidentified`] decides which of these connections stay;
//! no other part of the server sees a connection before it is identified.

use super::listeners::Port;
use crate::limits::{FIRST_PACKET_BYTES_MAX, IDENTIFY_MS, LOG_LINES_BURST, UNIDENTIFIED_MAX};
use crate::log_limit::LogLimit;
use crate::status::os_info;
use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_proto::ServerId;
use ox_proto::quorum::hello::{self, Hello};
use ox_proto::quorum::packet::PacketReader;
use ox_zab::{Message, Origin, Sender, Unidentified, UnidentifiedLimits};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
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
    pub(super) stream: TcpStream,
    pub(super) token: Token,
    /// Address of the remote end.
    pub(super) address: IpAddr,
    /// Bytes that were read and not used: those after an election hello, and a learner's hello with what follows it.
    pub(super) input: Vec<u8>,
}

struct Conn {
    port: Port,
    stream: TcpStream,
    address: SocketAddr,
    input: Vec<u8>,
}

impl Conn {
    fn identified(self, peer: Peer, token: Token, input: Vec<u8>) -> Identified {
        Identified { peer, conn: Accepted { stream: self.stream, token, address: self.address.ip(), input } }
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
    limits: UnidentifiedLimits,
    pools: BTreeMap<Port, Unidentified<Token>>,
    conns: BTreeMap<Token, Conn>,
    ready: BTreeSet<Token>,
    identified: Vec<Identified>,
    rejections: LogLimit,
}

/// The limits, which are lower where the process may have few descriptors.
pub(crate) fn unidentified_limits(open_files_max: u64) -> UnidentifiedLimits {
    let share = usize::try_from(open_files_max / 32).unwrap_or(usize::MAX).clamp(16, UNIDENTIFIED_MAX);
    UnidentifiedLimits { deadline_ms: IDENTIFY_MS, silent_max: share, partial_max: share / 4 }
}

impl Handshakes {
    /// Connections have to be identified within `deadline_ms`.
    pub(super) fn new(deadline_ms: i64) -> Self {
        let limits = unidentified_limits(os_info::open_files_max());
        Self {
            began: Instant::now(),
            limits: UnidentifiedLimits { deadline_ms: deadline_ms.min(limits.deadline_ms), ..limits },
            pools: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            identified: Vec::new(),
            rejections: LogLimit::new(LOG_LINES_BURST),
        }
    }

    /// Takes an accepted connection, and reads from it immediately: its hello may have arrived.
    pub(super) fn add(
        &mut self,
        port: Port,
        (stream, address): (TcpStream, SocketAddr),
        origin: Origin,
        token: Token,
        registry: &Registry,
    ) {
        let mut conn = Conn { port, stream, address, input: Vec::new() };
        let outcome = read(&mut conn);
        let is_registered = |conn: &mut Conn| {
            registry.register(&mut conn.stream, token, Interest::READABLE | Interest::WRITABLE).is_ok()
        };
        match outcome {
            Outcome::Rejected(reason) => self.reject(&conn, &reason),
            Outcome::Identified(peer, input) => {
                if is_registered(&mut conn) {
                    self.identified.push(conn.identified(peer, token, input));
                }
            }
            Outcome::Incomplete(has_sent) => {
                if !is_registered(&mut conn) {
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

    /// Closes all unidentified connections of a port.
    pub(super) fn close_port(&mut self, port: Port) {
        self.pools.remove(&port);
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

    /// Reads from ready connections, and closes those whose time is over.
    pub(super) fn run_iteration(&mut self) {
        for token in std::mem::take(&mut self.ready) {
            self.advance(token);
        }
        let now_ms = self.now_ms();
        let late: Vec<Token> = self.pools.values_mut().flat_map(|pool| pool.expire(now_ms)).collect();
        for token in late {
            self.conns.remove(&token);
        }
    }

    /// Connections that were identified since the last call.
    pub(super) fn take(&mut self) -> Vec<Identified> {
        std::mem::take(&mut self.identified)
    }

    /// Reads from a connection. False if its state has not changed.
    fn advance(&mut self, token: Token) -> bool {
        let Some(conn) = self.conns.get_mut(&token) else { return false };
        let (port, outcome) = (conn.port, read(conn));
        match outcome {
            Outcome::Incomplete(false) => return false,
            Outcome::Incomplete(true) => {
                let closed = self.pool(port).on_bytes(token);
                self.close(closed);
                return true;
            }
            Outcome::Identified(peer, input) => {
                if let Some(conn) = self.conns.remove(&token) {
                    self.identified.push(conn.identified(peer, token, input));
                }
            }
            Outcome::Rejected(reason) => {
                if let Some(conn) = self.conns.remove(&token) {
                    self.reject(&conn, &reason);
                }
            }
        }
        self.pool(port).remove(token);
        true
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
        if conn.input.is_empty() {
            return;
        }
        if let Some(suppressed) = self.rejections.allow(self.now_ms()) {
            let (address, port) = (conn.address, conn.port);
            tracing::warn!(%address, ?port, reason, suppressed, "rejected connection without a valid hello");
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

fn read(conn: &mut Conn) -> Outcome {
    let before = conn.input.len();
    let mut chunk = [0; FIRST_PACKET_BYTES_MAX];
    loop {
        match conn.stream.read(&mut chunk) {
            Ok(0) => return Outcome::Rejected("closed by the peer".to_owned()),
            Ok(count) => conn.input.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Outcome::Incomplete(before < conn.input.len());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Outcome::Rejected(error.to_string()),
        }
        match identify(conn.port, &conn.input) {
            Ok(None) if conn.input.len() < FIRST_PACKET_BYTES_MAX => (),
            Ok(None) => return Outcome::Rejected("the first message is too long".to_owned()),
            Ok(Some((peer, used))) => return Outcome::Identified(peer, conn.input.split_off(used)),
            Err(reason) => return Outcome::Rejected(reason),
        }
    }
}

/// The peer that the first message names, and how many bytes the message used; `None` while it is incomplete.
fn identify(port: Port, input: &[u8]) -> Result<Option<(Peer, usize)>, String> {
    if port == Port::Election {
        let hello = hello::next(input).map_err(|error| error.to_string())?;
        return Ok(hello.map(|(hello, used)| (Peer::Election(hello), used)));
    }
    let packet = PacketReader::default().next(input, FIRST_PACKET_BYTES_MAX).map_err(|error| error.to_string())?;
    let Some((packet, _)) = packet else { return Ok(None) };
    let message = Message::read(&packet, &Bytes::copy_from_slice(input), Sender::Learner);
    let Message::Hello { server, .. } = message.map_err(|error| error.to_string())? else {
        return Err("the first packet is not a hello".to_owned());
    };
    Ok(Some((Peer::Learner(server), 0)))
}

#[cfg(test)]
mod tests;
