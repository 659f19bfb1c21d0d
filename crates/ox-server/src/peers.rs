//! The connections to other servers of the ensemble: one thread, which moves bytes and knows no rules.
//!
//! ```text
//!   replica thread ── Command ──► mailbox ─► [ peers thread ] ─► sockets
//!         ▲                                        │
//!         └──────────────── Event ── inbox ◄───────┘   dial threads: names and connects take their time
//! ```
//! Election connections carry notifications, of which only the newest counts ([`election`]); links carry packets, and
//! sometimes a whole state ([`link`]). What has been read and not yet been dealt with is bounded per link.

mod command;
mod dial;
mod election;
mod link;
mod masters;
mod places;
mod socket;

pub(crate) use command::{Command, Event, Orders};

use crate::limits::{ELECTION_CONNECTIONS_MAX, PACKET_BYTES_MIN, PEER_TURN_MS};
use crate::shared::Shared;
use crate::watchdog::Turns;
use dial::{Dialed, Dialer, Target};
use election::Elections;
use link::{Arrived, End, Links};
use masters::{Choice, Masters};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Ensemble};
use places::Places;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const ELECTION_LISTENER: Token = Token(1);
const QUORUM_LISTENER: Token = Token(2);
const OBSERVER_LISTENER: Token = Token(3);
/// Between two attempts to bind the election port, as in Apache.
const BIND_PAUSE: Duration = Duration::from_secs(1);
/// Tokens of connections begin here.
const FIRST_TOKEN: usize = 16;

/// What the thread works with.
pub(crate) struct Peers {
    shared: Arc<Shared>,
    me: ServerId,
    places: Places,
    orders: Arc<Orders>,
    poll: Poll,
    dialer: Dialer,
    election_listener: Option<TcpListener>,
    /// When to try again to listen for notifications.
    bind_again_at: Option<Instant>,
    quorum_listener: Option<TcpListener>,
    /// Of a follower that serves observers.
    observer_listener: Option<TcpListener>,
    elections: Elections,
    links: Links,
    masters: Masters,
    /// Who was dialled last, and for which leader.
    dialled: Option<(ServerId, ServerId)>,
    next_token: usize,
    events: Vec<Event>,
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
        let mut election_listener = bind_patiently(&places.election_binds(), member.bind_attempts)?;
        poll.registry().register(&mut election_listener, ELECTION_LISTENER, Interest::READABLE)?;
        Ok(Self {
            dialer: Dialer::new(Arc::clone(&orders), &member),
            elections: Elections::new(&member, &places, shared.config.reconfig_enabled).map_err(io::Error::other)?,
            masters: Masters::new(&places, member.reconnect_delay_ms),
            dialled: None,
            links: Links::new(packet_bytes_max(&shared), member.leader_nodelay, member.learner_nodelay),
            me: member.server,
            places,
            shared,
            orders,
            poll,
            election_listener: Some(election_listener),
            bind_again_at: None,
            quorum_listener: None,
            observer_listener: None,
            next_token: FIRST_TOKEN,
            events: Vec::new(),
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
            let patience = if self.links.has_more() { 0 } else { PEER_TURN_MS };
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_millis(patience)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "cannot wait for other servers");
                return;
            }
            for event in &events {
                match event.token() {
                    WAKER => (),
                    ELECTION_LISTENER => self.accept_elections(),
                    QUORUM_LISTENER | OBSERVER_LISTENER => self.accept_links(),
                    token => self.on_ready(token),
                }
            }
            self.take_orders();
            self.take_dialed();
            self.links.turn(&mut self.events);
            self.on_time();
            self.hand_over();
            // The replica has to know first that they come.
            self.links.take_states().into_iter().for_each(|state| self.put_together(state));
        }
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    fn accept_elections(&mut self) {
        while let Some(stream) = self.election_listener.as_ref().and_then(accept) {
            if ELECTION_CONNECTIONS_MAX <= self.elections.strangers() {
                continue; // they have their time; newcomers come again
            }
            let token = self.token();
            self.elections.on_accept(stream, token, self.poll.registry());
        }
    }

    fn accept_links(&mut self) {
        let accepted = |listener: &Option<TcpListener>| listener.as_ref().and_then(accept);
        while let Some(stream) = accepted(&self.quorum_listener).or_else(|| accepted(&self.observer_listener)) {
            let token = self.token();
            if let Some(id) = self.links.add(stream, token, End::Learner, self.poll.registry()) {
                self.events.push(Event::Linked(id));
            }
        }
    }

    fn on_ready(&mut self, token: Token) {
        if !self.elections.on_ready(token, &mut self.dialer, &mut self.events) {
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
                Command::Send(link, bytes) => self.links.send(link, bytes, &mut self.events),
                Command::Snapshot(link, frozen) => self.links.send_state(link, frozen, &mut self.events),
                Command::Stored(link, history) => self.links.send_stored(link, history, &mut self.events),
                Command::Close(link) => self.links.close(link),
                Command::Consumed(link, bytes) => self.links.consumed(link, bytes),
                Command::Listen(listen) => self.listen(listen),
                Command::ServeObservers => self.serve_observers(),
                Command::Config(committed, proposed) => self.reconfigure(committed, proposed),
            }
        }
    }

    fn dial(&mut self, leader: ServerId) {
        match self.masters.choose(leader, &self.places) {
            Some(Choice { server, addresses, pause }) => {
                self.dialled = Some((server, leader));
                self.dialer.dial(Target::Leader(server), addresses, pause);
            }
            None => {
                self.dialled = None;
                self.events.push(Event::Dialed(None));
            }
        }
    }

    fn take_dialed(&mut self) {
        for Dialed { target, stream } in self.dialer.take() {
            match (target, stream) {
                // It is not wanted any more.
                (Target::Leader(server), _) if self.dialled.is_none_or(|(dialled, _)| dialled != server) => (),
                (Target::Leader(_), None) => self.events.push(Event::Dialed(None)),
                (Target::Leader(server), Some(stream)) => {
                    self.shared.stats.observed.store(server.0, Relaxed);
                    let token = self.token();
                    let options = self.shared.state.read().options().clone();
                    let link = self.links.add(stream, token, End::Leader(options), self.poll.registry());
                    self.events.push(Event::Dialed(link));
                }
                (Target::Election(server), stream) => {
                    let token = self.token();
                    self.elections.on_dialed(server, stream, token, self.poll.registry(), &mut self.events);
                }
            }
        }
    }

    fn listen(&mut self, listen: bool) {
        if !listen {
            (self.quorum_listener, self.observer_listener) = (None, None);
            return;
        }
        if self.quorum_listener.is_some() {
            return;
        }
        let registered = bind(&self.places.quorum_binds()).and_then(|mut listener| {
            self.poll.registry().register(&mut listener, QUORUM_LISTENER, Interest::READABLE)?;
            Ok(listener)
        });
        match registered {
            Ok(listener) => self.quorum_listener = Some(listener),
            Err(error) => {
                tracing::error!(%error, "cannot listen for learners");
                self.events.push(Event::CannotListen);
            }
        }
    }

    /// Lets observers connect. If they cannot, they go elsewhere.
    fn serve_observers(&mut self) {
        let registered = bind(&self.places.observer_master_binds()).and_then(|mut listener| {
            self.poll.registry().register(&mut listener, OBSERVER_LISTENER, Interest::READABLE)?;
            Ok(listener)
        });
        match registered {
            Ok(listener) => self.observer_listener = Some(listener),
            Err(error) => tracing::error!(%error, "cannot listen for observers"),
        }
    }

    /// Servers are elsewhere, or others; so may this one be.
    fn reconfigure(&mut self, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) {
        let binds = (self.places.election_binds(), self.places.quorum_binds());
        self.places.set(self.me, committed, proposed);
        self.masters.reconfigure(&self.places);
        self.elections.reconfigure(&self.places, &mut self.events);
        if binds.0 != self.places.election_binds() {
            self.election_listener = None;
            self.listen_for_notifications();
        }
        if binds.1 != self.places.quorum_binds() && self.quorum_listener.is_some() {
            self.listen(false);
            self.listen(true);
        }
    }

    fn listen_for_notifications(&mut self) {
        self.bind_again_at = None;
        let bound = bind(&self.places.election_binds()).and_then(|mut listener| {
            self.poll.registry().register(&mut listener, ELECTION_LISTENER, Interest::READABLE)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => self.election_listener = Some(listener),
            Err(error) => {
                tracing::error!(%error, "cannot listen for notifications at the new address; it is tried again");
                self.bind_again_at = Some(Instant::now() + BIND_PAUSE);
            }
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.bind_again_at.is_some_and(|at| at <= now) {
            self.listen_for_notifications();
        }
        self.elections.on_time(now, &mut self.dialer);
        self.links.on_time(now, &mut self.events);
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
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            self.shared.inbox.put(|input| input.peers.extend(events));
        }
    }
}

/// What peers send is bounded by what was accepted there; a little more, so that nobody is shut out by a setting.
fn packet_bytes_max(shared: &Shared) -> usize {
    let limits = &shared.config.limits;
    let record = limits.jute_max_buffer_bytes.saturating_add(limits.jute_extra_bytes) as usize;
    (record * 2).max(PACKET_BYTES_MIN)
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Some(stream),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a server");
                return None;
            }
        }
    }
}

/// Binds the election port, which somebody may be about to leave.
fn bind_patiently(addresses: &[Address], attempts_max: u32) -> io::Result<TcpListener> {
    let mut attempts = 1;
    loop {
        match bind(addresses) {
            Err(error) if attempts_max == 0 || attempts < attempts_max => {
                tracing::warn!(%error, attempts, "cannot listen on the election port; trying again");
                attempts += 1;
                std::thread::sleep(BIND_PAUSE);
            }
            done => return done,
        }
    }
}

/// Binds the first of the addresses that can be.
fn bind(addresses: &[Address]) -> io::Result<TcpListener> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for Address { host, port } in addresses {
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpListener::bind(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => failed = error,
            }
        }
    }
    Err(failed)
}
