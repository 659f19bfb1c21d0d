//! The sessions of a random run: who is connected, as whom, and what may happen to connections.

use super::rng::Dice;
use super::{Generator, auth, is_last_write};
use crate::request::{Body, Request, Seen};
use crate::script::{Action, Batch, Handshake, Line, Name, Password, Target};
use crate::stream::{End, Item, Kind};
use crate::value::Value;
use ox_proto::OpCode;
use std::collections::BTreeMap;

/// Sessions at a time; their names are the first letters.
const SESSIONS_MAX: usize = 5;
/// Batches after which a detached session is brought back, far below any session timeout.
const DETACHED_BATCHES_MAX: usize = 25;
/// The name for connections that never get a session to keep.
const STRANGER: Name = Name('X');

#[derive(Debug, Default)]
struct Member {
    connected: bool,
    detached_for: usize,
    users: Vec<&'static str>,
}

/// The sessions that exist.
#[derive(Debug, Default)]
pub(super) struct Crew(BTreeMap<Name, Member>);

impl Crew {
    pub(super) fn connected(&self) -> Vec<Name> {
        self.0.iter().filter(|(_, member)| member.connected).map(|(&name, _)| name).collect()
    }

    pub(super) fn any_connected(&self, dice: &mut Dice) -> Option<Name> {
        let names = self.connected();
        (!names.is_empty()).then(|| *dice.pick(&names))
    }

    fn detached(&self) -> Vec<Name> {
        self.0.iter().filter(|(_, member)| !member.connected).map(|(&name, _)| name).collect()
    }

    pub(super) fn identify(&mut self, name: Name, user: &'static str) {
        if let Some(member) = self.0.get_mut(&name) {
            member.users.push(user);
        }
    }

    pub(super) fn identity(&self, name: Name, dice: &mut Dice) -> Option<&'static str> {
        let users = &self.0.get(&name)?.users;
        (!users.is_empty()).then(|| *dice.pick(users))
    }

    /// One batch has passed.
    pub(super) fn age(&mut self) {
        self.0.values_mut().filter(|member| !member.connected).for_each(|member| member.detached_for += 1);
    }

    pub(super) fn learn(&mut self, line: &Line, item: &Item) {
        match (item.kind, &line.action) {
            (Kind::Handshake, Action::Connect(_)) if !item.text.contains("refused") => {
                let users = self.0.remove(&line.session).map_or(Vec::new(), |member| member.users);
                // Identities belong to a connection; those sent behind the handshake are noted when planned.
                self.0.insert(line.session, Member { connected: true, detached_for: 0, users });
            }
            (Kind::Reply, Action::Request(request)) if request.known() == Some(OpCode::CloseSession) => {
                self.0.remove(&line.session);
            }
            _ => (),
        }
    }

    pub(super) fn ended(&mut self, name: Name, end: End) {
        if let (End::Closed | End::Silent | End::Absent, Some(member)) = (end, self.0.get_mut(&name)) {
            member.connected = false;
            member.users.clear();
        }
    }
}

impl Generator {
    /// Brings back what has been away for long.
    pub(super) fn overdue(&mut self) -> Option<Batch> {
        let late = |(_, member): &(&Name, &Member)| DETACHED_BATCHES_MAX < member.detached_for;
        let name = self.crew.0.iter().find(late).map(|(&name, _)| name)?;
        Some(Batch(self.reattach(name)))
    }

    /// Something that happens to connections and sessions.
    pub(super) fn session_batch(&mut self) -> Batch {
        let connected = self.crew.any_connected(&mut self.dice);
        let detached = self.crew.detached();
        let lines = match (self.dice.below(12), connected) {
            (_, None) if detached.is_empty() => self.connect(),
            (0..=2, _) if self.crew.0.len() < SESSIONS_MAX => self.connect(),
            (_, None) => self.reattach(detached[0]),
            (0..=4, _) if !detached.is_empty() => {
                let name = *self.dice.pick(&detached);
                self.reattach(name)
            }
            (5, Some(name)) => vec![Line::new(name, Action::Drop)],
            (6, Some(name)) => self.reattach(name),
            (7, Some(name)) => self.wrong_handshake(name),
            (8, Some(name)) => self.closing_request(name),
            (9, _) => self.stranger(),
            (_, Some(name)) => {
                let mut lines = Vec::new();
                if self.dice.chance(50) {
                    let depth = self.dice.below(6);
                    lines = self.pipeline(name, depth);
                }
                let is_last = |line: &Line| matches!(&line.action, Action::Request(request) if is_last_write(request));
                if !lines.iter().any(is_last) {
                    lines.push(Line::request(name, Request::new(OpCode::CloseSession, Body::Empty)));
                }
                lines
            }
        };
        Batch(lines)
    }

    fn connect(&mut self) -> Vec<Line> {
        let names = ('A'..='W').map(Name);
        let Some(name) = names.into_iter().find(|name| !self.crew.0.contains_key(name)) else { return Vec::new() };
        let handshake = self.varied(Handshake::new(Target::New));
        let mut lines = vec![Line::new(name, Action::Connect(handshake))];
        if self.dice.chance(40) {
            let depth = self.dice.below(8);
            lines.extend(self.pipeline(name, depth));
        }
        lines
    }

    fn reattach(&mut self, name: Name) -> Vec<Line> {
        if let Some(member) = self.crew.0.get_mut(&name) {
            member.users.clear();
        }
        let handshake = self.varied(Handshake::new(Target::Of(name)));
        let mut lines = vec![Line::new(name, Action::Connect(handshake))];
        if self.dice.chance(50) {
            let depth = self.dice.below(8);
            lines.extend(self.pipeline(name, depth));
        }
        lines
    }

    /// A handshake that works, in one of its forms.
    fn varied(&mut self, mut handshake: Handshake) -> Handshake {
        handshake.timeout_ms = *self.dice.pick(&[30_000, 25_000, 40_000, 40_001, i32::MAX]);
        match self.dice.below(12) {
            0 | 1 => handshake.read_only = None,
            2 => handshake.read_only = Some(*self.dice.pick(&[1, 2, 255])),
            3 => handshake.tail = vec![7; 1 + self.dice.below(5)],
            4 => handshake.version = *self.dice.pick(&[1, -1, i32::MAX]),
            5 => handshake.seen = *self.dice.pick(&[Seen::Exactly(0), Seen::Exactly(-5), Seen::Last(-3)]),
            6 if handshake.target == Target::New => {
                let passwords = [Value::NULL, Value::text(""), Value::text("abc")];
                handshake.password = Password::Bytes(self.dice.pick(&passwords).clone());
            }
            _ => (),
        }
        handshake
    }

    /// A handshake that fails for a session that goes on; the wrong password costs it its connection.
    fn wrong_handshake(&mut self, name: Name) -> Vec<Line> {
        let mut handshake = Handshake::new(Target::Of(name));
        match self.dice.below(4) {
            0 => handshake.password = Password::Wrong,
            1 => handshake.password = Password::Bytes(Value::text("short")),
            2 => handshake.seen = Seen::Last(1_000_000),
            _ => handshake.cut = Some(self.dice.below(44)),
        }
        vec![Line::new(STRANGER, Action::Connect(handshake))]
    }

    /// A request that makes the server close the connection.
    fn closing_request(&mut self, name: Name) -> Vec<Line> {
        let unknown =
            |op: i32, body: Vec<u8>| Request { op, body: Body::Raw(body), xid: None, cut: None, tail: Vec::new() };
        let request = match self.dice.below(9) {
            0 => unknown(
                *self.dice.pick(&[10, 23, 50, 99, 108, 1000, 0, -1, -2, -9, -12, i32::MIN, i32::MAX]),
                Vec::new(),
            ),
            1 => unknown(99, vec![1; self.dice.below(20)]),
            2 => Request::new(OpCode::Check, Body::PathVersion { path: Value::text("/"), version: -1 }),
            3 => auth("bogus", Value::text("x")),
            4 => auth("digest", Value::NULL),
            5 => auth("sasl", Value::text("x")),
            6 => Request { cut: Some(self.dice.below(8)), ..auth("digest", Value::text("bob:bob")) },
            7 => Request::new(OpCode::Sasl, Body::Token { token: Value::NULL }),
            _ => {
                let frames: [&[u8]; 5] = [&[0; 4], &[0, 0, 0, 3, 1, 2, 3], &[0xff; 4], &[0, 0x10, 0, 0], b"ruok"];
                return vec![Line::new(name, Action::Raw(self.dice.pick(&frames).to_vec()))];
            }
        };
        vec![Line::request(name, request)]
    }

    /// A connection that comes to nothing, or a session that is closed at once.
    fn stranger(&mut self) -> Vec<Line> {
        if self.dice.chance(50) {
            let openings: [&[u8]; 6] = [&[0; 4], &[0xff; 4], &[0, 0x10, 0, 0], b"ruok", b"GET / HTTP/1.1\r\n", b"isro"];
            return vec![Line::new(STRANGER, Action::Raw(self.dice.pick(&openings).to_vec()))];
        }
        let mut handshake = Handshake::new(Target::New);
        match self.dice.below(4) {
            0 => handshake.timeout_ms = *self.dice.pick(&[-5, 0, 1, 3999, 4000, 4001, i32::MIN]),
            1 => handshake.target = Target::Id(*self.dice.pick(&[1, -1, 0x1234, i64::MAX, i64::MIN])),
            2 => handshake.seen = Seen::Exactly(*self.dice.pick(&[i64::MAX, 1 << 40])),
            _ => handshake.cut = Some(self.dice.below(44)),
        }
        let mut lines = vec![Line::new(STRANGER, Action::Connect(handshake))];
        lines.push(Line::request(STRANGER, Request::new(OpCode::CloseSession, Body::Empty)));
        lines
    }
}
