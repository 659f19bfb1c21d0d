//! The connections to other servers of the ensemble: one thread, which moves bytes and knows no rules.
//!
//! ```text
//!   replica thread ── Command ──► mailbox ─► [ peers thread ] ─► sockets
//!         ▲                                        │
//!         └──────────────── Event ── inbox ◄───────┘   threads for what takes its time: names, connects, stored logs
//! ```
//! Election connections carry notifications, of which only the newest counts ([`election`]); links carry packets, and
//! sometimes a whole state ([`link`]). What has been read and not yet been dealt with is bounded per link.

mod command;
mod dial;
mod doors;
mod election;
mod link;
mod masters;
mod names;
mod places;
mod socket;
mod stored;

pub(crate) use command::{Command, Event, Orders, Packets};
pub(crate) use election::Heard;

use crate::io::WAKER;
use crate::limits::{ELECTION_CONNECTIONS_MAX, PACKET_BYTES_MIN, PEER_TURN_MS};
use crate::shared::Shared;
use crate::watchdog::Turns;
use dial::{Dialed, Dialer, Target};
use doors::{Doors, Port};
use election::Elections;
use link::{Arrived, End, Links};
use masters::{Choice, Masters};
use mio::{Events, Poll, Token};
use names::Names;
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Ensemble};
use places::Places;
use std::io;
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
    elections: Elections,
    links: Links,
    masters: Masters,
    /// Who was dialled last, and for which leader.
    dialled: Option<(ServerId, ServerId)>,
    tokens: Tokens,
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
        let mut doors = Doors::new(Arc::clone(&orders), Names::of_system());
        doors.open_patiently(Port::Election, places.election_binds(), member.bind_attempts)?;
        Ok(Self {
            dialer: Dialer::new(Arc::clone(&orders), Names::of_system(), &member),
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
            self.elections.turn(&mut self.dialer, &mut self.events);
            self.links.turn(&mut self.events);
            self.on_time();
            self.hand_over();
            // The replica has to know first that they come.
            self.links.take_states().into_iter().for_each(|state| self.put_together(state));
        }
    }

    fn accept(&mut self) {
        for (port, stream) in self.doors.accept() {
            let token = self.tokens.next();
            if port != Port::Election {
                let link = self.links.add(stream, token, End::Learner, self.poll.registry());
                self.events.extend(link.map(Event::Linked));
            } else if self.elections.strangers() < ELECTION_CONNECTIONS_MAX {
                self.elections.on_accept(stream, token, self.poll.registry());
            } // else they have their time; newcomers come again
        }
    }

    fn on_ready(&mut self, token: Token) {
        if !self.doors.on_ready(token) && !self.elections.on_ready(token) {
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
                self.dialer.dial(Target::Leader(server), addresses, pause);
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
                (Target::Election(server), stream) => {
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
            self.doors.close(Port::Quorum);
            self.doors.close(Port::Observers);
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
        self.masters.reconfigure(&self.places);
        self.elections.reconfigure(&self.places, &mut self.events);
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

/// Numbers for whatever can be ready.
struct Tokens(usize);

impl Tokens {
    fn next(&mut self) -> Token {
        self.0 += 1;
        Token(self.0)
    }
}
