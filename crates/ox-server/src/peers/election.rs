//! Connections on the election port: who may keep one, and the newest notification for each server.
//!
//! Of two servers the one with the larger number owns the connection between them. The other one may knock: it
//! connects, says who it is, and hangs up; then it is called back.
//!
//! Anybody can connect, and say anything: of what a connection brings, a piece is read per turn, and the newest
//! notification of each server is kept until the replica takes it. Who is in no configuration is forgotten when it goes.

use super::command::Event;
use super::dial::{Dialer, Target};
use super::places::Places;
use super::socket::Socket;
use crate::limits::{ELECTION_CONNECTIONS_MAX, ELECTION_INPUT_BYTES_MAX, ELECTION_PIECE_BYTES};
use crate::limits::{REDIAL_FIRST, REDIAL_LONGEST};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Addresses, Ensemble};
use ox_proto::quorum::hello::{self, Hello, HelloError, HelloVersion};
use ox_proto::quorum::notification;
use ox_zab::{Link, Notification, PeerState};
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
    /// When it last said anything.
    heard: Option<Instant>,
}

impl Other {
    /// It does not answer, or has not answered yet: each time it is left alone for longer.
    fn redial_later(&mut self) {
        self.redial_after = (self.redial_after * 2).clamp(REDIAL_FIRST, REDIAL_LONGEST);
        self.redial_at = Some(Instant::now() + self.redial_after);
    }
}

/// The newest that a server has said.
pub(crate) struct Heard {
    pub(crate) note: Notification,
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
    handshake: Duration,
    keep_alive: bool,
    /// How long the other end may leave unanswered what it is sent.
    patience: Duration,
    others: BTreeMap<ServerId, Other>,
    conns: BTreeMap<Token, Conn>,
    ready: BTreeSet<Token>,
    heard: BTreeMap<ServerId, Heard>,
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
            handshake: Duration::from_millis(member.handshake_ms.unsigned_abs()),
            keep_alive: member.keep_alive,
            patience: Duration::from_millis(member.cnx_timeout_ms.unsigned_abs()),
            others: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            heard: BTreeMap::new(),
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
            let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new());
        }
        // Else votes would wait, after a long partition, until the system tries again.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(self.patience));
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
        if !self.configured.contains_key(&to) && !self.others.contains_key(&to) {
            return; // a stranger that is gone, nobody knows where
        }
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
            self.tell(to, Link::Trying, events);
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
                self.tell(server, Link::Down, events);
            }
            return;
        };
        other.redial_later();
        let local = stream.local_addr().ok().map(|address| address.ip());
        if !self.insert(stream, token, Some(server), registry) {
            return;
        }
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
        self.tell(server, Link::Up, events);
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
    pub(super) fn turn(&mut self, dialer: &mut Dialer, events: &mut Vec<Event>) {
        for token in std::mem::take(&mut self.ready) {
            let Some(conn) = self.conns.get_mut(&token) else { continue };
            let max = (conn.input.len() + ELECTION_PIECE_BYTES).min(ELECTION_INPUT_BYTES_MAX);
            let read = conn.socket.read(&mut conn.input, max, &mut [0; DESK_BYTES]);
            let is_good = self.take_hello(token, dialer, events) && self.take_notifications(token);
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
    fn tell(&self, server: ServerId, link: Link, events: &mut Vec<Event>) {
        if self.configured.contains_key(&server) {
            events.push(Event::Election(server, link));
        }
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
        self.make_room(server, events);
        let other = self.others.entry(server).or_default();
        other.heard = Some(Instant::now());
        // Who listens everywhere may say so; that leads nowhere.
        let addresses: Vec<Address> = hello.addresses.into_iter().filter(|address| !is_everywhere(address)).collect();
        if !addresses.is_empty() {
            other.addresses = addresses;
        }
        let Some(conn) = self.conns.get_mut(&token) else { return true };
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

    /// There are not too many servers that are in no configuration: the one that was not heard for longest goes.
    fn make_room(&mut self, newcomer: ServerId, events: &mut Vec<Event>) {
        if self.configured.contains_key(&newcomer) || self.others.contains_key(&newcomer) {
            return;
        }
        let strangers = self.others.iter().filter(|(server, _)| !self.configured.contains_key(server));
        let strangers: Vec<_> = strangers.map(|(server, other)| (other.heard, *server, other.token)).collect();
        if let Some((_, server, token)) =
            strangers.iter().min().filter(|_| ELECTION_CONNECTIONS_MAX <= strangers.len()).copied()
        {
            token.into_iter().for_each(|token| self.drop_conn(token, events));
            self.others.remove(&server);
            self.heard.remove(&server);
        }
    }

    fn take_notifications(&mut self, token: Token) -> bool {
        let Some(conn) = self.conns.get_mut(&token) else { return true };
        let Some(server) = conn.server else { return true };
        let (mut at, mut newest, mut unreadable) = (0, None, None);
        let is_good = loop {
            match notification::split(&conn.input[at..]) {
                Ok(Some((payload, rest))) => {
                    at = conn.input.len() - rest.len();
                    conn.has_spoken = true;
                    match notification::decode(payload) {
                        Ok(received) => newest = Some(received),
                        Err(error) => unreadable = Some(error),
                    }
                }
                Ok(None) => break true,
                Err(error) => {
                    tracing::warn!(%server, %error, "a broken election connection");
                    break false;
                }
            }
        };
        if let Some(error) = unreadable {
            tracing::warn!(%server, %error, "a notification that cannot be read");
        }
        if let Some(received) = newest {
            let mut note = Notification::from(received.notification);
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
        if conn.has_spoken
            && let Some(other) = self.others.get_mut(&server)
        {
            (other.redial_at, other.redial_after) = (None, Duration::ZERO);
            other.heard = Some(Instant::now());
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
            self.tell(server, Link::Down, events);
        }
    }

    /// Calls again where something waits, and gives up who does not say who it is.
    pub(super) fn on_time(&mut self, now: Instant, dialer: &mut Dialer) {
        let patience = self.handshake;
        self.conns.retain(|_, conn| conn.server.is_some() || now.duration_since(conn.since) < patience);
        let is_vain = |other: &Other| other.slot.is_none() || REDIAL_LONGEST <= other.redial_after;
        self.others.retain(|server, other| {
            let is_wanted = other.token.is_some() || dialer.is_dialing(Target::Election(*server));
            self.configured.contains_key(server) || is_wanted || !is_vain(other)
        });
        let waits = |other: &Other| other.token.is_none() && other.slot.is_some();
        let due = self.others.iter().filter(|(_, other)| waits(other) && other.redial_at.is_some_and(|at| at <= now));
        for server in due.map(|(server, _)| *server).collect::<Vec<_>>() {
            self.dial(server, dialer, &mut Vec::new());
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
mod tests {
    use super::*;

    fn told(mine: &[Address], local: &str) -> Hello {
        let bytes = hello_of(ServerId(3), mine, Some(local.parse().unwrap())).unwrap();
        hello::next(&bytes).unwrap().unwrap().0
    }

    /// Servers before 3.6 know one address only, so one is told as they tell it.
    #[test]
    fn k090_one_address_is_told_in_the_old_form() {
        let (one, other) = (Address::new("one", 5), Address::new("other", 6));
        assert_eq!(told(std::slice::from_ref(&one), "10.0.0.1").version, HelloVersion::V1);
        assert_eq!(told(&[one, other], "10.0.0.1").version, HelloVersion::V2);
    }

    #[test]
    fn k089_everywhere_is_told_as_here() {
        let mine = [Address::new("0.0.0.0", 5), Address::new("::", 5), Address::new("one", 6)];
        let expected = [Address::new("10.0.0.1", 5), Address::new("one", 6)];
        assert_eq!(told(&mine, "10.0.0.1").addresses, expected);
        assert_eq!(
            told(&mine[1..2], "fe80::1").addresses,
            [Address::new("fe80:0:0:0:0:0:0:1", 5)],
            "as Java writes it"
        );
    }

    /// Whoever comes, and whoever is called.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_not_answered_for_long_ends_a_connection() {
        let patience = Duration::from_millis(4_321);
        let mut elections = Elections {
            me: ServerId(3),
            mine: vec![Address::new("127.0.0.1", 1)],
            config: String::new(),
            version: 0,
            is_dynamic: false,
            configured: BTreeMap::new(),
            voters: BTreeSet::new(),
            handshake: patience,
            keep_alive: true,
            patience,
            others: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            heard: BTreeMap::new(),
        };
        let poll = mio::Poll::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let called = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (came, _) = listener.accept().unwrap();
        let sockets = [&called, &came].map(|stream| stream.try_clone().unwrap());
        let [called, came] = [called, came].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            TcpStream::from_std(stream)
        });
        elections.on_accept(came, Token(1), poll.registry());
        elections.on_dialed(ServerId(1), Some(called), Token(2), poll.registry(), &mut Vec::new());
        for socket in &sockets {
            let socket = SockRef::from(socket);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(patience));
            assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        }
    }
}
