//! The peers thread: all connections to other servers of the ensemble. It transfers bytes and knows no protocol rules.
//!
//! ```text
//!   replica thread ── PeerCommand ──► queue ─► [ peers thread ] ─► sockets
//!         ▲                                           │
//!         └────────── inbox ◄────── PeerEvent ────────┘
//! ```
//! Accepted connections are identified first ([`handshakes`]). Election connections carry notifications, of which only
//! the newest counts ([`election`]); links carry packets, and sometimes a whole snapshot ([`link`]). Received packets
//! that the replica has not processed are bounded per link. Work that may take long has short-lived threads: resolving
//! names, binding ports, reading the on-disk log for a learner, and loading a received snapshot. The computations of TLS
//! handshakes have threads of their own ([`tls_workers`]).

mod address_match;
mod addresses;
mod commands;
pub(crate) mod config_activation;
mod dial;
mod election;
mod handshakes;
mod link;
mod listeners;
mod log_diff_sender;
mod observer_target;
pub(crate) mod port_tls;
pub(crate) mod quorum_sasl;
mod resolver;
mod sasl_dial;
pub(crate) mod security;
mod socket;
mod timed_log_limit;
mod tls_handshake;
pub(crate) mod tls_workers;

pub(crate) use commands::PeerCommands;
pub(crate) use handshakes::unidentified_max;

use crate::io::WAKER;
use crate::limits::{PACKET_BYTES_MIN, PEERS_POLL_MS, STALLED_LINK_GRACE};
use crate::shared::Shared;
use crate::status::java_text;
use crate::watchdog::Heartbeat;
use addresses::EnsembleAddresses;
use dial::{Dialed, Dialer, Target};
use election::Elections;
use handshakes::{Accepted, Handshakes, Identified, Peer};
use link::PeerLinks;
use listeners::{Listeners, Port};
use mio::{Events, Poll, Token};
use observer_target::{LinkTarget, ObserverTargets};
use ox_config::MemberConfig;
use ox_driver::links::{LinkEvent, RemoteEnd, UnloadedSnapshot};
use ox_driver::replica_loop::{PeerCommand, PeerEvent};
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Ensemble, Role};
use ox_zab::{LeaderSilence, LinkAction, Origin};
use port_tls::PeerSide;
use resolver::{NameLookup, Resolver};
use security::PeerSecurity;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use timed_log_limit::TimedLogLimit;

/// State of the peers thread.
pub(crate) struct Peers {
    shared: Arc<Shared>,
    me: ServerId,
    addresses: EnsembleAddresses,
    commands: Arc<PeerCommands>,
    poll: Poll,
    dialer: Dialer,
    listeners: Listeners,
    handshakes: Handshakes,
    elections: Elections,
    links: PeerLinks,
    observer_targets: ObserverTargets,
    /// The server that was dialled last, and the leader for which.
    dialled: Option<(ServerId, ServerId)>,
    /// A leader that was silent for this long has missed a ping.
    leader_silence: Duration,
    tokens: Tokens,
    events: Vec<PeerEvent>,
    refusal_log: TimedLogLimit,
    security: Arc<PeerSecurity>,
    certificate_log: TimedLogLimit,
}

/// Fails if the election port of a member cannot be bound, after as many attempts as are configured.
pub(crate) fn check_election_port(member: &MemberConfig) -> io::Result<()> {
    let addresses = EnsembleAddresses::new(member).ok_or(io::ErrorKind::AddrNotAvailable)?;
    listeners::check(&addresses.election_binds(), member.bind_attempts)
}

impl Peers {
    /// Binds the election port.
    pub(crate) fn new(
        shared: Arc<Shared>,
        member: Arc<MemberConfig>,
        poll: Poll,
        commands: Arc<PeerCommands>,
        security: Arc<PeerSecurity>,
    ) -> io::Result<Self> {
        let addresses = EnsembleAddresses::new(&member).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut listeners = Listeners::new(Arc::clone(&commands), NameLookup::system());
        listeners.bind_with_retry(Port::Election, addresses.election_binds(), member.bind_attempts)?;
        let mut resolver = Resolver::new(Arc::clone(&commands), NameLookup::system());
        resolver.set_members(addresses.hosts(), Instant::now());
        let leader_silence = Duration::from_millis(u64::from(shared.config.tick_ms) * 3 / 4);
        let mut handshakes = Handshakes::new(member.handshake_ms, Arc::clone(&security));
        handshakes.set_hosts(all_hosts(&addresses));
        let mut dialer = Dialer::new(resolver, &member, Arc::clone(&security));
        dialer.set_greeting(member.server, addresses.own().election.clone());
        Ok(Self {
            dialer,
            handshakes,
            security,
            leader_silence: leader_silence.max(LEADER_SILENCE_MIN),
            elections: Elections::new(&member, &addresses, shared.config.reconfig_enabled).map_err(io::Error::other)?,
            observer_targets: ObserverTargets::new(&addresses, member.reconnect_delay_ms),
            dialled: None,
            links: PeerLinks::new(
                Arc::clone(&commands),
                (Arc::clone(&shared.metrics), shared.clock),
                packet_bytes_max(&shared),
                member.leader_nodelay,
                member.learner_nodelay,
            ),
            me: member.server,
            addresses,
            shared,
            commands,
            poll,
            listeners,
            tokens: Tokens(0),
            events: Vec::new(),
            refusal_log: TimedLogLimit::new(),
            certificate_log: TimedLogLimit::new(),
        })
    }

    /// The addresses of the election port.
    pub(crate) fn election_binds(&self) -> Vec<Address> {
        self.addresses.election_binds()
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self, heartbeat: &Heartbeat) {
        let mut events = Events::with_capacity(256);
        while !self.shared.is_stopping() {
            heartbeat.beat();
            let has_more = self.links.has_more() || self.elections.has_more() || self.listeners.has_more();
            let timeout = if has_more { 0 } else { PEERS_POLL_MS };
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_millis(timeout)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "peers thread failed: cannot poll its sockets");
                return;
            }
            for event in &events {
                match event.token() {
                    WAKER => (),
                    token => self.on_ready(token),
                }
            }
            self.accept();
            self.take_commands();
            self.take_bound();
            self.take_tls_results();
            self.take_dialed();
            self.take_identified();
            self.dialer.run_iteration(Instant::now(), &mut self.tokens, self.poll.registry());
            self.elections.run_iteration(&mut self.events);
            self.links.run_iteration(&mut self.events);
            self.on_time();
            self.hand_over();
            // The replica has to process their SNAP packets first.
            self.links.take_snapshots().into_iter().for_each(|state| self.load_snapshot(state));
        }
    }

    fn accept(&mut self) {
        let now = Instant::now();
        let handshakes = &self.handshakes;
        for (port, stream, address) in self.listeners.accept(|port| handshakes.room(port)) {
            let is_member = self.dialer.resolver.is_member(address.ip(), now);
            let origin = if is_member { Origin::Member } else { Origin::Other };
            self.handshakes.add(port, (stream, address), origin, self.tokens.next(), self.poll.registry());
        }
    }

    /// Continues TLS handshakes whose computations are done.
    fn take_tls_results(&mut self) {
        for result in self.security.workers.take() {
            if let Some(result) = self.handshakes.on_tls(result) {
                self.dialer.on_tls(result, self.poll.registry());
            }
        }
    }

    /// Hands connections with a valid hello over to the elections and links.
    fn take_identified(&mut self) {
        self.handshakes.run_iteration();
        for Identified { peer, conn } in self.handshakes.take() {
            if !self.has_valid_certificate(&peer, &conn) || self.is_refused(&peer, conn.address) {
                continue;
            }
            match peer {
                Peer::Election(hello) => {
                    self.elections.on_hello(hello, conn, Instant::now(), &mut self.dialer, &mut self.events);
                }
                Peer::Learner(server) => {
                    self.shared.note_learner(server, conn.stream.tcp().peer_addr().ok());
                    self.links.adopt(conn, server, |server| self.addresses.is_member(server), &mut self.events);
                }
            }
        }
    }

    /// Whether the certificate of a connection, if there is one, may be that of the server which its hello names.
    fn has_valid_certificate(&mut self, peer: &Peer, conn: &Accepted) -> bool {
        let (Some(tls), Some(state)) = (&self.security.tls, conn.stream.tls_state()) else { return true };
        let (server, address) = (peer.server(), conn.address);
        let hosts = self.addresses.hosts().remove(&server).unwrap_or_default();
        let now_seconds = self.shared.clock.now().wall_ms.div_euclid(1000);
        let checked = tls.check(state, PeerSide::Initiator, address, hosts, now_seconds);
        match &checked {
            Ok(None) => return true,
            Ok(Some(_)) => self.security.metrics.quorum_host_name_mismatches.add(1),
            Err(_) => self.security.metrics.quorum_handshakes_rejected.add(1),
        }
        if let Some(suppressed) = self.certificate_log.allow() {
            match &checked {
                Ok(Some(mismatch)) => {
                    tracing::warn!(%server, %address, %mismatch, suppressed, "server accepted with a certificate of another host");
                }
                Err(reason) => tracing::error!(%server, %address, suppressed, "connection refused: {reason}"),
                Ok(None) => (),
            }
        }
        checked.is_ok()
    }

    /// Whether the server that a hello names is connected from an address that fits it better.
    fn is_refused(&mut self, peer: &Peer, address: IpAddr) -> bool {
        let (server, resolver) = (peer.server(), &self.dialer.resolver);
        let open: Vec<IpAddr> = match peer {
            Peer::Election(_) => self.elections.address_of(server).into_iter().collect(),
            Peer::Learner(_) => self.links.addresses_of(server).collect(),
        };
        let of = |address: IpAddr| resolver.address_match(server, address);
        if of(address).may_replace(open.iter().copied().map(of)) {
            return false;
        }
        if matches!(peer, Peer::Election(_)) {
            self.elections.probe(server);
        }
        if let Some(suppressed) = self.refusal_log.allow() {
            tracing::warn!(
                %server, %address, ?open, suppressed,
                "connection refused: a server with this id is already connected from a better matching address; check for a \
                 wrong myid, or for an address that is missing in the configuration"
            );
        }
        true
    }

    fn on_ready(&mut self, token: Token) {
        let is_taken = self.listeners.on_ready(token)
            || self.handshakes.on_ready(token)
            || self.dialer.on_ready(token, self.poll.registry())
            || self.elections.on_ready(token);
        if !is_taken {
            self.links.on_ready(token);
        }
    }

    fn take_commands(&mut self) {
        for command in self.commands.take() {
            match command {
                PeerCommand::Notify(to, note) => self.elections.notify(to, &note, &mut self.dialer, &mut self.events),
                PeerCommand::Dial(leader) => {
                    self.dial(leader);
                }
                PeerCommand::Send(link, packets) => self.links.send(link, packets),
                PeerCommand::Snapshot(link, frozen) => self.links.send_snapshot(link, frozen),
                PeerCommand::LogDiff(link, history) => self.links.send_log_diff(link, history, &mut self.events),
                PeerCommand::Close(link) => self.links.close(link),
                PeerCommand::Consumed(link, bytes) => self.links.consumed(link, bytes),
                PeerCommand::Listen(listen) => self.listen(listen),
                PeerCommand::ServeObservers => {
                    self.listeners.open(Port::Observers, self.addresses.observer_master_binds())
                }
                PeerCommand::Config(committed, proposed) => self.reconfigure(committed, proposed),
            }
        }
    }

    fn dial(&mut self, leader: ServerId) {
        match self.observer_targets.choose(leader, &self.addresses) {
            Some(LinkTarget { server, addresses, pause }) => {
                self.dialled = Some((server, leader));
                self.dialer.dial(Target::Leader(server), addresses, pause, Instant::now());
            }
            None => {
                self.dialled = None;
                self.events.push(PeerEvent::Dialed(leader, None));
            }
        }
    }

    fn take_dialed(&mut self) {
        for Dialed { target, stream } in self.dialer.take() {
            let wanted = |server| self.dialled.filter(|(dialled, _)| *dialled == server).map(|(_, leader)| leader);
            match (target, stream) {
                (Target::Leader(server), stream) => {
                    let Some(leader) = wanted(server) else { continue };
                    let stream = match stream {
                        // A leader sends nothing before the hello of its learner.
                        Ok(established) if established.input.is_empty() => established.stream,
                        outcome => {
                            self.log_failed_dial(server, outcome.err());
                            self.events.push(PeerEvent::Dialed(leader, None));
                            continue;
                        }
                    };
                    let address = stream.tcp().peer_addr().map_or_else(|error| error.to_string(), java_text::address);
                    if self.addresses.own().role == Role::Observer {
                        tracing::info!("Observing new leader sid={server} addr={address}");
                    }
                    tracing::info!("Successfully connected to leader, using address: {address}");
                    self.shared.stats.observed.store(server.0, Relaxed);
                    let token = self.tokens.next();
                    let options = self.shared.state.read().options().clone();
                    let link = self.links.add(stream, token, RemoteEnd::Leader(options), self.poll.registry());
                    self.events.push(PeerEvent::Dialed(leader, link));
                }
                (Target::Election(server) | Target::Unknown(server), stream) => {
                    let token = self.tokens.next();
                    self.elections.on_dialed(server, stream, token, self.poll.registry(), &mut self.events);
                }
            }
        }
    }

    /// Reports why a leader cannot be reached, where TLS or SASL may be the reason.
    fn log_failed_dial(&mut self, server: ServerId, reason: Option<String>) {
        if self.security.is_negotiated()
            && let Some(suppressed) = self.refusal_log.allow()
        {
            tracing::warn!(%server, reason, suppressed, "cannot connect to the leader");
        }
    }

    fn listen(&mut self, listen: bool) {
        if listen {
            self.listeners.open(Port::Quorum, self.addresses.quorum_binds());
        } else {
            for port in [Port::Quorum, Port::Observers] {
                self.listeners.close(port);
                self.handshakes.close_port(port);
            }
        }
    }

    /// Takes ports that have been bound. Without the quorum port a leader cannot lead; observers can use another
    /// observer master.
    fn take_bound(&mut self) {
        if self.listeners.take(|| self.tokens.next(), self.poll.registry()).contains(&Port::Quorum) {
            self.events.push(PeerEvent::CannotListen);
        }
    }

    /// Applies a new ensemble configuration.
    fn reconfigure(&mut self, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) {
        self.addresses.set(self.me, committed, proposed);
        self.dialer.set_greeting(self.me, self.addresses.own().election.clone());
        self.handshakes.set_hosts(all_hosts(&self.addresses));
        self.dialer.resolver.set_members(self.addresses.hosts(), Instant::now());
        self.observer_targets.reconfigure(&self.addresses);
        self.elections.reconfigure(&self.addresses, &mut self.events);
        self.links.reconfigure(|server| self.addresses.is_member(server));
        self.listeners.open(Port::Election, self.addresses.election_binds());
        if self.listeners.is_open(Port::Quorum) {
            self.listeners.open(Port::Quorum, self.addresses.quorum_binds());
        }
        if self.listeners.is_open(Port::Observers) {
            self.listeners.open(Port::Observers, self.addresses.observer_master_binds());
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        self.listeners.on_time(now);
        self.elections.on_time(now, &mut self.dialer);
        self.check_leader_link(now);
    }

    /// Closes a leader link that a network fault has stalled.
    fn check_leader_link(&mut self, now: Instant) {
        let (Some((heard, is_read)), Some((server, _))) = (self.links.leader_last_received(), self.dialled) else {
            return;
        };
        let since = |at| now.saturating_duration_since(at);
        let spoke = self.elections.first_notification_since(server, heard).map(since);
        let silence = LeaderSilence { silent: since(heard), is_read, spoke };
        match silence.judge(self.leader_silence, STALLED_LINK_GRACE) {
            LinkAction::Keep => (),
            LinkAction::Probe => self.elections.reconnect(server, now, &mut self.dialer, &mut self.events),
            // This thread may have been paused since it last read.
            LinkAction::Reset if self.links.read_leader(&mut self.events) => (),
            LinkAction::Reset => {
                let silent = silence.silent;
                tracing::warn!(%server, ?silent, "link to the leader closed: it stalled, and the leader can be reached again");
                self.links.reset_leader(&mut self.events);
            }
        }
    }

    /// Loads a received snapshot, on a separate thread because that takes long.
    fn load_snapshot(&self, state: UnloadedSnapshot) {
        let (shared, commands, link) = (Arc::clone(&self.shared), Arc::clone(&self.commands), state.link);
        let work = move || match state.finish() {
            Some(state) => shared.inbox.put(|input| input.peers.push(PeerEvent::SnapshotLoaded(link, state))),
            None => {
                tracing::warn!(link = link.0, "snapshot stream is corrupt");
                commands.send([PeerCommand::Close(link)]);
                shared.inbox.put(|input| input.peers.push(PeerEvent::Link(LinkEvent::Closed(link))));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("state".to_owned()).spawn(work) {
            tracing::error!(%error, "cannot start a thread to load a snapshot");
            self.commands.send([PeerCommand::Close(link)]);
            self.shared.inbox.put(|input| input.peers.push(PeerEvent::Link(LinkEvent::Closed(link))));
        }
    }

    fn hand_over(&mut self) {
        let (events, votes) = (std::mem::take(&mut self.events), self.elections.take_votes());
        if !events.is_empty() || !votes.is_empty() {
            self.shared.inbox.put(|input| {
                input.peers.extend(events);
                votes.into_iter().for_each(|(from, vote)| input.add_vote(from, vote));
            });
        }
    }
}

/// The hosts of all servers of the ensemble.
fn all_hosts(addresses: &EnsembleAddresses) -> BTreeSet<String> {
    addresses.hosts().into_values().flatten().collect()
}

/// Packets are bounded by what the sender accepted from its clients. The limit here is higher, so that different
/// settings do not exclude a peer.
fn packet_bytes_max(shared: &Shared) -> usize {
    let limits = &shared.config.limits;
    let record = limits.jute_max_buffer_bytes.saturating_add(limits.jute_extra_bytes) as usize;
    (record * 2).max(PACKET_BYTES_MIN)
}

/// A shorter silence does not make a link suspect.
const LEADER_SILENCE_MIN: Duration = Duration::from_millis(750);

/// Generates unique tokens for all sockets of the thread.
struct Tokens(usize);

impl Tokens {
    fn next(&mut self) -> Token {
        self.0 += 1;
        Token(self.0)
    }
}
