//! Connections on the election port: who may keep one, and the newest notification for each server.
//!
//! Of two servers the one with the larger number owns the connection between them. The other one connects, sends its hello
//! and closes; then it is dialled back.
//!
//! A hello proves nothing: of what a connection brings, a piece is read per iteration, and the newest notification of each
//! server is kept until the replica takes it. A server that is in no configuration is forgotten when it goes.

use super::command::Event;
use super::dial::{Dialer, Target};
use super::handshakes::Accepted;
use super::line_limit::LineLimit;
use super::places::Places;
use super::socket::Socket;
use crate::limits::{DIAL_BACK_AGAIN, PROBE_AFTER, REDIAL_FIRST, REDIAL_LONGEST};
use crate::limits::{ELECTION_INPUT_BYTES_MAX, ELECTION_PIECE_BYTES, ELECTION_UNACKED_MAX};
use crate::limits::{UNKNOWN_ADDRESSES_MAX, UNKNOWN_SERVERS_MAX};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Addresses, Ensemble};
use ox_proto::quorum::hello::{Hello, HelloError, HelloVersion};
use ox_proto::quorum::notification;
use ox_zab::{ElectionConnection, PeerState, VoteNotification};
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Conn {
    socket: Socket,
    input: Vec<u8>,
    server: ServerId,
    /// The other end, if that has dialled.
    from: Option<IpAddr>,
    since: Instant,
    /// When its first notification came. A proxy may accept connections for a server that is not there.
    spoke: Option<Instant>,
}

/// Bytes that are received at once.
const DESK_BYTES: usize = 4 << 10;
/// What is known about another server.
#[derive(Default)]
struct Other {
    token: Option<Token>,
    /// The newest notification, while it cannot be sent.
    slot: Option<Vec<u8>>,
    /// The newest notification, if it asks for a leader: a connection that breaks may have lost it.
    looking: Option<Vec<u8>>,
    redial_at: Option<Instant>,
    redial_after: Duration,
    /// When it was last dialled.
    dialed: Option<Instant>,
    /// When it was last dialled because of a hello from an address that is not known as its own.
    dialed_back: Option<Instant>,
    /// It does not answer, and that has been said.
    is_missed: bool,
    /// Where it said that it is, if it is in no configuration.
    addresses: Vec<Address>,
    /// When it last said anything.
    heard: Option<Instant>,
}

impl Other {
    /// It has not replied: the next dial waits a little longer.
    fn redial_later(&mut self) {
        self.redial_after = (self.redial_after * 2).clamp(REDIAL_FIRST, REDIAL_LONGEST);
        self.redial_at = Some(Instant::now() + self.redial_after);
    }
}

/// The newest that a server has said.
pub(crate) struct Heard {
    pub(crate) note: VoteNotification,
    /// The configuration that is in force there, if it is newer than the own one.
    pub(crate) config: Option<Arc<Ensemble>>,
}

pub(super) struct Elections {
    me: ServerId,
    /// Where this server is, as far as it knows.
    mine: Vec<Address>,
    config: String,
    version: i64,
    /// Whether what others say about it counts.
    is_dynamic: bool,
    configured: BTreeMap<ServerId, Vec<Address>>,
    voters: BTreeSet<ServerId>,
    keep_alive: bool,
    /// How long the other end may leave unacknowledged what it is sent.
    unacked_max: Duration,
    others: BTreeMap<ServerId, Other>,
    conns: BTreeMap<Token, Conn>,
    ready: BTreeSet<Token>,
    heard: BTreeMap<ServerId, Heard>,
    malformed: LineLimit,
}

impl Elections {
    /// An error if the own addresses are too long to be told.
    pub(super) fn new(member: &MemberConfig, places: &Places, is_dynamic: bool) -> Result<Self, HelloError> {
        let mine = places.mine().election.clone();
        hello_of(member.server, &mine, None)?;
        Ok(Self {
            me: member.server,
            mine,
            config: places.committed().to_string(),
            version: places.committed().version(),
            is_dynamic,
            configured: places.election_addresses(),
            voters: places.voters(),
            keep_alive: member.keep_alive,
            unacked_max: Duration::from_millis(member.cnx_timeout_ms.unsigned_abs()).min(ELECTION_UNACKED_MAX),
            others: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            heard: BTreeMap::new(),
            malformed: LineLimit::new(),
        })
    }

    /// Servers are elsewhere, or others.
    pub(super) fn reconfigure(&mut self, places: &Places, events: &mut Vec<Event>) {
        (self.config, self.version) = (places.committed().to_string(), places.committed().version());
        (self.mine, self.voters) = (places.mine().election.clone(), places.voters());
        let before = std::mem::replace(&mut self.configured, places.election_addresses());
        let has_moved = |server: &ServerId| {
            let (was, is) = (before.get(server), self.configured.get(server));
            was.is_some() && is.is_some() && was != is
        };
        let moved: Vec<ServerId> = self.others.keys().filter(|server| has_moved(server)).copied().collect();
        for server in moved {
            if let Some(token) = self.others.get(&server).and_then(|other| other.token) {
                self.drop_conn(token, events);
            }
        }
    }

    fn insert(&mut self, stream: TcpStream, token: Token, server: ServerId, from: Option<IpAddr>, input: Vec<u8>) {
        let _ = stream.set_nodelay(true);
        if self.keep_alive {
            let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new());
        }
        // Otherwise votes would wait, after a long partition, until the system repeats them.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(self.unacked_max));
        let conn = Conn { socket: Socket::new(stream), input, server, from, since: Instant::now(), spoke: None };
        self.conns.insert(token, conn);
        self.ready.insert(token);
    }

    /// Sends a notification, or keeps it until there is a connection; what was kept before is out of date.
    pub(super) fn notify(
        &mut self,
        to: ServerId,
        note: &VoteNotification,
        dialer: &mut Dialer,
        events: &mut Vec<Event>,
    ) {
        if !self.configured.contains_key(&to) && !self.others.contains_key(&to) {
            return; // a stranger that is gone, nobody knows where
        }
        let mut frame = Vec::new();
        note.wire().put(&self.config, &mut frame);
        let other = self.others.entry(to).or_default();
        other.looking = (note.state == PeerState::Looking).then(|| frame.clone());
        other.slot = Some(frame);
        match other.token {
            Some(token) => self.flush(token, events),
            None => {
                let is_due = other.redial_at.is_none_or(|at| at <= Instant::now());
                if is_due {
                    self.dial(to, Instant::now(), dialer, events);
                }
            }
        }
    }

    fn dial(&mut self, to: ServerId, now: Instant, dialer: &mut Dialer, events: &mut Vec<Event>) {
        let target = self.target(to);
        let learned = self.others.get(&to).map(|other| other.addresses.clone()).unwrap_or_default();
        let addresses = self.configured.get(&to).cloned().unwrap_or(learned);
        if !addresses.is_empty() && !dialer.is_dialing(target) {
            dialer.dial(target, addresses, Duration::ZERO, now);
            self.others.entry(to).or_default().dialed = Some(now);
            self.tell(to, ElectionConnection::Connecting, events);
        }
    }

    fn target(&self, server: ServerId) -> Target {
        if self.configured.contains_key(&server) { Target::Election(server) } else { Target::Unknown(server) }
    }

    /// Asks for a new connection to a server, though there may be one.
    pub(super) fn renew(&mut self, server: ServerId, now: Instant, dialer: &mut Dialer, events: &mut Vec<Event>) {
        let is_due = self.others.get(&server).is_none_or(|other| other.redial_at.is_none_or(|at| at <= now));
        if is_due && self.configured.contains_key(&server) {
            self.dial(server, now, dialer, events);
        }
    }

    /// When a server was first heard on its connection, if that is newer than `since`.
    pub(super) fn spoke_on_connection_since(&self, server: ServerId, since: Instant) -> Option<Instant> {
        let conn = self.conns.get(&self.others.get(&server)?.token?)?;
        conn.spoke.filter(|_| since < conn.since)
    }

    /// A call was answered, or not.
    pub(super) fn on_dialed(
        &mut self,
        server: ServerId,
        stream: Option<TcpStream>,
        token: Token,
        registry: &Registry,
        events: &mut Vec<Event>,
    ) {
        let is_configured = self.configured.contains_key(&server);
        let other = self.others.entry(server).or_default();
        let Some(mut stream) = stream else {
            if !std::mem::replace(&mut other.is_missed, true) && is_configured {
                tracing::warn!("Cannot open channel to {server} at its election address; it is tried again");
            }
            other.redial_later();
            if other.token.is_none() {
                self.tell(server, ElectionConnection::Down, events);
            }
            return;
        };
        other.redial_later();
        let local = stream.local_addr().ok().map(|address| address.ip());
        if registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_err() {
            return;
        }
        self.insert(stream, token, server, None, Vec::new());
        let sent = match (self.conns.get_mut(&token), hello_of(self.me, &self.mine, local)) {
            (Some(conn), Ok(hello)) => {
                conn.socket.push(hello);
                conn.socket.flush(ELECTION_INPUT_BYTES_MAX).is_ok()
            }
            (_, Err(error)) => {
                tracing::error!(%error, "the own addresses cannot be told");
                false
            }
            (None, Ok(_)) => false,
        };
        if self.me < server || !sent {
            self.conns.remove(&token); // it knows who called, and calls back
            return;
        }
        self.keep(server, token, events);
    }

    /// This is the connection with a server from now on.
    fn keep(&mut self, server: ServerId, token: Token, events: &mut Vec<Event>) {
        let other = self.others.entry(server).or_default();
        if std::mem::replace(&mut other.is_missed, false) {
            tracing::info!("server {server} can be reached again");
        }
        if let Some(old) = other.token.replace(token).filter(|old| *old != token) {
            self.conns.remove(&old);
        }
        self.tell(server, ElectionConnection::Up, events);
        self.flush(token, events);
    }

    /// Something can be read or written; false if the token is nobody's here.
    pub(super) fn on_ready(&mut self, token: Token) -> bool {
        let is_here = self.conns.contains_key(&token);
        if is_here {
            self.ready.insert(token);
        }
        is_here
    }

    /// Whether there certainly is more to read.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Reads a piece from each connection that has something, and writes.
    pub(super) fn turn(&mut self, events: &mut Vec<Event>) {
        for token in std::mem::take(&mut self.ready) {
            let Some(conn) = self.conns.get_mut(&token) else { continue };
            let max = (conn.input.len() + ELECTION_PIECE_BYTES).min(ELECTION_INPUT_BYTES_MAX);
            let read = conn.socket.read(&mut conn.input, max, &mut [0; DESK_BYTES]);
            let is_good = self.take_notifications(token);
            match read {
                Ok(is_all) if is_good => {
                    if !is_all {
                        self.ready.insert(token);
                    }
                    self.flush(token, events);
                }
                _ => self.drop_conn(token, events),
            }
        }
    }

    /// The newest that each server has said since the last look.
    pub(super) fn take_heard(&mut self) -> BTreeMap<ServerId, Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Tells of a connection with a server that is in a configuration; others need nobody's attention.
    fn tell(&self, server: ServerId, link: ElectionConnection, events: &mut Vec<Event>) {
        if self.configured.contains_key(&server) {
            events.push(Event::Election(server, link));
        }
    }

    /// Where the connection with a server comes from, if that has dialled.
    pub(super) fn address_of(&self, server: ServerId) -> Option<IpAddr> {
        self.conns.get(&self.others.get(&server)?.token?)?.from
    }

    /// Ends the connection with a server if that is gone: another connection, which was refused, names it, too.
    pub(super) fn probe(&self, server: ServerId) {
        let token = self.others.get(&server).and_then(|other| other.token);
        if let Some(conn) = token.and_then(|token| self.conns.get(&token)) {
            conn.socket.probe_after(PROBE_AFTER);
        }
    }

    /// Takes an accepted connection over whose hello is complete. A server with a smaller number is dialled back instead.
    pub(super) fn on_hello(
        &mut self,
        hello: Hello,
        Accepted { stream, token, address, input }: Accepted,
        now: Instant,
        dialer: &mut Dialer,
        events: &mut Vec<Event>,
    ) {
        let server = hello.server;
        let is_configured = self.configured.contains_key(&server);
        self.make_room(server, events);
        let other = self.others.entry(server).or_default();
        other.heard = Some(now);
        let addresses = dialable(hello.addresses);
        if !addresses.is_empty() {
            other.addresses = addresses;
        }
        if self.me < server {
            self.insert(stream, token, server, Some(address), input);
            self.keep(server, token, events);
        } else if server < self.me {
            let last = other.dialed_back.map(|at| now.saturating_duration_since(at));
            if dialer.resolver.address_match(server, address).may_dial_back(is_configured, last) {
                other.dialed_back = Some(now);
                self.dial(server, now, dialer, events);
                dialer.hurry(self.target(server), now);
            }
        }
    }

    /// There are not too many servers that are in no configuration: the one that was not heard for longest goes, first of
    /// those without a connection.
    fn make_room(&mut self, new: ServerId, events: &mut Vec<Event>) {
        if self.configured.contains_key(&new) || self.others.contains_key(&new) {
            return;
        }
        let unknown = self.others.iter().filter(|(server, _)| !self.configured.contains_key(server));
        let age = |(server, other): (&ServerId, &Other)| (other.token.is_some(), other.heard, *server, other.token);
        let unknown: Vec<_> = unknown.map(age).collect();
        if let Some((.., server, token)) =
            unknown.iter().min().filter(|_| UNKNOWN_SERVERS_MAX <= unknown.len()).copied()
        {
            token.into_iter().for_each(|token| self.drop_conn(token, events));
            self.others.remove(&server);
            self.heard.remove(&server);
        }
    }

    fn take_notifications(&mut self, token: Token) -> bool {
        let Some(conn) = self.conns.get_mut(&token) else { return true };
        let server = conn.server;
        let (mut at, mut newest, mut unreadable) = (0, None, None);
        let mut broken = None;
        let is_good = loop {
            match notification::split(&conn.input[at..]) {
                Ok(Some((payload, rest))) => {
                    at = conn.input.len() - rest.len();
                    conn.spoke = conn.spoke.or_else(|| Some(Instant::now()));
                    match notification::decode(payload) {
                        Ok(received) => newest = Some(received),
                        Err(error) => unreadable = Some(error),
                    }
                }
                Ok(None) => break true,
                Err(error) => {
                    broken = Some(error);
                    break false;
                }
            }
        };
        if (broken.is_some() || unreadable.is_some())
            && let Some(suppressed) = self.malformed.may_log()
        {
            tracing::warn!(%server, ?broken, ?unreadable, suppressed, "malformed election notification");
        }
        if let Some(received) = newest {
            let mut note = VoteNotification::from(received.notification);
            note.has_version = received.version != 0;
            let own =
                (self.is_dynamic && self.configured.contains_key(&server)).then_some((&*self.config, self.version));
            let config = received.config.as_deref().and_then(|text| news(text, own));
            // Who does not vote wants to know the leader, until it has one; what else it says is of no use.
            if config.is_some() || note.state == PeerState::Looking || self.voters.contains(&server) {
                let before = self.heard.remove(&server).and_then(|heard| heard.config);
                self.heard.insert(server, Heard { note, config: config.or(before) });
            }
        }
        conn.input.drain(..at);
        if conn.spoke.is_some()
            && let Some(other) = self.others.get_mut(&server)
        {
            (other.redial_at, other.redial_after) = (None, Duration::ZERO);
            other.heard = Some(Instant::now());
        }
        is_good
    }

    fn flush(&mut self, token: Token, events: &mut Vec<Event>) {
        let Some(conn) = self.conns.get_mut(&token) else { return };
        if let Some(other) = self.others.get_mut(&conn.server)
            && other.token == Some(token)
            && conn.socket.unsent_bytes() == 0
            && let Some(frame) = other.slot.take()
        {
            conn.socket.push(frame);
        }
        if conn.socket.flush(ELECTION_INPUT_BYTES_MAX).is_err() {
            self.drop_conn(token, events);
        }
    }

    fn drop_conn(&mut self, token: Token, events: &mut Vec<Event>) {
        let Some(Conn { server, .. }) = self.conns.remove(&token) else { return };
        if let Some(other) = self.others.get_mut(&server)
            && other.token == Some(token)
        {
            other.token = None;
            if other.slot.is_none() && other.looking.is_some() {
                other.slot = other.looking.clone();
                other.redial_at = other.redial_at.or_else(|| Some(Instant::now()));
            }
            if self.configured.contains_key(&server) {
                tracing::info!("the election connection with {server} is gone");
            }
            self.tell(server, ElectionConnection::Down, events);
        }
    }

    /// Dials again where a notification waits.
    pub(super) fn on_time(&mut self, now: Instant, dialer: &mut Dialer) {
        let is_vain = |other: &Other| other.slot.is_none() || REDIAL_LONGEST <= other.redial_after;
        self.others.retain(|server, other| {
            let is_limited = other.dialed_back.is_some_and(|at| now.saturating_duration_since(at) < DIAL_BACK_AGAIN);
            let is_wanted = other.token.is_some() || is_limited || dialer.is_dialing(Target::Unknown(*server));
            self.configured.contains_key(server) || is_wanted || !is_vain(other)
        });
        let waits = |other: &Other| other.token.is_none() && other.slot.is_some();
        let is_due = |other: &Other| other.redial_at.is_some_and(|at| at <= now);
        let is_doubted = |server: ServerId, other: &Other| {
            let from = other.looking.as_ref().and_then(|_| self.conns.get(&other.token?)?.from);
            let last = other.dialed.map(|at| now.saturating_duration_since(at));
            from.is_some_and(|from| dialer.resolver.address_match(server, from).is_doubted(last))
        };
        let is_dialed = |(server, other): &(&ServerId, &Other)| {
            (waits(other) && is_due(other)) || (self.configured.contains_key(server) && is_doubted(**server, other))
        };
        for server in self.others.iter().filter(is_dialed).map(|(server, _)| *server).collect::<Vec<_>>() {
            self.dial(server, now, dialer, &mut Vec::new());
        }
    }
}

/// How this server introduces itself where it is known as `local`. Nobody can be called back everywhere (K89).
fn hello_of(server: ServerId, mine: &[Address], local: Option<IpAddr>) -> Result<Vec<u8>, HelloError> {
    let here = |address: &Address| match local.filter(|_| is_everywhere(address)) {
        Some(local) => Address::new(&local.to_string(), address.port),
        None => address.clone(),
    };
    let mut addresses: Vec<Address> = mine.iter().map(here).collect();
    addresses.dedup();
    let version = if addresses.len() == 1 { HelloVersion::V1 } else { HelloVersion::V2 };
    let mut bytes = Vec::new();
    Hello { version, server, addresses }.put(&mut bytes)?;
    Ok(bytes)
}

/// The first addresses of a hello that can be dialled. A server that listens on the wildcard address may send it.
fn dialable(addresses: Vec<Address>) -> Vec<Address> {
    addresses.into_iter().filter(|address| !is_everywhere(address)).take(UNKNOWN_ADDRESSES_MAX).collect()
}

/// Whether it is the address of all addresses.
fn is_everywhere(address: &Address) -> bool {
    address.host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified())
}

/// The configuration that a notification brings, where it is newer than the own one: its text and version.
fn news(text: &str, own: Option<(&str, i64)>) -> Option<Arc<Ensemble>> {
    let (_, version) = own.filter(|(own, _)| *own != text)?;
    let ensemble = Ensemble::parse(text, Addresses::Several).ok()?;
    (version < ensemble.version()).then(|| Arc::new(ensemble))
}

#[cfg(test)]
mod tests;
