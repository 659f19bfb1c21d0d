//! Connections on the election port: who may keep one, and the newest notification for each server.
//!
//! Of two servers the one with the larger number owns the connection between them. The other one may knock: it
//! connects, says who it is, and hangs up; then it is called back.

use super::command::Event;
use super::dial::{Dialer, Target};
use super::places::Places;
use super::socket::Socket;
use crate::limits::{ELECTION_CONNECTIONS_MAX, ELECTION_INPUT_BYTES_MAX, REDIAL_FIRST, REDIAL_LONGEST};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Addresses, Ensemble};
use ox_proto::quorum::hello::{self, Hello, HelloError, HelloVersion};
use ox_proto::quorum::notification;
use ox_zab::{Link, Notification};
use socket2::TcpKeepalive;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Conn {
    socket: Socket,
    input: Vec<u8>,
    /// Known when it has said so, or was dialled.
    server: Option<ServerId>,
    since: Instant,
    /// Whoever stands before a server may take connections for it that it does not take.
    has_spoken: bool,
}

/// Bytes that are received at once.
const DESK_BYTES: usize = 4 << 10;
/// What is known about another server.
#[derive(Default)]
struct Other {
    token: Option<Token>,
    /// The newest notification, while it cannot be sent.
    slot: Option<Vec<u8>>,
    redial_at: Option<Instant>,
    redial_after: Duration,
    /// It does not answer, and that has been said.
    is_missed: bool,
    /// Where it said that it is, if it is in no configuration.
    addresses: Vec<Address>,
}

impl Other {
    /// It does not answer, or has not answered yet: each time it is left alone for longer.
    fn redial_later(&mut self) {
        self.redial_after = (self.redial_after * 2).clamp(REDIAL_FIRST, REDIAL_LONGEST);
        self.redial_at = Some(Instant::now() + self.redial_after);
    }
}

pub(super) struct Elections {
    me: ServerId,
    hello: Vec<u8>,
    config: String,
    version: i64,
    /// Whether what others say about it counts.
    is_dynamic: bool,
    configured: BTreeMap<ServerId, Vec<Address>>,
    handshake: Duration,
    keep_alive: bool,
    others: BTreeMap<ServerId, Other>,
    conns: BTreeMap<Token, Conn>,
}

impl Elections {
    /// An error if the own addresses are too long to be told.
    pub(super) fn new(member: &MemberConfig, places: &Places, is_dynamic: bool) -> Result<Self, HelloError> {
        Ok(Self {
            me: member.server,
            hello: hello_of(member.server, places)?,
            config: places.committed().to_string(),
            version: places.committed().version(),
            is_dynamic,
            configured: places.election_addresses(),
            handshake: Duration::from_millis(member.handshake_ms.unsigned_abs()),
            keep_alive: member.keep_alive,
            others: BTreeMap::new(),
            conns: BTreeMap::new(),
        })
    }

    /// Servers are elsewhere, or others.
    pub(super) fn reconfigure(&mut self, places: &Places, events: &mut Vec<Event>) {
        (self.config, self.version) = (places.committed().to_string(), places.committed().version());
        match hello_of(self.me, places) {
            Ok(hello) => self.hello = hello,
            Err(error) => tracing::error!(%error, "the own addresses cannot be told"),
        }
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

    /// Connections that have not said whose they are.
    pub(super) fn strangers(&self) -> usize {
        self.conns.values().filter(|conn| conn.server.is_none()).count()
    }

    pub(super) fn on_accept(&mut self, stream: TcpStream, token: Token, registry: &Registry) {
        self.insert(stream, token, None, registry);
    }

    fn insert(&mut self, mut stream: TcpStream, token: Token, server: Option<ServerId>, registry: &Registry) -> bool {
        let _ = stream.set_nodelay(true);
        if self.keep_alive {
            let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new());
        }
        let is_registered = registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_ok();
        if is_registered {
            let conn = Conn {
                socket: Socket::new(stream),
                input: Vec::new(),
                server,
                since: Instant::now(),
                has_spoken: false,
            };
            self.conns.insert(token, conn);
        }
        is_registered
    }

    /// Sends a notification, or keeps it until there is a connection; what was kept before is out of date.
    pub(super) fn notify(&mut self, to: ServerId, note: &Notification, dialer: &mut Dialer, events: &mut Vec<Event>) {
        let mut frame = Vec::new();
        note.wire().put(&self.config, &mut frame);
        let other = self.others.entry(to).or_default();
        other.slot = Some(frame);
        match other.token {
            Some(token) => self.flush(token, events),
            None => {
                let is_due = other.redial_at.is_none_or(|at| at <= Instant::now());
                if is_due {
                    self.dial(to, dialer, events);
                }
            }
        }
    }

    fn dial(&mut self, to: ServerId, dialer: &mut Dialer, events: &mut Vec<Event>) {
        let target = Target::Election(to);
        let learned = self.others.get(&to).map(|other| other.addresses.clone()).unwrap_or_default();
        let addresses = self.configured.get(&to).cloned().unwrap_or(learned);
        if !addresses.is_empty() && !dialer.is_dialing(target) {
            dialer.dial(target, addresses, Duration::ZERO);
            events.push(Event::Election(to, Link::Trying));
        }
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
        let other = self.others.entry(server).or_default();
        let Some(stream) = stream else {
            if !std::mem::replace(&mut other.is_missed, true) {
                tracing::warn!("Cannot open channel to {server} at its election address; it is tried again");
            }
            other.redial_later();
            if other.token.is_none() {
                events.push(Event::Election(server, Link::Down));
            }
            return;
        };
        other.redial_later();
        if !self.insert(stream, token, Some(server), registry) {
            return;
        }
        let hello = self.hello.clone();
        if let Some(conn) = self.conns.get_mut(&token) {
            conn.socket.push(hello);
            let sent = conn.socket.flush(ELECTION_INPUT_BYTES_MAX);
            if self.me < server || sent.is_err() {
                self.conns.remove(&token); // it knows who called, and calls back
                return;
            }
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
        events.push(Event::Election(server, Link::Up));
        self.flush(token, events);
    }

    /// Reads and writes; false if the token is nobody's here.
    pub(super) fn on_ready(&mut self, token: Token, dialer: &mut Dialer, events: &mut Vec<Event>) -> bool {
        if !self.conns.contains_key(&token) {
            return false;
        }
        while let Some(conn) = self.conns.get_mut(&token) {
            let read = conn.socket.read(&mut conn.input, ELECTION_INPUT_BYTES_MAX, &mut [0; DESK_BYTES]);
            let is_good = self.take_hello(token, dialer, events) && self.take_notifications(token, events);
            match read {
                Ok(is_all) if is_good => {
                    if is_all {
                        break;
                    }
                }
                _ => self.drop_conn(token, events),
            }
        }
        self.flush(token, events);
        true
    }

    /// Whether the connection may go on.
    fn take_hello(&mut self, token: Token, dialer: &mut Dialer, events: &mut Vec<Event>) -> bool {
        let Some(conn) = self.conns.get_mut(&token) else { return true };
        if conn.server.is_some() {
            return true;
        }
        let (hello, length) = match hello::next(&conn.input) {
            Ok(Some(read)) => read,
            Ok(None) => return true,
            Err(error) => {
                tracing::warn!(%error, "a stranger on the election port");
                return false;
            }
        };
        conn.input.drain(..length);
        let server = hello.server;
        let is_known = self.configured.contains_key(&server) || self.others.contains_key(&server);
        if !is_known && self.configured.len() + ELECTION_CONNECTIONS_MAX <= self.others.len() {
            tracing::warn!(%server, "too many servers that are in no configuration");
            return false;
        }
        self.others.entry(server).or_default().addresses = hello.addresses;
        if self.me < server {
            conn.server = Some(server);
            self.keep(server, token, events);
            return true;
        }
        if server < self.me {
            self.dial(server, dialer, events);
        }
        false
    }

    fn take_notifications(&mut self, token: Token, events: &mut Vec<Event>) -> bool {
        let Some(conn) = self.conns.get_mut(&token) else { return true };
        let Some(server) = conn.server else { return true };
        let own = self.is_dynamic.then_some((self.config.as_str(), self.version));
        let mut at = 0;
        let is_good = loop {
            match notification::split(&conn.input[at..]) {
                Ok(Some((payload, rest))) => {
                    at = conn.input.len() - rest.len();
                    conn.has_spoken = true;
                    match notification::decode(payload) {
                        Ok(received) => {
                            let mut note = Notification::from(received.notification);
                            note.has_version = received.version != 0;
                            let news = received.config.as_deref().and_then(|text| news(text, own));
                            events.extend(news.map(|ensemble| Event::Config(server, ensemble)));
                            events.push(Event::Notification(server, note));
                        }
                        Err(error) => tracing::warn!(%server, %error, "a notification that cannot be read"),
                    }
                }
                Ok(None) => break true,
                Err(error) => {
                    tracing::warn!(%server, %error, "a broken election connection");
                    break false;
                }
            }
        };
        conn.input.drain(..at);
        if conn.has_spoken
            && let Some(other) = self.others.get_mut(&server)
        {
            (other.redial_at, other.redial_after) = (None, Duration::ZERO);
        }
        is_good
    }

    fn flush(&mut self, token: Token, events: &mut Vec<Event>) {
        let Some(conn) = self.conns.get_mut(&token) else { return };
        if let Some(other) = conn.server.and_then(|server| self.others.get_mut(&server))
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
        let server = self.conns.remove(&token).and_then(|conn| conn.server);
        if let Some((server, other)) = server.and_then(|server| Some((server, self.others.get_mut(&server)?)))
            && other.token == Some(token)
        {
            other.token = None;
            tracing::info!("the election connection with {server} is gone");
            events.push(Event::Election(server, Link::Down));
        }
    }

    /// Calls again where something waits, and gives up who does not say who it is.
    pub(super) fn on_time(&mut self, now: Instant, dialer: &mut Dialer) {
        let patience = self.handshake;
        self.conns.retain(|_, conn| conn.server.is_some() || now.duration_since(conn.since) < patience);
        let waits = |other: &Other| other.token.is_none() && other.slot.is_some();
        let due = self.others.iter().filter(|(_, other)| waits(other) && other.redial_at.is_some_and(|at| at <= now));
        for server in due.map(|(server, _)| *server).collect::<Vec<_>>() {
            self.dial(server, dialer, &mut Vec::new());
        }
    }
}

/// How this server introduces itself.
fn hello_of(server: ServerId, places: &Places) -> Result<Vec<u8>, HelloError> {
    let addresses = places.mine().election.clone();
    let version = if addresses.len() == 1 { HelloVersion::V1 } else { HelloVersion::V2 };
    let mut bytes = Vec::new();
    Hello { version, server, addresses }.put(&mut bytes)?;
    Ok(bytes)
}

/// The configuration that a notification brings, where it is newer than the own one: its text and version.
fn news(text: &str, own: Option<(&str, i64)>) -> Option<Arc<Ensemble>> {
    let (_, version) = own.filter(|(own, _)| *own != text)?;
    let ensemble = Ensemble::parse(text, Addresses::Several).ok()?;
    (version < ensemble.version()).then(|| Arc::new(ensemble))
}
