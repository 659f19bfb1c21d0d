//! A client: connects, sends what comes to its mind, keeps its session alive, and writes down all it sees.

mod requests;
mod watches;

use crate::env::Env;
use crate::event::Event;
use crate::link::{Link, LinkId, Way};
use ox_history::{Body, Connection, Granted, Op, Received, Sent, Time, wire};
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::frame::split_frame;
use ox_proto::password::session_password;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{Reader, SessionId, Zxid};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use watches::Tracked;

/// How long a client waits for the answer to its handshake.
const PATIENCE_US: i64 = 3_000_000;

/// The address of a client, which is one of its identities.
pub(crate) fn address(client: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(client + 1).unwrap_or(u8::MAX)).into()
}

/// A session as its client knows it.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    timeout_ms: i32,
}

/// The client's end of a link.
#[derive(Debug)]
struct Wire {
    link: LinkId,
    /// Its place in the history.
    record: usize,
    is_up: bool,
    pending: VecDeque<(i32, Op)>,
    input: Vec<u8>,
    last_sent: Time,
    last_heard: Time,
}

#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    session: Option<Session>,
    last_zxid: Zxid,
    wire: Option<Wire>,
    /// A connection that has lost its session to a newer one, and does not know it yet.
    ghost: Option<Wire>,
    /// Paths that were there when it last looked.
    known: VecDeque<String>,
    xid: i32,
    watches: Tracked,
    /// Requests it still wants to send.
    budget: u64,
    asleep_until: Time,
    token: u64,
    /// What is being read comes from the old connection.
    is_haunting: bool,
}

impl Client {
    pub(crate) fn new(number: usize, env: &mut Env) -> Self {
        let xid = i32::try_from(number).unwrap_or(0) * 1_000_000;
        let budget = env.plan.requests;
        let mut client = Self {
            number,
            session: None,
            last_zxid: Zxid::ZERO,
            wire: None,
            ghost: None,
            known: VecDeque::new(),
            xid,
            watches: Tracked::default(),
            budget,
            asleep_until: Time(0),
            token: 0,
            is_haunting: false,
        };
        client.think(env);
        client
    }

    pub(crate) fn links(&self) -> Vec<LinkId> {
        [&self.wire, &self.ghost].into_iter().flatten().map(|wire| wire.link).collect()
    }

    /// Whether it has a session and got all it asked for.
    pub(crate) fn is_content(&self) -> bool {
        self.ghost.is_none() && self.wire.as_ref().is_some_and(|wire| wire.is_up && wire.pending.is_empty())
    }

    pub(crate) fn describe(&self) -> String {
        match &self.wire {
            None => format!("{}: not connected", self.number),
            Some(wire) => format!(
                "{}: connection {}, up {}, waits for {:?}",
                self.number,
                wire.record,
                wire.is_up,
                wire.pending.front()
            ),
        }
    }

    /// Plans the next look at what there is to do; earlier plans are void.
    fn plan(&mut self, env: &mut Env, delay_us: i64) {
        self.token += 1;
        env.plan_in(delay_us, Event::Client(self.number, self.token));
    }

    fn think(&mut self, env: &mut Env) {
        let rest = env.dice.skewed(env.plan.think_us) + 1;
        // While it only keeps its session alive it need not look often.
        let idle = (self.budget == 0 || env.is_healed) && self.is_content();
        let keep_alive = self.session.map_or(rest, |session| i64::from(session.timeout_ms) * 1000 / 8);
        self.plan(env, if idle { keep_alive.max(rest) } else { rest });
    }

    pub(crate) fn on_time(&mut self, env: &mut Env, token: u64) {
        if token != self.token {
            return;
        }
        if env.now < self.asleep_until {
            let rest = self.asleep_until.0 - env.now.0;
            return self.plan(env, rest);
        }
        for link in self.links() {
            self.on_readable(env, link);
        }
        self.haunt(env);
        match &self.wire {
            None => self.connect(env),
            Some(wire) if !wire.is_up => {
                if PATIENCE_US < env.now.0 - wire.last_sent.0.min(wire.last_heard.0) {
                    self.hang_up(env);
                } else if env.plan.eager_clients && env.dice.chance(200) {
                    self.send_burst(env);
                }
            }
            Some(_) => self.act(env),
        }
        self.think(env);
    }

    /// Does something with a session that works.
    fn act(&mut self, env: &mut Env) {
        let (Some(session), Some(wire)) = (self.session, &self.wire) else { return };
        let timeout_us = i64::from(session.timeout_ms) * 1000;
        let waits = !wire.pending.is_empty();
        if waits && timeout_us * 2 / 3 < env.now.0 - wire.last_heard.0 {
            env.note(format_args!("client {}: no answer", self.number));
            return self.hang_up(env);
        }
        let silent = env.now.0 - wire.last_sent.0;
        if 0 < self.budget && !env.is_healed {
            if self.ghost.is_none() && env.dice.chance(env.plan.take_over_per_mille) {
                return self.take_over(env);
            }
            if env.dice.chance(env.plan.garbage_per_mille) {
                return self.send_garbage(env);
            }
            self.send_burst(env);
        } else if timeout_us / 3 < silent {
            self.request(env, Op::Ping);
        }
    }

    fn send_burst(&mut self, env: &mut Env) {
        let most = env.plan.burst;
        for _ in 0..env.dice.between(1, most) {
            let waiting = self.wire.as_ref().map_or(usize::MAX, |wire| wire.pending.len());
            if self.budget == 0 || env.plan.pipeline <= waiting {
                return;
            }
            self.budget -= 1;
            let op = self.draw(env);
            self.request(env, op);
        }
    }

    /// Takes its session to a new connection while the old one goes on.
    fn take_over(&mut self, env: &mut Env) {
        env.note(format_args!("client {}: takes its session elsewhere", self.number));
        env.marks.taken_over += 1;
        self.ghost = self.wire.take();
        self.watches.disconnected();
        self.connect(env);
    }

    /// The old connection of a session that was taken elsewhere still sends something.
    fn haunt(&mut self, env: &mut Env) {
        if self.ghost.as_ref().is_some_and(|ghost| ghost.is_up) && !env.is_healed && env.dice.chance(500) {
            let op = self.draw(env);
            std::mem::swap(&mut self.wire, &mut self.ghost);
            self.request(env, op);
            std::mem::swap(&mut self.wire, &mut self.ghost);
        }
    }

    /// Sends what no client sends: the connection ends.
    fn send_garbage(&mut self, env: &mut Env) {
        let Some(wire) = &mut self.wire else { return };
        let kinds: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n", &[0xff; 5], &[0, 0, 0, 3, 1, 2, 3]];
        let garbage = *env.dice.pick(&kinds);
        env.note(format_args!("client {}: garbage", self.number));
        env.send(wire.link, Way::Up, garbage);
    }

    /// Sends a request and writes it down.
    fn request(&mut self, env: &mut Env, op: Op) {
        let Some(wire) = &mut self.wire else { return };
        let number = if op == Op::Ping {
            xid::PING
        } else {
            self.xid += 1;
            self.xid
        };
        env.marks.requests += 1;
        let mut bytes = Vec::new();
        wire::put_request(&mut bytes, number, &op);
        env.note(format_args!("client {}: {number} {op:?}", self.number));
        env.send(wire.link, Way::Up, &bytes);
        wire.last_sent = env.now;
        if wire.pending.is_empty() {
            wire.last_heard = env.now;
        }
        let sent = Sent { at: env.now, xid: number, op: op.clone() };
        env.history.connections[wire.record].requests.push(sent);
        wire.pending.push_back((number, op));
    }

    fn connect(&mut self, env: &mut Env) {
        let asked = self.session.map_or(SessionId::NONE, |session| session.id);
        let lies = self.session.is_some() && !env.is_healed && env.dice.chance(30);
        let (mut password, mut last_zxid_seen) = (session_password(asked), self.last_zxid);
        if lies && env.dice.chance(500) {
            password[3] ^= 1;
        } else if lies {
            last_zxid_seen = Zxid(last_zxid_seen.0 + env.dice.between(1, 1_000));
        }
        let (shortest, longest) = env.plan.timeouts_ms;
        let timeout_ms = i32::try_from(env.dice.between(shortest, longest)).unwrap_or(i32::MAX);
        let link = env.links.len();
        env.links.push(Link::new(self.number, 0));
        let request = ConnectRequest {
            last_zxid_seen,
            timeout_ms,
            session: asked,
            password: Some(&password),
            read_only: if env.dice.chance(800) { Some(false) } else { None },
        };
        let mut bytes = Vec::new();
        request.put_frame(&mut bytes);
        env.note(format_args!("client {}: connects for session {asked}, has seen {last_zxid_seen}", self.number));
        let delay = env.dice.skewed(env.plan.net_delay_us);
        env.plan_in(delay, Event::Accept(link));
        env.send(link, Way::Up, &bytes);
        let record = env.history.connections.len();
        env.history.connections.push(Connection {
            server: 0,
            address: address(self.number).to_string(),
            opened: env.now,
            asked,
            is_proven: password == session_password(asked),
            last_zxid_seen,
            granted: None,
            requests: Vec::new(),
            received: Vec::new(),
            closed: None,
        });
        let (pending, input) = (VecDeque::new(), Vec::new());
        self.wire = Some(Wire { link, record, is_up: false, pending, input, last_sent: env.now, last_heard: env.now });
    }

    /// Closes its end, politely or not.
    fn hang_up(&mut self, env: &mut Env) {
        let Some(wire) = self.wire.take() else { return };
        env.note(format_args!("client {}: hangs up", self.number));
        if env.dice.chance(500) {
            env.close(wire.link, Way::Up);
        } else {
            env.cut(wire.link);
        }
        env.history.connections[wire.record].closed = Some(env.now);
        self.watches.disconnected();
    }

    /// Stops reading and writing for a while.
    pub(crate) fn nap(&mut self, env: &mut Env, ms: i64) {
        env.note(format_args!("client {}: sleeps for {ms} ms", self.number));
        self.asleep_until = Time(env.now.0 + ms * 1000);
    }

    pub(crate) fn wake(&mut self, env: &mut Env) {
        self.asleep_until = Time(0);
        self.plan(env, 1);
    }

    /// Leaves its session without a word and begins a new one.
    pub(crate) fn abandon(&mut self, env: &mut Env) {
        self.hang_up(env);
        std::mem::swap(&mut self.wire, &mut self.ghost);
        self.hang_up(env);
        self.forget_session();
    }

    fn forget_session(&mut self) {
        self.session = None;
        self.last_zxid = Zxid::ZERO;
        self.watches = Tracked::default();
    }

    /// Reads what has arrived.
    pub(crate) fn on_readable(&mut self, env: &mut Env, link: LinkId) {
        if env.now < self.asleep_until {
            return;
        }
        let is_at = |wire: &Option<Wire>| wire.as_ref().is_some_and(|wire| wire.link == link);
        if is_at(&self.wire) {
            self.read(env, link);
            if self.wire.is_none() {
                let pause = env.dice.skewed(env.plan.think_us) + 1;
                self.plan(env, pause);
            }
        } else if is_at(&self.ghost) {
            self.is_haunting = true;
            std::mem::swap(&mut self.wire, &mut self.ghost);
            self.read(env, link);
            std::mem::swap(&mut self.wire, &mut self.ghost);
            self.is_haunting = false;
        }
    }

    fn read(&mut self, env: &mut Env, link: LinkId) {
        let bytes = env.links[link].down.read(usize::MAX);
        let is_at_end = env.links[link].down.is_at_end();
        let Some(wire) = &mut self.wire else { return };
        if !bytes.is_empty() {
            wire.last_heard = env.now;
        }
        wire.input.extend_from_slice(&bytes);
        let input = std::mem::take(&mut wire.input);
        let mut rest = &input[..];
        while let Ok(Some((payload, behind))) = split_frame(rest, usize::MAX) {
            rest = behind;
            self.on_frame(env, payload);
        }
        let Some(wire) = &mut self.wire else { return };
        wire.input = rest.to_vec();
        if is_at_end {
            env.note(format_args!("client {}: connection {} is closed", self.number, wire.record));
            env.close(link, Way::Up);
            env.history.connections[wire.record].closed = Some(env.now);
            self.wire = None;
            if !self.is_haunting {
                self.watches.disconnected();
            }
        }
    }

    fn on_frame(&mut self, env: &mut Env, payload: &[u8]) {
        let Some(wire) = &mut self.wire else { return };
        if !wire.is_up {
            return self.on_handshake(env, payload);
        }
        let mut from = Reader::new(payload);
        let Ok(header) = from.get::<ReplyHeader>() else {
            return env.fail(crate::outcome::Kind::History, "a frame without a header");
        };
        let (at, record) = (env.now, wire.record);
        if header.xid == xid::NOTIFICATION {
            let Ok(event) = ox_proto::event::WatcherEvent::get(&mut from) else {
                return env.fail(crate::outcome::Kind::History, "an event that cannot be decoded");
            };
            env.marks.events += 1;
            env.marks.rearm_events += u64::from(header.zxid == Zxid(-1));
            env.note(format_args!("client {}: event {} {} at {}", self.number, event.kind, event.path, header.zxid));
            if !self.is_haunting {
                self.watches.on_event(event.kind, &event.path);
            }
            let path = event.path.into_owned();
            let received = Received::Event { at, zxid: header.zxid, kind: event.kind, path };
            return env.history.connections[record].received.push(received);
        }
        env.marks.answers += 1;
        // An answer out of turn is written down as it is; the history will tell.
        let place = wire.pending.iter().position(|(xid, _)| *xid == header.xid);
        let op = place.and_then(|place| wire.pending.remove(place)).map(|(_, op)| op);
        let body = op.as_ref().map_or(Body::Empty, |op| wire::decode_body(op, header.err, from.rest()));
        env.note(format_args!("client {}: {} is {} at {}", self.number, header.xid, header.err, header.zxid));
        env.marks.throttled += u64::from(header.err == ox_proto::ErrorCode::ThrottledOp.code());
        self.last_zxid = self.last_zxid.max(header.zxid);
        if let Some(op) = op.as_ref().filter(|_| !self.is_haunting) {
            self.watches.on_answer(op, header.err);
            self.learn(op, &body);
            if *op == Op::CloseSession && header.err == 0 {
                self.forget_session();
            }
        }
        let received = Received::Reply { at, xid: header.xid, zxid: header.zxid, err: header.err, body };
        env.history.connections[record].received.push(received);
    }

    /// Remembers which paths are there.
    fn learn(&mut self, op: &Op, body: &Body) {
        let path = match (op, body) {
            (_, Body::Path(path) | Body::Created(path, _)) if !matches!(op, Op::Sync { .. }) => path,
            (Op::Exists { path, .. } | Op::GetData { path, .. }, Body::Stat(_) | Body::Data(..)) => path,
            _ => return,
        };
        if !self.known.contains(path) {
            self.known.push_back(path.clone());
        }
        if 12 < self.known.len() {
            self.known.pop_front();
        }
    }

    fn on_handshake(&mut self, env: &mut Env, payload: &[u8]) {
        let Some(wire) = &mut self.wire else { return };
        let Ok(answer) = ConnectResponse::decode(payload) else {
            return env.fail(crate::outcome::Kind::History, "an answer to a handshake that is none");
        };
        let record = &mut env.history.connections[wire.record];
        let at = env.now;
        if answer.timeout_ms == 0 {
            record.granted = Some(Granted::Refused { at });
            let is_proven = record.is_proven;
            env.marks.refused += 1;
            env.note(format_args!("client {}: refused", self.number));
            if is_proven {
                self.forget_session();
            }
            return;
        }
        let (id, timeout_ms) = (answer.session, answer.timeout_ms);
        record.granted = Some(Granted::Session { at, session: id, timeout_ms });
        wire.is_up = true;
        match self.session {
            Some(_) => env.marks.resumed += 1,
            None => env.marks.sessions += 1,
        }
        env.note(format_args!("client {}: session {id} for {timeout_ms} ms", self.number));
        self.session = Some(Session { id, timeout_ms });
        for op in self.watches.rearm(self.last_zxid, &mut env.dice) {
            env.marks.rearmed += 1;
            self.request(env, op);
        }
    }
}
