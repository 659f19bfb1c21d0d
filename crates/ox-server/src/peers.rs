//! The connections to other servers of the ensemble: one thread, which moves bytes and knows no rules.
//!
//! ```text
//!   replica thread ── Command ──► mailbox ─► [ peers thread ] ─► sockets
//!         ▲                                        │
//!         └──────────────── Event ── inbox ◄───────┘   short-lived threads: names, on-disk logs
//! ```
//! Accepted connections are identified first ([`handshakes`]). Election connections carry notifications, of which only the newest counts ([`election`]); links carry packets, and
//! sometimes a whole state ([`link`]). What has been read and not yet been dealt with is bounded per link.

mod address_match;
mod command;
mod dial;
mod doors;
mod election;
mod handshakes;
mod line_limit;
mod link;
mod masters;
mod names;
mod places;
mod socket;
mod stored;

pub(crate) use command::{Command, Event, Orders, Packets};
pub(crate) use election::Heard;
pub(crate) use handshakes::unidentified_limits;

use crate::io::WAKER;
use crate::limits::{PACKET_BYTES_MIN, PEER_TURN_MS, STALLED_LINK_GRACE};
use crate::shared::Shared;
use crate::watchdog::Turns;
use dial::{Dialed, Dialer, Target};
use doors::{Doors, Port};
use election::Elections;
use handshakes::{Handshakes, Identified, Peer};
use line_limit::LineLimit;
use link::{Arrived, End, Links};
use masters::{Choice, Masters};
use mio::{Events, Poll, Token};
use names::{Names, Resolver};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Ensemble};
use ox_zab::{LeaderSilence, LinkAction, Origin};
use places::Places;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// What the thread works with.
pub(crate) struct Peers {
    shared: Arc<Shared>,
    me: ServerId,
    places: Places,
    orders: Arc<Orders>,
    poll: Poll,
    dialer: Dialer,
    doors: Doors,
    handshakes: Handshakes,
    elections: Elections,
    links: Links,
    masters: Masters,
    /// Who was dialled last, and for which leader.
    dialled: Option<(ServerId, ServerId)>,
    /// A leader that was not heard for so long has missed a ping.
    leader_silence: Duration,
    tokens: Tokens,
    events: Vec<Event>,
    refusals: LineLimit,
}

impl Peers {
    /// Binds the election port.
    pub(crate) fn new(
        shared: Arc<Shared>,
        member: Arc<MemberConfig>,
        poll: Poll,
        orders: Arc<Orders>,
    ) -> io::Result<Self> {
        let places = Places::new(&member).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut doors = Doors::new(Arc::clone(&orders), Names::of_system());
        doors.open_patiently(Port::Election, places.election_binds(), member.bind_attempts)?;
        let mut resolver = Resolver::new(Arc::clone(&orders), Names::of_system());
        resolver.set_members(places.hosts(), Instant::now());
        let leader_silence = Duration::from_millis(u64::from(shared.config.tick_ms) * 3 / 4);
        Ok(Self {
            dialer: Dialer::new(resolver, &member),
            handshakes: Handshakes::new(member.handshake_ms),
            leader_silence: leader_silence.max(LEADER_SILENCE_MIN),
            elections: Elections::new(&member, &places, shared.config.reconfig_enabled).map_err(io::Error::other)?,
            masters: Masters::new(&places, member.reconnect_delay_ms),
            dialled: None,
            links: Links::new(
                Arc::clone(&orders),
                Arc::clone(&shared.metrics),
                packet_bytes_max(&shared),
                member.leader_nodelay,
                member.learner_nodelay,
            ),
            me: member.server,
            places,
            shared,
            orders,
            poll,
            doors,
            tokens: Tokens(0),
            events: Vec::new(),
            refusals: LineLimit::new(),
        })
    }

    /// Where notifications come in.
    pub(crate) fn election_binds(&self) -> Vec<Address> {
        self.places.election_binds()
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self, turns: &Turns) {
        let mut events = Events::with_capacity(256);
        while !self.shared.is_stopping() {
            turns.mark();
            let has_more = self.links.has_more() || self.elections.has_more() || self.doors.has_more();
            let patience = if has_more { 0 } else { PEER_TURN_MS };
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_millis(patience)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "cannot wait for other servers");
                return;
            }
            for event in &events {
                match event.token() {
                    WAKER => (),
                    token => self.on_ready(token),
                }
            }
            self.accept();
            self.take_orders();
            self.take_bound();
            self.take_dialed();
            self.take_identified();
            self.dialer.turn(Instant::now(), &mut self.tokens, self.poll.registry());
            self.elections.turn(&mut self.events);
            self.links.turn(&mut self.events);
            self.on_time();
            self.hand_over();
            // The replica has to know first that they come.
            self.links.take_states().into_iter().for_each(|state| self.put_together(state));
        }
    }

    fn accept(&mut self) {
        let now = Instant::now();
        for (port, stream, address) in self.doors.accept() {
            let is_member = self.dialer.resolver.is_member(address.ip(), now);
            let origin = if is_member { Origin::Member } else { Origin::Other };
            self.handshakes.add(port, (stream, address), origin, self.tokens.next(), self.poll.registry());
        }
    }

    /// Hands connections with a valid hello over to the elections and links.
    fn take_identified(&mut self) {
        self.handshakes.turn();
        for Identified { peer, conn } in self.handshakes.take() {
            if self.is_refused(&peer, conn.address) {
                continue;
            }
            match peer {
                Peer::Election(hello) => {
                    self.elections.on_hello(hello, conn, Instant::now(), &mut self.dialer, &mut self.events);
                }
                Peer::Learner(server) => {
                    self.links.adopt(conn, server, |server| self.places.is_member(server), &mut self.events);
                }
            }
        }
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
        if let Some(suppressed) = self.refusals.may_log() {
            tracing::warn!(
                %server, %address, ?open, suppressed,
                "refused a connection: the server that it names is connected from an address that fits its configuration \
                 better; look for a wrong myid or a missing address"
            );
        }
        true
    }

    fn on_ready(&mut self, token: Token) {
        let is_taken = self.doors.on_ready(token)
            || self.handshakes.on_ready(token)
            || self.dialer.on_ready(token, self.poll.registry())
            || self.elections.on_ready(token);
        if !is_taken {
            self.links.on_ready(token);
        }
    }

    fn take_orders(&mut self) {
        for command in self.orders.take() {
            match command {
                Command::Notify(to, note) => self.elections.notify(to, &note, &mut self.dialer, &mut self.events),
                Command::Dial(leader) => {
                    self.dial(leader);
                }
                Command::Send(link, packets) => self.links.send(link, packets),
                Command::Snapshot(link, frozen) => self.links.send_state(link, frozen),
                Command::Stored(link, history) => self.links.send_stored(link, history, &mut self.events),
                Command::Close(link) => self.links.close(link),
                Command::Consumed(link, bytes) => self.links.consumed(link, bytes),
                Command::Listen(listen) => self.listen(listen),
                Command::ServeObservers => self.doors.open(Port::Observers, self.places.observer_master_binds()),
                Command::Config(committed, proposed) => self.reconfigure(committed, proposed),
            }
        }
    }

    fn dial(&mut self, leader: ServerId) {
        match self.masters.choose(leader, &self.places) {
            Some(Choice { server, addresses, pause }) => {
                self.dialled = Some((server, leader));
                self.dialer.dial(Target::Leader(server), addresses, pause, Instant::now());
            }
            None => {
                self.dialled = None;
                self.events.push(Event::Dialed(leader, None));
            }
        }
    }

    fn take_dialed(&mut self) {
        for Dialed { target, stream } in self.dialer.take() {
            let wanted = |server| self.dialled.filter(|(dialled, _)| *dialled == server).map(|(_, leader)| leader);
            match (target, stream) {
                (Target::Leader(server), stream) => {
                    let Some(leader) = wanted(server) else { continue };
                    let Some(stream) = stream else {
                        self.events.push(Event::Dialed(leader, None));
                        continue;
                    };
                    self.shared.stats.observed.store(server.0, Relaxed);
                    let token = self.tokens.next();
                    let options = self.shared.state.read().options().clone();
                    let link = self.links.add(stream, token, End::Leader(options), self.poll.registry());
                    self.events.push(Event::Dialed(leader, link));
                }
                (Target::Election(server) | Target::Unknown(server), stream) => {
                    let token = self.tokens.next();
                    self.elections.on_dialed(server, stream, token, self.poll.registry(), &mut self.events);
                }
            }
        }
    }

    fn listen(&mut self, listen: bool) {
        if listen {
            self.doors.open(Port::Quorum, self.places.quorum_binds());
        } else {
            for port in [Port::Quorum, Port::Observers] {
                self.doors.close(port);
                self.handshakes.close_port(port);
            }
        }
    }

    /// Takes ports that have been bound. Observers that cannot connect go elsewhere; without learners nobody leads.
    fn take_bound(&mut self) {
        if self.doors.take(|| self.tokens.next(), self.poll.registry()).contains(&Port::Quorum) {
            self.events.push(Event::CannotListen);
        }
    }

    /// Servers are elsewhere, or others; so may this one be.
    fn reconfigure(&mut self, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) {
        self.places.set(self.me, committed, proposed);
        self.dialer.resolver.set_members(self.places.hosts(), Instant::now());
        self.masters.reconfigure(&self.places);
        self.elections.reconfigure(&self.places, &mut self.events);
        self.links.reconfigure(|server| self.places.is_member(server));
        self.doors.open(Port::Election, self.places.election_binds());
        if self.doors.is_open(Port::Quorum) {
            self.doors.open(Port::Quorum, self.places.quorum_binds());
        }
        if self.doors.is_open(Port::Observers) {
            self.doors.open(Port::Observers, self.places.observer_master_binds());
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        self.doors.on_time(now);
        self.elections.on_time(now, &mut self.dialer);
        self.links.on_time(now, &mut self.events);
        self.check_leader_link(now);
    }

    /// Ends a leader link that a network fault has stalled.
    fn check_leader_link(&mut self, now: Instant) {
        let (Some((heard, is_read)), Some((server, _))) = (self.links.leader_heard(), self.dialled) else { return };
        let since = |at| now.saturating_duration_since(at);
        let spoke = self.elections.spoke_on_connection_since(server, heard).map(since);
        let silence = LeaderSilence { silent: since(heard), is_read, spoke };
        match silence.judge(self.leader_silence, STALLED_LINK_GRACE) {
            LinkAction::Keep => (),
            LinkAction::Probe => self.elections.renew(server, now, &mut self.dialer, &mut self.events),
            // This thread may have been paused since it last looked.
            LinkAction::Reset if self.links.read_leader(&mut self.events) => (),
            LinkAction::Reset => {
                let silent = silence.silent;
                tracing::warn!(%server, ?silent, "closed the stalled connection to the leader, which can be reached again");
                self.links.reset_leader(&mut self.events);
            }
        }
    }

    /// Makes a state of what has come, on a thread of its own: that may take a while.
    fn put_together(&self, state: Arrived) {
        let (shared, orders, link) = (Arc::clone(&self.shared), Arc::clone(&self.orders), state.link);
        let work = move || match state.finish() {
            Some(state) => shared.inbox.put(|input| input.peers.push(Event::Loaded(link, state))),
            None => {
                tracing::warn!(link = link.0, "a state is broken");
                orders.give([Command::Close(link)]);
                shared.inbox.put(|input| input.peers.push(Event::Gone(link)));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("state".to_owned()).spawn(work) {
            tracing::error!(%error, "cannot start a thread to load a state with");
            self.orders.give([Command::Close(link)]);
            self.shared.inbox.put(|input| input.peers.push(Event::Gone(link)));
        }
    }

    fn hand_over(&mut self) {
        let (events, heard) = (std::mem::take(&mut self.events), self.elections.take_heard());
        if !events.is_empty() || !heard.is_empty() {
            self.shared.inbox.put(|input| {
                input.peers.extend(events);
                input.hear(heard);
            });
        }
    }
}

/// What peers send is bounded by what was accepted there; a little more, so that nobody is shut out by a setting.
fn packet_bytes_max(shared: &Shared) -> usize {
    let limits = &shared.config.limits;
    let record = limits.jute_max_buffer_bytes.saturating_add(limits.jute_extra_bytes) as usize;
    (record * 2).max(PACKET_BYTES_MIN)
}

/// Shorter silences are no reason to doubt a link.
const LEADER_SILENCE_MIN: Duration = Duration::from_millis(750);

/// Numbers for whatever can be ready.
struct Tokens(usize);

impl Tokens {
    fn next(&mut self) -> Token {
        self.0 += 1;
        Token(self.0)
    }
}
