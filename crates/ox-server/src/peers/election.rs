//! Connections on the election port, and the newest notification to and from each server.
//!
//! Of two servers, the one with the larger id owns the connection between them. The other one connects, sends its hello
//! and closes; then it is dialled back.
//!
//! A hello proves nothing: a limited number of bytes is read from a connection per iteration, and only the newest
//! notification of each server is kept until the replica takes it. A server that is in no configuration is forgotten
//! when it disconnects.

use super::addresses::EnsembleAddresses;
use super::dial::{Dialer, Established, Target};
use super::handshakes::Accepted;
use super::socket::{PeerSocket, PeerSockets};
use super::timed_log_limit::TimedLogLimit;
use crate::io::stream::Stream;
use crate::limits::{DIAL_BACK_INTERVAL, PROBE_AFTER, REDIAL_MAX, REDIAL_MIN};
use crate::limits::{ELECTION_INPUT_BYTES_MAX, ELECTION_READ_BYTES, ELECTION_UNACKED_MAX};
use crate::limits::{UNKNOWN_ADDRESSES_MAX, UNKNOWN_SERVERS_MAX};
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_driver::replica_loop::{LatestVote, PeerEvent};
use ox_driver::sockets::{Broken, read_available};
use ox_driver::unsent_buffer::UnsentBuffer;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Addresses, Ensemble};
use ox_proto::quorum::auth::is_auth_packet;
use ox_proto::quorum::hello::{Hello, HelloError, HelloVersion};
use ox_proto::quorum::notification;
use ox_zab::{ElectionConnection, PeerState, VoteNotification};
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Conn {
    socket: PeerSocket,
    input: Vec<u8>,
    unsent: UnsentBuffer,
    server: ServerId,
    since: Instant,
    /// When its first notification arrived. A proxy may accept connections for a server that is down.
    first_notification: Option<Instant>,
}

impl Conn {
    /// Appends input up to `max` bytes. False if there may be more.
    fn read(&mut self, max: usize, sockets: &mut PeerSockets) -> Result<bool, Broken> {
        let mut buffer = [0; RECEIVE_BUFFER_BYTES];
        read_available(&mut self.input, max, &mut buffer, sockets, &mut self.socket)
    }

    /// Sends what the kernel accepts.
    fn flush(&mut self, sockets: &mut PeerSockets) -> Result<usize, Broken> {
        self.unsent.flush(ELECTION_INPUT_BYTES_MAX, sockets, &mut self.socket)
    }
}

/// Size of the receive buffer.
const RECEIVE_BUFFER_BYTES: usize = 4 << 10;
/// Connections without a notification after which the likely cause is logged. A server that starts or stops closes few.
const EARLY_CLOSES_MIN: u64 = 4;
const CLOSED_EARLY: &str = "the server closes each connection before it sends a notification; its log may have the reason. It \
                            may require SASL (quorum.auth.*) or TLS (sslQuorum), which must be set alike on all servers; or \
                            it is down, and a proxy accepts its connections";

/// Connection state of another server.
#[derive(Default)]
struct RemoteServer {
    token: Option<Token>,
    /// The newest notification, while it cannot be sent.
    unsent: Option<Vec<u8>>,
    /// The newest notification if its state is LOOKING: a connection that breaks may have lost it.
    looking_vote: Option<Vec<u8>>,
    redial_at: Option<Instant>,
    redial_after: Duration,
    /// When it was last dialled.
    dialed: Option<Instant>,
    /// When it was last dialled because of a hello from an address that is not known as its own.
    dialed_back: Option<Instant>,
    /// A dial has failed, and that has been logged.
    is_unreachable: bool,
    /// Why TLS has ended a connection before a notification arrived, as it was logged.
    refusal: Option<rustls::Error>,
    /// Connections that were closed before a notification arrived, since the last notification.
    closed_early: u64,
    /// Addresses from its hello, if it is in no configuration.
    addresses: Vec<Address>,
    /// When its last hello or notification arrived.
    last_seen: Option<Instant>,
}

impl RemoteServer {
    /// Doubles the pause before the next dial.
    fn redial_later(&mut self) {
        self.redial_after = (self.redial_after * 2).clamp(REDIAL_MIN, REDIAL_MAX);
        self.redial_at = Some(Instant::now() + self.redial_after);
    }
}

pub(super) struct Elections {
    me: ServerId,
    /// This server's election addresses.
    mine: Vec<Address>,
    config: String,
    version: i64,
    /// Whether configurations in notifications are adopted (`reconfigEnabled`).
    is_dynamic: bool,
    configured: BTreeMap<ServerId, Vec<Address>>,
    voters: BTreeSet<ServerId>,
    keep_alive: bool,
    /// How long sent data may stay unacknowledged.
    unacked_max: Duration,
    servers: BTreeMap<ServerId, RemoteServer>,
    conns: BTreeMap<Token, Conn>,
    ready: BTreeSet<Token>,
    votes: BTreeMap<ServerId, LatestVote>,
    malformed_log: TimedLogLimit,
    closed_log: TimedLogLimit,
    sasl_log: TimedLogLimit,
    shared_id_log: TimedLogLimit,
    sockets: PeerSockets,
}

impl Elections {
    /// Fails if this server's addresses are too long for a hello.
    pub(super) fn new(
        member: &MemberConfig,
        addresses: &EnsembleAddresses,
        is_dynamic: bool,
    ) -> Result<Self, HelloError> {
        let mine = addresses.own().election.clone();
        hello_of(member.server, &mine, None)?;
        Ok(Self {
            me: member.server,
            mine,
            config: addresses.committed().to_string(),
            version: addresses.committed().version(),
            is_dynamic,
            configured: addresses.election_addresses(),
            voters: addresses.voters(),
            keep_alive: member.keep_alive,
            unacked_max: Duration::from_millis(member.cnx_timeout_ms.unsigned_abs()).min(ELECTION_UNACKED_MAX),
            servers: BTreeMap::new(),
            conns: BTreeMap::new(),
            ready: BTreeSet::new(),
            votes: BTreeMap::new(),
            malformed_log: TimedLogLimit::new(),
            closed_log: TimedLogLimit::new(),
            sasl_log: TimedLogLimit::new(),
            shared_id_log: TimedLogLimit::new(),
            sockets: PeerSockets::default(),
        })
    }

    /// Applies a new configuration. Connections to servers whose addresses have changed are closed.
    pub(super) fn reconfigure(&mut self, addresses: &EnsembleAddresses, events: &mut Vec<PeerEvent>) {
        (self.config, self.version) = (addresses.committed().to_string(), addresses.committed().version());
        (self.mine, self.voters) = (addresses.own().election.clone(), addresses.voters());
        let before = std::mem::replace(&mut self.configured, addresses.election_addresses());
        let has_moved = |server: &ServerId| {
            let (was, is) = (before.get(server), self.configured.get(server));
            was.is_some() && is.is_some() && was != is
        };
        let moved: Vec<ServerId> = self.servers.keys().filter(|server| has_moved(server)).copied().collect();
        for server in moved {
            if let Some(token) = self.servers.get(&server).and_then(|remote| remote.token) {
                self.drop_conn(token, events);
            }
        }
    }

    fn insert(&mut self, stream: Stream, token: Token, server: ServerId, from: Option<IpAddr>, input: Vec<u8>) {
        let _ = stream.tcp().set_nodelay(true);
        if self.keep_alive {
            let _ = SockRef::from(stream.tcp()).set_tcp_keepalive(&TcpKeepalive::new());
        }
        // Otherwise votes would wait, after a long partition, until the kernel retransmits them.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(stream.tcp()).set_tcp_user_timeout(Some(self.unacked_max));
        let (socket, unsent, since) = (PeerSocket { stream, from }, UnsentBuffer::default(), Instant::now());
        let conn = Conn { socket, input, unsent, server, since, first_notification: None };
        self.conns.insert(token, conn);
        self.ready.insert(token);
    }

    /// Sends a notification, or keeps it until there is a connection. It replaces an older one.
    pub(super) fn notify(
        &mut self,
        to: ServerId,
        note: &VoteNotification,
        dialer: &mut Dialer,
        events: &mut Vec<PeerEvent>,
    ) {
        if !self.configured.contains_key(&to) && !self.servers.contains_key(&to) {
            return; // an unknown server that has disconnected
        }
        let mut frame = Vec::new();
        note.wire().put(&self.config, &mut frame);
        let remote = self.servers.entry(to).or_default();
        remote.looking_vote = (note.state == PeerState::Looking).then(|| frame.clone());
        remote.unsent = Some(frame);
        match remote.token {
            Some(token) => self.flush(token, events),
            None => {
                let is_due = remote.redial_at.is_none_or(|at| at <= Instant::now());
                if is_due {
                    self.dial(to, Instant::now(), dialer, events);
                }
            }
        }
    }

    fn dial(&mut self, to: ServerId, now: Instant, dialer: &mut Dialer, events: &mut Vec<PeerEvent>) {
        let target = self.target(to);
        let learned = self.servers.get(&to).map(|remote| remote.addresses.clone()).unwrap_or_default();
        let addresses = self.configured.get(&to).cloned().unwrap_or(learned);
        if !addresses.is_empty() && !dialer.is_dialing(target) {
            dialer.dial(target, addresses, Duration::ZERO, now);
            self.servers.entry(to).or_default().dialed = Some(now);
            self.report(to, ElectionConnection::Connecting, events);
        }
    }

    fn target(&self, server: ServerId) -> Target {
        if self.configured.contains_key(&server) { Target::Election(server) } else { Target::Unknown(server) }
    }

    /// Opens a new connection to a server, although one may be open.
    pub(super) fn reconnect(
        &mut self,
        server: ServerId,
        now: Instant,
        dialer: &mut Dialer,
        events: &mut Vec<PeerEvent>,
    ) {
        let is_due = self.servers.get(&server).is_none_or(|remote| remote.redial_at.is_none_or(|at| at <= now));
        if is_due && self.configured.contains_key(&server) {
            self.dial(server, now, dialer, events);
        }
    }

    /// When the first notification arrived on a server's connection, if the connection is newer than `since`.
    pub(super) fn first_notification_since(&self, server: ServerId, since: Instant) -> Option<Instant> {
        let conn = self.conns.get(&self.servers.get(&server)?.token?)?;
        conn.first_notification.filter(|_| since < conn.since)
    }

    /// Takes the result of a dial.
    pub(super) fn on_dialed(
        &mut self,
        server: ServerId,
        stream: Result<Established, String>,
        token: Token,
        registry: &Registry,
        events: &mut Vec<PeerEvent>,
    ) {
        let configured = self.configured.get(&server);
        let remote = self.servers.entry(server).or_default();
        remote.redial_later();
        let Established { mut stream, input, is_greeted } = match stream {
            Ok(established) => established,
            Err(cause) => {
                if !std::mem::replace(&mut remote.is_unreachable, true)
                    && let Some(addresses) = configured
                {
                    log_closed_channel(server, addresses, remote, &cause);
                }
                if remote.token.is_none() {
                    self.report(server, ElectionConnection::Down, events);
                }
                return;
            }
        };
        let local = stream.tcp().local_addr().ok().map(|address| address.ip());
        if registry.register(stream.tcp_mut(), token, Interest::READABLE | Interest::WRITABLE).is_err() {
            return;
        }
        self.insert(stream, token, server, None, input);
        let sent = match (self.conns.get_mut(&token), hello_of(self.me, &self.mine, local)) {
            (Some(_), _) if is_greeted => true,
            (Some(conn), Ok(hello)) => {
                conn.unsent.push(hello);
                conn.flush(&mut self.sockets).is_ok()
            }
            (_, Err(error)) => {
                tracing::error!(%error, "cannot encode the election hello: the addresses are too long");
                false
            }
            (None, Ok(_)) => false,
        };
        if !sent {
            self.conns.remove(&token);
            return;
        }
        if self.me < server {
            self.end_greeting(server, token);
            return;
        }
        self.keep(server, token, events);
    }

    /// Ends a connection whose hello is sent: the server knows the caller now, and dials back. With TLS it closes the
    /// connection itself, so that its alert arrives if it refuses the certificate of this server.
    fn end_greeting(&mut self, server: ServerId, token: Token) {
        let kept = self.servers.get(&server).and_then(|remote| remote.token);
        let awaits_end = |at: &Token, conn: &Conn| {
            *at == token && conn.socket.stream.is_tls() && self.configured.contains_key(&server)
        };
        self.conns.retain(|at, conn| conn.server != server || Some(*at) == kept || awaits_end(at, conn));
    }

    /// Makes a connection the only one with a server.
    fn keep(&mut self, server: ServerId, token: Token, events: &mut Vec<PeerEvent>) {
        let remote = self.servers.entry(server).or_default();
        if std::mem::replace(&mut remote.is_unreachable, false) {
            tracing::info!(%server, "election connection is open again");
        }
        if let Some(old) = remote.token.replace(token).filter(|old| *old != token) {
            self.conns.remove(&old);
        }
        self.report(server, ElectionConnection::Up, events);
        self.flush(token, events);
    }

    /// Marks a connection ready; false if the token belongs to none here.
    pub(super) fn on_ready(&mut self, token: Token) -> bool {
        let is_here = self.conns.contains_key(&token);
        if is_here {
            self.ready.insert(token);
        }
        is_here
    }

    /// Whether a connection is known to have more input.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Reads once from each ready connection, and writes.
    pub(super) fn run_iteration(&mut self, events: &mut Vec<PeerEvent>) {
        for token in std::mem::take(&mut self.ready) {
            let Some(conn) = self.conns.get_mut(&token) else { continue };
            let max = (conn.input.len() + ELECTION_READ_BYTES).min(ELECTION_INPUT_BYTES_MAX);
            let read = conn.read(max, &mut self.sockets);
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

    /// Takes the newest notification of each server since the last call.
    pub(super) fn take_votes(&mut self) -> BTreeMap<ServerId, LatestVote> {
        std::mem::take(&mut self.votes)
    }

    /// Reports the connection state of a configured server; the election ignores other servers.
    fn report(&self, server: ServerId, link: ElectionConnection, events: &mut Vec<PeerEvent>) {
        if self.configured.contains_key(&server) {
            events.push(PeerEvent::Election(server, link));
        }
    }

    /// The address that the connection with a server comes from, if that server has dialled.
    pub(super) fn address_of(&self, server: ServerId) -> Option<IpAddr> {
        self.conns.get(&self.servers.get(&server)?.token?)?.socket.from
    }

    /// Has the kernel probe the connection with a server, because a refused connection names that server, too.
    pub(super) fn probe(&self, server: ServerId) {
        let token = self.servers.get(&server).and_then(|remote| remote.token);
        if let Some(conn) = token.and_then(|token| self.conns.get(&token)) {
            conn.socket.probe_after(PROBE_AFTER);
        }
    }

    /// Takes over an accepted connection with a complete hello. A server with a smaller id is dialled back instead.
    pub(super) fn on_hello(
        &mut self,
        hello: Hello,
        Accepted { stream, token, address, input }: Accepted,
        now: Instant,
        dialer: &mut Dialer,
        events: &mut Vec<PeerEvent>,
    ) {
        let server = hello.server;
        let is_configured = self.configured.contains_key(&server);
        if let Some(problem) = self.shared_id(server, &hello.addresses)
            && let Some(suppressed) = self.shared_id_log.allow()
        {
            tracing::warn!(%server, %address, suppressed, "{problem}");
        }
        // Where this server uses SASL, the exchange is over.
        if is_configured
            && is_auth_packet(&input) == Some(true)
            && let Some(suppressed) = self.sasl_log.allow()
        {
            tracing::warn!(
                %server,
                %address,
                suppressed,
                "the server authenticates with SASL, and this server does not: set quorum.auth.* alike on all servers"
            );
        }
        self.evict_unknown(server, events);
        let remote = self.servers.entry(server).or_default();
        remote.last_seen = Some(now);
        let addresses = dialable(hello.addresses);
        if !addresses.is_empty() {
            remote.addresses = addresses;
        }
        if self.me < server {
            self.insert(stream, token, server, Some(address), input);
            self.keep(server, token, events);
        } else if server < self.me {
            let last = remote.dialed_back.map(|at| now.saturating_duration_since(at));
            if dialer.resolver.address_match(server, address).may_dial_back(is_configured, last) {
                remote.dialed_back = Some(now);
                self.dial(server, now, dialer, events);
                dialer.hurry(self.target(server), now);
            }
        }
    }

    /// Why the dialer seems to be another server than the one that the configuration has with its id.
    fn shared_id(&self, server: ServerId, addresses: &[Address]) -> Option<&'static str> {
        if server == self.me {
            return Some("another server uses the id of this server: correct myid of one of them");
        }
        let expected = self.configured.get(&server)?;
        let is_expected = |address: &Address| expected.iter().any(|other| other.port == address.port);
        (!addresses.is_empty() && !addresses.iter().any(is_expected)).then_some(
            "a server with this id names another election port than its server line here: two servers use one myid, or \
             the server lines differ",
        )
    }

    /// Evicts a server that is in no configuration if there are too many: the one that was silent for longest, and
    /// those without a connection first.
    fn evict_unknown(&mut self, new: ServerId, events: &mut Vec<PeerEvent>) {
        if self.configured.contains_key(&new) || self.servers.contains_key(&new) {
            return;
        }
        let unknown = self.servers.iter().filter(|(server, _)| !self.configured.contains_key(server));
        let age = |(server, remote): (&ServerId, &RemoteServer)| {
            (remote.token.is_some(), remote.last_seen, *server, remote.token)
        };
        let unknown: Vec<_> = unknown.map(age).collect();
        if let Some((.., server, token)) =
            unknown.iter().min().filter(|_| UNKNOWN_SERVERS_MAX <= unknown.len()).copied()
        {
            token.into_iter().for_each(|token| self.drop_conn(token, events));
            self.servers.remove(&server);
            self.votes.remove(&server);
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
                    conn.first_notification = conn.first_notification.or_else(|| Some(Instant::now()));
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
            && let Some(suppressed) = self.malformed_log.allow()
        {
            let address = conn.socket.from;
            let (broken, unreadable) =
                (broken.map(|error| error.to_string()), unreadable.map(|error| error.to_string()));
            tracing::warn!(%server, ?address, broken, unreadable, suppressed, "malformed election notification");
        }
        if let Some(received) = newest {
            let mut note = VoteNotification::from(received.notification);
            note.has_version = received.version != 0;
            let own =
                (self.is_dynamic && self.configured.contains_key(&server)).then_some((&*self.config, self.version));
            let config = received.config.as_deref().and_then(|text| newer_config(text, own));
            // A server without a vote needs notifications until it has a leader; its other notifications do not count.
            if config.is_some() || note.state == PeerState::Looking || self.voters.contains(&server) {
                let before = self.votes.remove(&server).and_then(|vote| vote.config);
                let config_version = received.config.as_deref().and_then(version_of).unwrap_or(0);
                self.votes.insert(server, LatestVote { note, config: config.or(before), config_version });
            }
        }
        conn.input.drain(..at);
        if conn.first_notification.is_some()
            && let Some(remote) = self.servers.get_mut(&server)
        {
            (remote.redial_at, remote.redial_after, remote.refusal) = (None, Duration::ZERO, None);
            remote.closed_early = 0;
            remote.last_seen = Some(Instant::now());
        }
        is_good
    }

    fn flush(&mut self, token: Token, events: &mut Vec<PeerEvent>) {
        let Some(conn) = self.conns.get_mut(&token) else { return };
        if let Some(remote) = self.servers.get_mut(&conn.server)
            && remote.token == Some(token)
            && conn.unsent.bytes() == 0
            && let Some(frame) = remote.unsent.take()
        {
            conn.unsent.push(frame);
        }
        if conn.flush(&mut self.sockets).is_err() {
            self.drop_conn(token, events);
        }
    }

    fn drop_conn(&mut self, token: Token, events: &mut Vec<PeerEvent>) {
        let Some(Conn { server, socket, first_notification, .. }) = self.conns.remove(&token) else { return };
        self.log_refusal(server, &socket.stream);
        if let Some(remote) = self.servers.get_mut(&server)
            && remote.token == Some(token)
        {
            remote.token = None;
            if remote.unsent.is_none() && remote.looking_vote.is_some() {
                remote.unsent = remote.looking_vote.clone();
                remote.redial_at = remote.redial_at.or_else(|| Some(Instant::now()));
            }
            self.log_closed(server, first_notification.is_some());
            self.report(server, ElectionConnection::Down, events);
        }
    }

    /// Logs that a connection has ended; after several without a notification, the likely cause instead.
    fn log_closed(&mut self, server: ServerId, was_heard: bool) {
        let (Some(addresses), Some(remote)) = (self.configured.get(&server), self.servers.get_mut(&server)) else {
            return;
        };
        remote.closed_early = if was_heard { 0 } else { remote.closed_early + 1 };
        if remote.closed_early <= 1 {
            if let Some(suppressed) = self.closed_log.allow() {
                tracing::info!(%server, suppressed, "election connection closed");
            }
        } else if EARLY_CLOSES_MIN <= remote.closed_early
            && remote.closed_early.is_power_of_two()
            && remote.refusal.is_none()
        {
            log_closed_channel(server, addresses, remote, CLOSED_EARLY);
        }
    }

    /// Logs why TLS has ended a connection, unless the same was logged since the last notification of the server.
    fn log_refusal(&mut self, server: ServerId, stream: &Stream) {
        let (Some(failure), Some(addresses)) = (stream.tls_failure(), self.configured.get(&server)) else { return };
        let Some(remote) = self.servers.get_mut(&server) else { return };
        if remote.refusal.as_ref() != Some(failure) {
            remote.refusal = Some(failure.clone());
            let cause = format!("TLS: {}", ox_tls::describe_handshake_error(failure));
            log_closed_channel(server, addresses, remote, &cause);
        }
    }

    /// Dials servers for which a notification waits, and those whose connection is suspect.
    pub(super) fn on_time(&mut self, now: Instant, dialer: &mut Dialer) {
        let is_vain = |remote: &RemoteServer| remote.unsent.is_none() || REDIAL_MAX <= remote.redial_after;
        self.servers.retain(|server, remote| {
            let is_limited =
                remote.dialed_back.is_some_and(|at| now.saturating_duration_since(at) < DIAL_BACK_INTERVAL);
            let is_wanted = remote.token.is_some() || is_limited || dialer.is_dialing(Target::Unknown(*server));
            self.configured.contains_key(server) || is_wanted || !is_vain(remote)
        });
        let waits = |remote: &RemoteServer| remote.token.is_none() && remote.unsent.is_some();
        let is_due = |remote: &RemoteServer| remote.redial_at.is_some_and(|at| at <= now);
        let is_suspect = |server: ServerId, remote: &RemoteServer| {
            let from = remote.looking_vote.as_ref().and_then(|_| self.conns.get(&remote.token?)?.socket.from);
            let last = remote.dialed.map(|at| now.saturating_duration_since(at));
            from.is_some_and(|from| dialer.resolver.address_match(server, from).is_suspect(last))
        };
        let is_dialed = |(server, remote): &(&ServerId, &RemoteServer)| {
            (waits(remote) && is_due(remote)) || (self.configured.contains_key(server) && is_suspect(**server, remote))
        };
        for server in self.servers.iter().filter(is_dialed).map(|(server, _)| *server).collect::<Vec<_>>() {
            self.dial(server, now, dialer, &mut Vec::new());
        }
    }
}

fn log_closed_channel(server: ServerId, addresses: &[Address], remote: &RemoteServer, cause: &str) {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let (addresses, retry_in_ms) = (addresses.join("|"), remote.redial_after.as_millis());
    tracing::warn!(cause, retry_in_ms, "Cannot open channel to {server} at election address {addresses}");
}

/// The hello of this server, with `local` in place of the wildcard address, which cannot be dialled back (K89).
pub(super) fn hello_of(server: ServerId, mine: &[Address], local: Option<IpAddr>) -> Result<Vec<u8>, HelloError> {
    let here = |address: &Address| match local.filter(|_| is_wildcard(address)) {
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
    addresses.into_iter().filter(|address| !is_wildcard(address)).take(UNKNOWN_ADDRESSES_MAX).collect()
}

fn is_wildcard(address: &Address) -> bool {
    address.host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified())
}

/// The version in the text of a configuration.
fn version_of(text: &str) -> Option<i64> {
    i64::from_str_radix(text.lines().find_map(|line| line.strip_prefix("version="))?, 16).ok()
}

/// The configuration of a notification, if it is newer than this server's, given as text and version.
fn newer_config(text: &str, own: Option<(&str, i64)>) -> Option<Arc<Ensemble>> {
    let (_, version) = own.filter(|(own, _)| *own != text)?;
    let ensemble = Ensemble::parse(text, Addresses::Several).ok()?;
    (version < ensemble.version()).then(|| Arc::new(ensemble))
}

#[cfg(test)]
mod tests;
