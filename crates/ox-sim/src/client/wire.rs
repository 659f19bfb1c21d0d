//! A client's end of a link: sends requests, receives frames, and records both.

use super::{Client, Probe, Session};
use crate::env::Env;
use crate::event::Event;
use crate::jobs::SUPER;
use crate::link::{Direction, LinkId};
use crate::outcome::FailureKind;
use ox_history::{HandshakeReply, Op, ReceivedFrame, ReplyBody, SentRequest, Time, wire};
use ox_proto::connect::ConnectResponse;
use ox_proto::event::WatcherEvent;
use ox_proto::frame::split_frame;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{ErrorCode, Reader, Zxid};
use std::collections::VecDeque;

/// Bytes that a slow client reads at a time.
const SLOW_BYTES_MAX: usize = 100;
/// The longest time between two reads of a slow client.
const SLOW_US_MAX: i64 = 100_000;

/// Selects one of a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Main,
    /// The connection that has lost its session.
    Superseded,
}

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) link: LinkId,
    /// Index into the recorded connections.
    pub(super) record: usize,
    pub(super) is_up: bool,
    /// The client accepts read-only mode.
    pub(super) asks_read_only: bool,
    pub(super) pending: VecDeque<(i32, Op)>,
    input: Vec<u8>,
    pub(super) last_sent: Time,
    pub(super) last_heard: Time,
}

impl Wire {
    pub(super) fn new(link: LinkId, record: usize, asks_read_only: bool, now: Time) -> Self {
        let (pending, input) = (VecDeque::new(), Vec::new());
        Self { link, record, is_up: false, asks_read_only, pending, input, last_sent: now, last_heard: now }
    }
}

impl Client {
    pub(super) fn side(&mut self, side: Side) -> &mut Option<Wire> {
        match side {
            Side::Main => &mut self.wire,
            Side::Superseded => &mut self.superseded,
        }
    }

    /// Sends a request and records it.
    pub(super) fn request(&mut self, env: &mut Env, side: Side, op: Op) {
        let number = if op == Op::Ping { xid::PING } else { self.xid + 1 };
        let client = self.number;
        let Some(wire) = self.side(side) else { return };
        env.coverage.requests += 1;
        let mut bytes = Vec::new();
        wire::put_request(&mut bytes, number, &op);
        env.note(format_args!("client {client}: {number} {op:?}"));
        env.send(wire.link, Direction::ToServer, &bytes);
        wire.last_sent = env.now;
        if wire.pending.is_empty() {
            wire.last_heard = env.now;
        }
        let sent = SentRequest { at: env.now, xid: number, op: op.clone() };
        env.history.connections[wire.record].requests.push(sent);
        wire.pending.push_back((number, op));
        self.xid = self.xid.max(number);
    }

    pub(crate) fn on_readable(&mut self, env: &mut Env, link: LinkId) {
        if env.now < self.paused_until {
            return;
        }
        let is_at = |wire: &Option<Wire>| wire.as_ref().is_some_and(|wire| wire.link == link);
        if is_at(&self.wire) {
            self.read(env, Side::Main, link);
            if self.wire.is_none() {
                let pause = env.rng.skewed(env.plan.think_us) + 1;
                self.schedule(env, pause);
            }
        } else if is_at(&self.superseded) {
            self.read(env, Side::Superseded, link);
        }
    }

    fn read(&mut self, env: &mut Env, side: Side, link: LinkId) {
        let bytes =
            if env.now < self.slow_until { self.read_some(env, link) } else { env.links[link].down.read(usize::MAX) };
        let is_at_end = env.links[link].down.is_at_end();
        let Some(wire) = self.side(side) else { return };
        if !bytes.is_empty() {
            wire.last_heard = env.now;
        }
        wire.input.extend_from_slice(&bytes);
        let input = std::mem::take(&mut wire.input);
        let mut rest = &input[..];
        while let Ok(Some((payload, behind))) = split_frame(rest, usize::MAX) {
            rest = behind;
            self.on_frame(env, side, payload);
        }
        let Some(wire) = self.side(side) else { return };
        wire.input = rest.to_vec();
        if is_at_end {
            let record = wire.record;
            env.note(format_args!("client {}: connection {record} is closed", self.number));
            env.close(link, Direction::ToServer);
            env.history.connections[record].closed = Some(env.now);
            *self.side(side) = None;
            self.disconnected(side);
        }
    }

    /// Reads a few bytes, and more after a while.
    fn read_some(&mut self, env: &mut Env, link: LinkId) -> Vec<u8> {
        let most = 1 + env.rng.index(SLOW_BYTES_MAX);
        let bytes = env.links[link].down.read(most);
        if env.links[link].down.has_bytes() {
            let delay = env.rng.skewed(SLOW_US_MAX);
            env.schedule_in(delay, Event::ClientReads(link));
        }
        bytes
    }

    fn on_frame(&mut self, env: &mut Env, side: Side, payload: &[u8]) {
        let Some(wire) = self.side(side) else { return };
        if !wire.is_up {
            return self.on_handshake(env, side, payload);
        }
        let record = wire.record;
        let mut from = Reader::new(payload);
        let Ok(header) = from.get::<ReplyHeader>() else {
            return env.fail(FailureKind::History, "a frame is too short for its header");
        };
        let received = if header.xid == xid::NOTIFICATION {
            let Ok(event) = WatcherEvent::get(&mut from) else {
                return env.fail(FailureKind::History, "a malformed event");
            };
            self.on_event(env, side, header.zxid, &event);
            ReceivedFrame::Event { at: env.now, zxid: header.zxid, kind: event.kind, path: event.path.into_owned() }
        } else {
            let body = self.on_reply(env, side, header, from.rest());
            ReceivedFrame::Reply { at: env.now, xid: header.xid, zxid: header.zxid, err: header.err, body }
        };
        env.history.connections[record].received.push(received);
    }

    fn on_event(&mut self, env: &mut Env, side: Side, zxid: Zxid, event: &WatcherEvent<'_>) {
        env.coverage.events += 1;
        env.coverage.rearm_events += u64::from(zxid == Zxid(-1));
        env.note(format_args!("client {}: event {} {} at {zxid}", self.number, event.kind, event.path));
        if side == Side::Main {
            self.watches.on_event(event.kind, &event.path);
            if self.to_revisit.len() < 4 {
                self.to_revisit.push_back(event.path.to_string());
            }
        }
    }

    fn on_reply(&mut self, env: &mut Env, side: Side, header: ReplyHeader, rest: &[u8]) -> ReplyBody {
        let ReplyHeader { xid, zxid, err } = header;
        env.coverage.replies += 1;
        env.note(format_args!("client {}: {xid} is {err} at {zxid}", self.number));
        env.coverage.refused_writes += u64::from(err == ErrorCode::ThrottledOp.code());
        env.coverage.read_only_refusals += u64::from(err == ErrorCode::NotReadOnly.code());
        self.last_zxid = self.last_zxid.max(zxid);
        let Some(wire) = self.side(side) else { return ReplyBody::Empty };
        // An unexpected reply is recorded as it is; the history checker decides.
        let place = wire.pending.iter().position(|(number, _)| *number == xid);
        let Some((_, op)) = place.and_then(|place| wire.pending.remove(place)) else { return ReplyBody::Empty };
        let body = wire::decode_body(&op, err, rest);
        if side == Side::Main {
            self.watches.on_answer(&op, err);
            match (&op, &body) {
                (Op::Sync { .. }, _) => (),
                (_, ReplyBody::Path(path) | ReplyBody::Created(path, _)) => self.remember_path(path),
                (Op::Exists { path, .. } | Op::GetData { path, .. }, ReplyBody::Stat(_) | ReplyBody::Data(..)) => {
                    self.remember_path(path)
                }
                _ => (),
            }
            if self.probe == Probe::Sent(xid) {
                // Any other error means that the write was accepted.
                let was_refused = [ErrorCode::ThrottledOp, ErrorCode::NotReadOnly].map(ErrorCode::code).contains(&err);
                self.probe = if was_refused { Probe::Due } else { Probe::Done };
                env.coverage.probes += u64::from(!was_refused);
            }
            if op == Op::CloseSession && err == 0 {
                self.forget_session();
            }
        }
        body
    }

    fn on_handshake(&mut self, env: &mut Env, side: Side, payload: &[u8]) {
        let Ok(answer) = ConnectResponse::decode(payload) else {
            return env.fail(FailureKind::History, "a malformed reply to a handshake");
        };
        let (client, at) = (self.number, env.now);
        let Some(wire) = self.side(side) else { return };
        let record = &mut env.history.connections[wire.record];
        if answer.timeout_ms == 0 {
            record.granted = Some(HandshakeReply::Refused { at });
            let has_valid_password = record.has_valid_password;
            env.coverage.refused += 1;
            env.note(format_args!("client {client}: refused"));
            if has_valid_password {
                self.forget_session();
            }
            return;
        }
        let (id, timeout_ms, server) = (answer.session, answer.timeout_ms, record.server);
        record.granted = Some(HandshakeReply::Session { at, session: id, timeout_ms });
        record.is_read_only = answer.read_only == Some(true);
        if record.is_read_only && !wire.asks_read_only {
            return env.fail(FailureKind::History, "a server without a leader accepted a client that is not read-only");
        }
        env.coverage.read_only_sessions += u64::from(record.is_read_only);
        wire.is_up = true;
        match self.session {
            Some(before) => {
                env.coverage.resumed += 1;
                env.coverage.moved += u64::from(before.server != server);
            }
            None => env.coverage.sessions += 1,
        }
        env.note(format_args!("client {client}: session {id} for {timeout_ms} ms"));
        self.session = Some(Session { id, timeout_ms, server });
        if side == Side::Main && self.changes_ensemble(env) {
            self.request(env, side, Op::Auth { scheme: "digest".to_owned(), auth: SUPER.to_vec() });
        }
        for op in self.watches.rearm(self.last_zxid, &mut env.rng) {
            env.coverage.rearmed += 1;
            self.request(env, side, op);
        }
    }
}
