//! The sessions of a random run: their connections and identities, and random connection events.

use super::{Generator, auth, is_last_write};
use crate::request::{RequestBody, ScriptRequest, ZxidRef};
use crate::script::{Action, Batch, Handshake, HandshakeSession, Line, Password, SessionName};
use crate::stream::{ItemKind, StreamEnd, StreamItem};
use crate::value::FieldValue;
use ox_proto::OpCode;
use ox_testkit::Rng;
use std::collections::BTreeMap;

/// Maximum number of sessions; their names are the first letters.
const SESSIONS_MAX: usize = 5;
/// Batches after which a detached session reconnects, far below any session timeout.
const DETACHED_BATCHES_MAX: usize = 25;
/// Name of connections that never keep a session.
const THROWAWAY: SessionName = SessionName('X');

#[derive(Debug, Default)]
struct SessionState {
    connected: bool,
    detached_for: usize,
    users: Vec<&'static str>,
}

#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<SessionName, SessionState>);

impl Sessions {
    pub(super) fn connected(&self) -> Vec<SessionName> {
        self.0.iter().filter(|(_, member)| member.connected).map(|(&name, _)| name).collect()
    }

    pub(super) fn any_connected(&self, rng: &mut Rng) -> Option<SessionName> {
        let names = self.connected();
        (!names.is_empty()).then(|| *rng.pick(&names))
    }

    fn detached(&self) -> Vec<SessionName> {
        self.0.iter().filter(|(_, member)| !member.connected).map(|(&name, _)| name).collect()
    }

    pub(super) fn identify(&mut self, name: SessionName, user: &'static str) {
        if let Some(member) = self.0.get_mut(&name) {
            member.users.push(user);
        }
    }

    pub(super) fn identity(&self, name: SessionName, rng: &mut Rng) -> Option<&'static str> {
        let users = &self.0.get(&name)?.users;
        (!users.is_empty()).then(|| *rng.pick(users))
    }

    /// Called after every batch.
    pub(super) fn age(&mut self) {
        self.0.values_mut().filter(|member| !member.connected).for_each(|member| member.detached_for += 1);
    }

    pub(super) fn learn(&mut self, line: &Line, item: &StreamItem) {
        match (item.kind, &line.action) {
            (ItemKind::Handshake, Action::Connect(_)) if !item.text.contains("refused") => {
                let users = self.0.remove(&line.session).map_or(Vec::new(), |member| member.users);
                // Identities belong to a connection; those sent after the handshake are recorded when planned.
                self.0.insert(line.session, SessionState { connected: true, detached_for: 0, users });
            }
            (ItemKind::Reply, Action::Request(request)) if request.known() == Some(OpCode::CloseSession) => {
                self.0.remove(&line.session);
            }
            _ => (),
        }
    }

    pub(super) fn ended(&mut self, name: SessionName, end: StreamEnd) {
        if let (StreamEnd::Closed | StreamEnd::Silent | StreamEnd::Absent, Some(member)) = (end, self.0.get_mut(&name))
        {
            member.connected = false;
            member.users.clear();
        }
    }
}

impl Generator {
    /// Reconnects a session that has been detached for long.
    pub(super) fn reconnect_overdue(&mut self) -> Option<Batch> {
        let late = |(_, member): &(&SessionName, &SessionState)| DETACHED_BATCHES_MAX < member.detached_for;
        let name = self.sessions.0.iter().find(late).map(|(&name, _)| name)?;
        Some(Batch(self.reattach(name)))
    }

    /// A random event on connections or sessions.
    pub(super) fn session_batch(&mut self) -> Batch {
        let connected = self.sessions.any_connected(&mut self.rng);
        let detached = self.sessions.detached();
        let lines = match (self.rng.index(12), connected) {
            (_, None) if detached.is_empty() => self.connect(),
            (0..=2, _) if self.sessions.0.len() < SESSIONS_MAX => self.connect(),
            (_, None) => self.reattach(detached[0]),
            (0..=4, _) if !detached.is_empty() => {
                let name = *self.rng.pick(&detached);
                self.reattach(name)
            }
            (5, Some(name)) => vec![Line::new(name, Action::Drop)],
            (6, Some(name)) => self.reattach(name),
            (7, Some(name)) => self.wrong_handshake(name),
            (8, Some(name)) => self.closing_request(name),
            (9, _) => self.throwaway_connection(),
            (_, Some(name)) => {
                let mut lines = Vec::new();
                if self.rng.chance(500) {
                    let depth = self.rng.index(6);
                    lines = self.pipeline(name, depth);
                }
                let is_last = |line: &Line| matches!(&line.action, Action::Request(request) if is_last_write(request));
                if !lines.iter().any(is_last) {
                    lines.push(Line::request(name, ScriptRequest::new(OpCode::CloseSession, RequestBody::Empty)));
                }
                lines
            }
        };
        Batch(lines)
    }

    fn connect(&mut self) -> Vec<Line> {
        let names = ('A'..='W').map(SessionName);
        let Some(name) = names.into_iter().find(|name| !self.sessions.0.contains_key(name)) else { return Vec::new() };
        let handshake = self.varied(Handshake::new(HandshakeSession::New));
        let mut lines = vec![Line::new(name, Action::Connect(handshake))];
        if self.rng.chance(400) {
            let depth = self.rng.index(8);
            lines.extend(self.pipeline(name, depth));
        }
        lines
    }

    fn reattach(&mut self, name: SessionName) -> Vec<Line> {
        if let Some(member) = self.sessions.0.get_mut(&name) {
            member.users.clear();
        }
        let handshake = self.varied(Handshake::new(HandshakeSession::Of(name)));
        let mut lines = vec![Line::new(name, Action::Connect(handshake))];
        if self.rng.chance(500) {
            let depth = self.rng.index(8);
            lines.extend(self.pipeline(name, depth));
        }
        lines
    }

    /// A valid handshake in one of its forms.
    fn varied(&mut self, mut handshake: Handshake) -> Handshake {
        handshake.timeout_ms = *self.rng.pick(&[30_000, 25_000, 40_000, 40_001, i32::MAX]);
        match self.rng.index(12) {
            0 | 1 => handshake.read_only = None,
            2 => handshake.read_only = Some(*self.rng.pick(&[1, 2, 255])),
            3 => handshake.tail = vec![7; 1 + self.rng.index(5)],
            4 => handshake.version = *self.rng.pick(&[1, -1, i32::MAX]),
            5 => handshake.seen = *self.rng.pick(&[ZxidRef::Exactly(0), ZxidRef::Exactly(-5), ZxidRef::Last(-3)]),
            6 if handshake.target == HandshakeSession::New => {
                let passwords = [FieldValue::NULL, FieldValue::text(""), FieldValue::text("abc")];
                handshake.password = Password::Bytes(self.rng.pick(&passwords).clone());
            }
            _ => (),
        }
        handshake
    }

    /// A handshake that fails for a session that continues; a wrong password closes its connection.
    fn wrong_handshake(&mut self, name: SessionName) -> Vec<Line> {
        let mut handshake = Handshake::new(HandshakeSession::Of(name));
        match self.rng.index(4) {
            0 => handshake.password = Password::Wrong,
            1 => handshake.password = Password::Bytes(FieldValue::text("short")),
            2 => handshake.seen = ZxidRef::Last(1_000_000),
            _ => handshake.cut = Some(self.rng.index(44)),
        }
        vec![Line::new(THROWAWAY, Action::Connect(handshake))]
    }

    /// A request that makes the server close the connection.
    fn closing_request(&mut self, name: SessionName) -> Vec<Line> {
        let unknown = |op: i32, body: Vec<u8>| ScriptRequest {
            op,
            body: RequestBody::Raw(body),
            xid: None,
            cut: None,
            tail: Vec::new(),
        };
        let request = match self.rng.index(9) {
            0 => unknown(
                *self.rng.pick(&[10, 23, 50, 99, 108, 1000, 0, -1, -2, -9, -12, i32::MIN, i32::MAX]),
                Vec::new(),
            ),
            1 => unknown(99, vec![1; self.rng.index(20)]),
            2 => {
                ScriptRequest::new(OpCode::Check, RequestBody::PathVersion { path: FieldValue::text("/"), version: -1 })
            }
            3 => auth("bogus", FieldValue::text("x")),
            4 => auth("digest", FieldValue::NULL),
            5 => auth("sasl", FieldValue::text("x")),
            6 => ScriptRequest { cut: Some(self.rng.index(8)), ..auth("digest", FieldValue::text("bob:bob")) },
            7 => ScriptRequest::new(OpCode::Sasl, RequestBody::Token { token: FieldValue::NULL }),
            _ => {
                let frames: [&[u8]; 5] = [&[0; 4], &[0, 0, 0, 3, 1, 2, 3], &[0xff; 4], &[0, 0x10, 0, 0], b"ruok"];
                return vec![Line::new(name, Action::Raw(self.rng.pick(&frames).to_vec()))];
            }
        };
        vec![Line::request(name, request)]
    }

    /// A connection without a session, or with a session that is closed immediately.
    fn throwaway_connection(&mut self) -> Vec<Line> {
        if self.rng.chance(500) {
            let openings: [&[u8]; 6] = [&[0; 4], &[0xff; 4], &[0, 0x10, 0, 0], b"ruok", b"GET / HTTP/1.1\r\n", b"isro"];
            return vec![Line::new(THROWAWAY, Action::Raw(self.rng.pick(&openings).to_vec()))];
        }
        let mut handshake = Handshake::new(HandshakeSession::New);
        match self.rng.index(4) {
            0 => handshake.timeout_ms = *self.rng.pick(&[-5, 0, 1, 3999, 4000, 4001, i32::MIN]),
            1 => handshake.target = HandshakeSession::Id(*self.rng.pick(&[1, -1, 0x1234, i64::MAX, i64::MIN])),
            2 => handshake.seen = ZxidRef::Exactly(*self.rng.pick(&[i64::MAX, 1 << 40])),
            _ => handshake.cut = Some(self.rng.index(44)),
        }
        let mut lines = vec![Line::new(THROWAWAY, Action::Connect(handshake))];
        lines.push(Line::request(THROWAWAY, ScriptRequest::new(OpCode::CloseSession, RequestBody::Empty)));
        lines
    }
}
