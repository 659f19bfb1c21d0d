//! A simulated client: connects, sends random requests, keeps its session alive, and records all it sends and
//! receives.

mod op_mix;
mod requests;
mod watches;
mod wire;

use crate::env::Env;
use crate::event::Event;
use crate::link::{Direction, Link, LinkId};
use op_mix::OpMix;
use ox_history::{Create, Op, RecordedConnection, Time};
use ox_proto::connect::ConnectRequest;
use ox_proto::password::session_password;
use ox_proto::{OpCode, SessionId, Zxid};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use watches::Tracked;
use wire::{Side, Wire};

/// How long a client waits for the reply to its handshake.
const PATIENCE_US: i64 = 3_000_000;

/// A client's address, which is one of its identities.
pub(crate) fn address(client: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(client + 1).unwrap_or(u8::MAX)).into()
}

/// A zxid that no server can have applied. A member of an ensemble rightly accepts clients that have seen an unknown
/// zxid of an epoch before its own, so the zxid is of an epoch that no run reaches.
fn unreached_zxid(env: &mut Env, last_zxid: Zxid) -> Zxid {
    let ahead = env.rng.between(1, 1_000) + if env.plan.is_ensemble() { Zxid::new(10_000, 0).0 } else { 0 };
    Zxid(last_zxid.0 + ahead)
}

/// A session as its client knows it.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    timeout_ms: i32,
    /// The server that last accepted it.
    server: u32,
}

/// The last write of a client, after all faults have ended: it must succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Due,
    Sent(i32),
    Done,
}

#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    op_mix: OpMix,
    session: Option<Session>,
    last_zxid: Zxid,
    wire: Option<Wire>,
    /// A connection that has lost its session to a newer one, and has not noticed yet.
    superseded: Option<Wire>,
    /// Paths that existed when the client last read them.
    known: VecDeque<String>,
    /// Paths of events, to be read next.
    to_revisit: VecDeque<String>,
    xid: i32,
    watches: Tracked,
    /// Requests that it still has to send.
    budget: u64,
    probe: Probe,
    paused_until: Time,
    /// The client reads a few bytes at a time until then.
    slow_until: Time,
    token: u64,
}

impl Client {
    pub(crate) fn new(number: usize, env: &mut Env) -> Self {
        let xid = i32::try_from(number).unwrap_or(0) * 1_000_000;
        let budget = env.plan.requests;
        let mut client = Self {
            number,
            op_mix: OpMix::draw(&mut env.rng),
            session: None,
            last_zxid: Zxid::ZERO,
            wire: None,
            superseded: None,
            known: VecDeque::new(),
            to_revisit: VecDeque::new(),
            xid,
            watches: Tracked::default(),
            budget,
            probe: Probe::Due,
            paused_until: Time(0),
            slow_until: Time(0),
            token: 0,
        };
        client.think(env);
        client
    }

    pub(crate) fn links(&self) -> Vec<LinkId> {
        [&self.wire, &self.superseded].into_iter().flatten().map(|wire| wire.link).collect()
    }

    /// Whether it has a session and all replies, including that of the last write.
    pub(crate) fn is_done(&self) -> bool {
        self.probe == Probe::Done && self.is_quiet()
    }

    fn is_quiet(&self) -> bool {
        self.superseded.is_none() && self.wire.as_ref().is_some_and(|wire| wire.is_up && wire.pending.is_empty())
    }

    pub(crate) fn describe(&self) -> String {
        let (number, probe) = (self.number, self.probe);
        match &self.wire {
            None => format!("{number}: not connected, last write {probe:?}"),
            Some(Wire { record, is_up, pending, .. }) => {
                let next = pending.front();
                format!("{number}: connection {record}, up {is_up}, waits for {next:?}, last write {probe:?}")
            }
        }
    }

    /// Schedules the next action; earlier schedules become void.
    fn schedule(&mut self, env: &mut Env, delay_us: i64) {
        self.token += 1;
        env.schedule_in(delay_us, Event::Client(self.number, self.token));
    }

    fn think(&mut self, env: &mut Env) {
        let rest = env.rng.skewed(env.plan.think_us) + 1;
        // A client that only keeps its session alive acts less often.
        let idle = if env.is_healed { self.is_done() } else { self.budget == 0 && self.is_quiet() };
        let keep_alive = self.session.map_or(rest, |session| i64::from(session.timeout_ms) * 1000 / 8);
        self.schedule(env, if idle { keep_alive } else { rest.min(keep_alive) });
    }

    pub(crate) fn on_time(&mut self, env: &mut Env, token: u64) {
        if token != self.token {
            return;
        }
        if env.now < self.paused_until {
            let rest = self.paused_until.0 - env.now.0;
            return self.schedule(env, rest);
        }
        for link in self.links() {
            self.on_readable(env, link);
        }
        self.use_superseded(env);
        match &self.wire {
            None => self.connect(env),
            Some(wire) if !wire.is_up => {
                if PATIENCE_US < env.now.0 - wire.last_sent.0.min(wire.last_heard.0) {
                    self.close_wire(env, Side::Main);
                } else if env.plan.eager_clients && env.rng.chance(200) {
                    self.send_burst(env);
                }
            }
            Some(_) => self.act(env),
        }
        self.think(env);
    }

    /// Performs an action on an established session.
    fn act(&mut self, env: &mut Env) {
        let (Some(session), Some(wire)) = (self.session, &self.wire) else { return };
        let timeout_us = i64::from(session.timeout_ms) * 1000;
        let waits = !wire.pending.is_empty();
        let patience_us = if env.plan.patient_clients { timeout_us * 5 } else { timeout_us * 2 / 3 };
        if waits && patience_us < env.now.0 - wire.last_heard.0 {
            env.note(format_args!("client {}: no reply", self.number));
            return self.close_wire(env, Side::Main);
        }
        let silent = env.now.0 - wire.last_sent.0;
        if env.is_healed && self.probe == Probe::Due {
            self.send_probe(env);
        } else if timeout_us / 3 < silent {
            self.request(env, Side::Main, Op::Ping);
        } else if 0 < self.budget && !env.is_healed {
            if self.superseded.is_none() && env.rng.chance(env.plan.take_over_per_mille) {
                return self.take_over(env);
            }
            if self.changes_ensemble(env) && env.rng.chance(env.plan.change_per_mille) {
                let op = requests::change(env);
                return self.request(env, Side::Main, op);
            }
            if env.rng.chance(env.plan.garbage_per_mille) {
                return self.send_garbage(env);
            }
            self.send_burst(env);
        }
    }

    /// The first client reconfigures the ensemble.
    fn changes_ensemble(&self, env: &Env) -> bool {
        self.number == 0 && env.plan.is_dynamic()
    }

    fn send_burst(&mut self, env: &mut Env) {
        let most = env.plan.burst;
        for _ in 0..env.rng.between(1, most) {
            let waiting = self.wire.as_ref().map_or(usize::MAX, |wire| wire.pending.len());
            if self.budget == 0 || env.plan.pipeline <= waiting {
                return;
            }
            self.budget -= 1;
            if env.rng.chance(env.plan.sync_per_mille) {
                self.request(env, Side::Main, Op::Sync { path: "/a".to_owned() });
            }
            let op = self.draw(env);
            self.request(env, Side::Main, op);
        }
    }

    /// Sends a plain write, which must succeed after all faults have ended.
    fn send_probe(&mut self, env: &mut Env) {
        let create = Create { op: OpCode::Create2, ..Create::open("/probe-", b"", 3) };
        self.request(env, Side::Main, Op::Create(create));
        self.probe = Probe::Sent(self.xid);
    }

    /// Moves the session to a new connection while the old one stays open.
    fn take_over(&mut self, env: &mut Env) {
        env.note(format_args!("client {}: moves its session to a new connection", self.number));
        env.coverage.taken_over += 1;
        self.superseded = self.wire.take();
        self.watches.disconnected();
        self.connect(env);
    }

    /// Sends a request on the connection that has lost its session.
    fn use_superseded(&mut self, env: &mut Env) {
        let is_up = self.superseded.as_ref().is_some_and(|superseded| superseded.is_up && superseded.pending.len() < 8);
        if is_up && !env.is_healed && env.rng.chance(500) {
            let op = self.draw(env);
            self.request(env, Side::Superseded, op);
        }
    }

    /// Sends bytes that are no request: the server closes the connection.
    fn send_garbage(&mut self, env: &mut Env) {
        let Some(wire) = &mut self.wire else { return };
        let kinds: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n", &[0xff; 5], &[0, 0, 0, 3, 1, 2, 3]];
        let garbage = *env.rng.pick(&kinds);
        env.note(format_args!("client {}: sends malformed bytes", self.number));
        env.send(wire.link, Direction::ToServer, garbage);
    }

    fn connect(&mut self, env: &mut Env) {
        let asked = self.session.map_or(SessionId::NONE, |session| session.id);
        let lies = self.session.is_some() && !env.is_healed && env.rng.chance(30);
        let (mut password, mut last_zxid_seen) = (session_password(asked), self.last_zxid);
        if lies && env.rng.chance(500) {
            password[3] ^= 1;
        } else if lies {
            last_zxid_seen = unreached_zxid(env, last_zxid_seen);
        }
        let (shortest, longest) = env.plan.timeouts_ms;
        let timeout_ms = i32::try_from(env.rng.between(shortest, longest)).unwrap_or(i32::MAX);
        let link = env.links.len();
        let server = env.rng.index(env.plan.servers());
        env.links.push(Link::new(self.number, server));
        let asks_read_only = env.plan.read_only && env.rng.chance(600);
        let request = ConnectRequest {
            last_zxid_seen,
            timeout_ms,
            session: asked,
            password: Some(&password),
            read_only: if asks_read_only || env.rng.chance(800) { Some(asks_read_only) } else { None },
        };
        let mut bytes = Vec::new();
        request.put_frame(&mut bytes);
        env.note(format_args!("client {}: connects for session {asked}, has seen {last_zxid_seen}", self.number));
        let delay = env.rng.skewed(env.plan.net_delay_us);
        env.schedule_in(delay, Event::Accept(link));
        env.send(link, Direction::ToServer, &bytes);
        let record = env.history.connections.len();
        env.history.connections.push(RecordedConnection {
            server: u32::try_from(server).unwrap_or(0),
            address: address(self.number).to_string(),
            opened: env.now,
            requested_session: asked,
            requested_timeout_ms: timeout_ms,
            has_valid_password: password == session_password(asked),
            last_zxid_seen,
            granted: None,
            is_read_only: false,
            requests: Vec::new(),
            received: Vec::new(),
            closed: None,
        });
        self.wire = Some(Wire::new(link, record, asks_read_only, env.now));
    }

    /// Closes a connection, orderly or by a reset.
    fn close_wire(&mut self, env: &mut Env, side: Side) {
        let Some(wire) = self.side(side).take() else { return };
        env.note(format_args!("client {}: closes its connection", self.number));
        if env.rng.chance(500) {
            env.close(wire.link, Direction::ToServer);
        } else {
            env.cut(wire.link);
        }
        env.history.connections[wire.record].closed = Some(env.now);
        self.disconnected(side);
    }

    /// Forgets what was pending on a closed connection.
    fn disconnected(&mut self, side: Side) {
        if side == Side::Main {
            self.watches.disconnected();
            if matches!(self.probe, Probe::Sent(_)) {
                self.probe = Probe::Due;
            }
        }
    }

    /// Stops reading and writing for a while.
    pub(crate) fn pause(&mut self, env: &mut Env, ms: i64) {
        env.note(format_args!("client {}: pauses for {ms} ms", self.number));
        self.paused_until = Time(env.now.0 + ms * 1000);
    }

    /// Reads a few bytes at a time for a while.
    pub(crate) fn read_slowly(&mut self, env: &mut Env, ms: i64) {
        env.note(format_args!("client {}: reads slowly for {ms} ms", self.number));
        env.coverage.slow_clients += 1;
        self.slow_until = Time(env.now.0 + ms * 1000);
    }

    pub(crate) fn resume(&mut self, env: &mut Env) {
        (self.paused_until, self.slow_until) = (Time(0), Time(0));
        self.schedule(env, 1);
    }

    /// Abandons its session without closing it, and begins a new one.
    pub(crate) fn abandon(&mut self, env: &mut Env) {
        self.close_wire(env, Side::Main);
        self.close_wire(env, Side::Superseded);
        self.forget_session();
    }

    fn forget_session(&mut self) {
        self.session = None;
        self.last_zxid = Zxid::ZERO;
        self.watches = Tracked::default();
    }

    /// Remembers that a path exists.
    fn remember_path(&mut self, path: &str) {
        if !self.known.iter().any(|known| known == path) {
            self.known.push_back(path.to_owned());
        }
        if 12 < self.known.len() {
            self.known.pop_front();
        }
    }
}
