//! The real tree and the model side by side. Writes are prepared at once and applied later, in order; the model
//! executes each one when its turn comes, so whatever the pipeline does must not be visible.

use crate::fuzzy_snapshots::{encoded, persisted};
use crate::image::Image;
use crate::model::reads::Ask;
use crate::model::{Answer, Model, NEVER_USED_MS, Node, Settings, Stored, Who};
use crate::request::{Bytes, Op, create, set_data};
use ox_proto::acl::perms;
use ox_proto::txn::{DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_tree::auth::{Identities, authenticate, digest_id};
use ox_tree::ops::{self, Verdict};
use ox_tree::outbox::{Note, Outbox, Outboxes};
use ox_tree::read::{Asker, Question, answer};
use ox_tree::{ConnId, Loader, Options, Pending, Stamp, State, View, put_write_reply};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// I/O threads that the connections are spread over.
const THREADS: usize = 2;
/// Connections there are.
pub(crate) const CONNS: usize = 4;

/// What a world is made with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Transactions kept on their way.
    pub(crate) depth: usize,
    pub(crate) extended_types: bool,
    pub(crate) enforce_quota: bool,
    pub(crate) close_session_txn: bool,
    /// Starts with a quota on `/a`.
    pub(crate) has_quota: bool,
}

pub(crate) fn plain() -> Setup {
    Setup { depth: 0, extended_types: true, enforce_quota: false, close_session_txn: true, has_quota: false }
}

impl Setup {
    pub(crate) fn options(&self) -> Options {
        Options {
            extended_types: self.extended_types,
            enforce_quota: self.enforce_quota,
            close_session_txn: self.close_session_txn,
            super_digest: Some(digest_id(b"super:secret")),
            hash_seed: 7,
            ..Options::default()
        }
    }
}

pub(crate) struct Conn {
    pub(crate) id: ConnId,
    generation: u64,
    pub(crate) ids: Identities,
    pub(crate) who: Who,
    /// Its session was closed and the close is applied.
    is_dead: bool,
}

enum Work {
    Write { conn: usize, xid: i32, time: i64, op: Op, applied: BTreeMap<String, Node> },
    Open { session: i64, timeout_ms: i32 },
    Close { conn: usize, xid: i32 },
    DeleteContainer { path: String, time: i64 },
    Reconfig { text: String, time: i64 },
}

/// A prepared write: its record, or the code it was refused with.
type Prepared = Result<Vec<u8>, i32>;

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) pending: Pending,
    pub(crate) outboxes: Outboxes,
    pub(crate) model: Model,
    pub(crate) conns: Vec<Conn>,
    in_flight: VecDeque<(Work, Prepared)>,
    setup: Setup,
    /// Last zxid given away.
    pub(crate) zxid: i64,
    pub(crate) time: i64,
    xid: i32,
    next_session: i64,
    /// Every record that was applied, for replays.
    pub(crate) history: Vec<Vec<u8>>,
    /// Every reply to a write that was applied or refused.
    pub(crate) replies: Vec<Vec<u8>>,
    /// The answer to the last read.
    pub(crate) answer: Vec<u8>,
    /// Events by connection, those that passed the filter.
    delivered: Vec<Vec<Vec<u8>>>,
}

/// An event as a client sees it: kind, path, zxid.
pub(crate) type Seen = (i32, String, i64);

/// The identities of the connections: nobody, bob, eve, super.
fn conn(at: usize) -> Conn {
    let credentials: Option<&[u8]> = [None, Some(&b"bob:pw"[..]), Some(b"eve:pw"), Some(b"super:secret")][at];
    let mut ids = Identities::of_address("10.0.0.1".parse().unwrap());
    let state = State::new(plain().options());
    if let Some(credentials) = credentials {
        assert!(ids.add(authenticate(&state, Some("digest"), Some(credentials)).unwrap()));
    }
    let who = Who {
        session: 0,
        ids: ids.iter().map(|identity| (identity.scheme.to_string(), identity.id.clone())).collect(),
    };
    Conn { id: conn_id(at, 0), generation: 0, ids, who, is_dead: true }
}

fn conn_id(at: usize, generation: u64) -> ConnId {
    ConnId::new(u8::try_from(at % THREADS).unwrap(), at, generation)
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let settings = Settings { extended_types: setup.extended_types, enforce_quota: setup.enforce_quota };
        let mut world = Self {
            state: State::new(setup.options()),
            pending: Pending::default(),
            outboxes: Outboxes::new(THREADS),
            model: Model::new(settings),
            conns: (0..CONNS).map(conn).collect(),
            in_flight: VecDeque::new(),
            setup,
            zxid: 0,
            time: 1000,
            xid: 0,
            next_session: 0x0100_0000_0000_0001,
            history: Vec::new(),
            replies: Vec::new(),
            answer: Vec::new(),
            delivered: vec![Vec::new(); CONNS],
        };
        (0..CONNS).for_each(|at| world.open(at));
        if world.setup.has_quota {
            for path in ["/a", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_stats"] {
                world.write(0, &create(path, 0));
            }
            world.write(0, &create("/zookeeper/quota/a/zookeeper_limits", 0));
            let limits = "countHardLimit=6;byteHardLimit=40,count=2";
            world.write(0, &set_data("/zookeeper/quota/a/zookeeper_limits", limits));
        }
        world
    }

    fn stamp(&self, session: i64, zxid: i64) -> Stamp {
        Stamp { zxid: Zxid(zxid), time_ms: self.time, session: SessionId(session) }
    }

    fn record(&self, session: i64, cxid: i32, kind: OpCode, body: &[u8], digest: Option<i64>) -> Vec<u8> {
        let header = TxnHeader {
            session: SessionId(session),
            cxid,
            zxid: Zxid(self.zxid),
            time_ms: self.time,
            kind: kind.code(),
        };
        let mut record = Vec::new();
        header.put(&mut record);
        record.extend_from_slice(body);
        if let Some(tree_digest) = digest {
            TxnDigest { version: DIGEST_VERSION, tree_digest }.put(&mut record);
        }
        record
    }

    /// A path where `@7` stands for some node that is there, and `@7/x` for one below it.
    pub(crate) fn resolve(&self, path: &str) -> String {
        let Some(rest) = path.strip_prefix('@') else { return path.to_owned() };
        let (number, below) = rest.split_once('/').map_or((rest, String::new()), |(n, b)| (n, format!("/{b}")));
        let at = number.parse::<usize>().unwrap() % self.model.nodes.len();
        let node = self.model.nodes.keys().nth(at).unwrap();
        let full = format!("{node}{below}");
        if full.is_empty() { "/".to_owned() } else { full }
    }

    fn resolved(&self, op: &Op) -> Op {
        let text = |path: &Option<String>| path.as_ref().map(|path| self.resolve(path));
        // -100 stands for the right version.
        let right = |path: &Option<String>, version: i32, pick: fn(&Node) -> i32| {
            let node = text(path).and_then(|path| self.model.nodes.get(if path == "/" { "" } else { &path }).cloned());
            if version == -100 { node.map_or(0, |node| pick(&node)) } else { version }
        };
        match op {
            Op::Create { code, path, data, acl, flags, ttl } => Op::Create {
                code: *code,
                path: text(path),
                data: data.clone(),
                acl: acl.clone(),
                flags: *flags,
                ttl: *ttl,
            },
            Op::Delete { path, version } => {
                Op::Delete { path: text(path), version: right(path, *version, |node| node.version) }
            }
            Op::SetData { path, data, version } => Op::SetData {
                path: text(path),
                data: data.clone(),
                version: right(path, *version, |node| node.version),
            },
            Op::SetAcl { path, acl, version } => {
                Op::SetAcl { path: text(path), acl: acl.clone(), version: right(path, *version, |node| node.aversion) }
            }
            Op::Check { path, version } => {
                Op::Check { path: text(path), version: right(path, *version, |node| node.version) }
            }
            Op::Multi(elements) => Op::Multi(elements.iter().map(|element| self.resolved(element)).collect()),
            Op::Garbage(code) => Op::Garbage(*code),
        }
    }

    /// Prepares a write and applies what is beyond the depth.
    pub(crate) fn write(&mut self, conn: usize, op: &Op) {
        if self.conns[conn].is_dead {
            return;
        }
        let op = self.resolved(op);
        self.xid += 1;
        let (xid, session, next) = (self.xid, self.conns[conn].who.session, self.zxid + 1);
        let mut body = Vec::new();
        let stamp = self.stamp(session, next);
        let mut view = View::new(&self.state, &mut self.pending, &self.conns[conn].ids, stamp);
        let code = OpCode::try_from(op.code()).unwrap();
        let verdict = ops::prepare(&mut view, code, &op.body(), &mut body);
        let digest = view.digest();
        let prepared = match verdict {
            Verdict::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(session, xid, kind, &body, Some(digest)))
            }
            Verdict::Refused(code) => {
                assert!(body.is_empty());
                Err(code.code())
            }
        };
        let applied = if self.setup.enforce_quota { self.model.nodes.clone() } else { BTreeMap::new() };
        self.in_flight.push_back((Work::Write { conn, xid, time: self.time, op, applied }, prepared));
        self.apply_beyond(self.setup.depth);
    }

    /// Gives a connection without a session a new one.
    pub(crate) fn open(&mut self, conn: usize) {
        if !self.conns[conn].is_dead {
            return;
        }
        let session = self.next_session;
        self.next_session += 1;
        let timeout_ms = 1000 + i32::try_from(session & 0xff).unwrap();
        self.conns[conn].who.session = session;
        self.conns[conn].is_dead = false;
        self.zxid += 1;
        let mut body = Vec::new();
        let (stamp, server) = (self.stamp(session, self.zxid), Identities::server());
        let mut view = View::new(&self.state, &mut self.pending, &server, stamp);
        ops::prepare_create_session(&mut view, timeout_ms, &mut body);
        let digest = view.digest();
        let record = self.record(session, 0, OpCode::CreateSession, &body, Some(digest));
        self.in_flight.push_back((Work::Open { session, timeout_ms }, Ok(record)));
        self.apply_beyond(self.setup.depth);
    }

    /// Closes a connection's session.
    pub(crate) fn close(&mut self, conn: usize) {
        let session = self.conns[conn].who.session;
        let is_closing =
            self.in_flight.iter().any(|(work, _)| matches!(work, Work::Close { conn: c, .. } if *c == conn));
        if self.conns[conn].is_dead || is_closing {
            return;
        }
        self.xid += 1;
        self.zxid += 1;
        let mut body = Vec::new();
        let stamp = self.stamp(session, self.zxid);
        let mut view = View::new(&self.state, &mut self.pending, &self.conns[conn].ids, stamp);
        let may_carry_digest = ops::prepare_close_session(&mut view, &mut body);
        let digest = view.digest();
        assert_eq!(may_carry_digest, self.setup.close_session_txn);
        let digest = may_carry_digest.then_some(digest);
        let record = self.record(session, self.xid, OpCode::CloseSession, &body, digest);
        self.in_flight.push_back((Work::Close { conn, xid: self.xid }, Ok(record)));
        self.apply_beyond(self.setup.depth);
    }

    /// The server removes a container or TTL node.
    pub(crate) fn delete_container(&mut self, path: &str) {
        let path = self.resolve(path);
        let next = self.zxid + 1;
        let mut body = Vec::new();
        let (stamp, server) = (self.stamp(0, next), Identities::server());
        let mut view = View::new(&self.state, &mut self.pending, &server, stamp);
        let verdict = ops::prepare_delete_container(&mut view, &path, NEVER_USED_MS, &mut body);
        let digest = view.digest();
        let prepared = match verdict {
            Verdict::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(0, 0, kind, &body, Some(digest)))
            }
            Verdict::Refused(code) => Err(code.code()),
        };
        self.in_flight.push_back((Work::DeleteContainer { path, time: self.time }, prepared));
        self.apply_beyond(self.setup.depth);
    }

    /// The ensemble gets another configuration.
    pub(crate) fn reconfig(&mut self, text: &str) {
        self.apply_beyond(0); // nothing is projected for it
        self.tell_pending();
        self.zxid += 1;
        let mut body = Vec::new();
        Txn::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 }.put(&mut body);
        let record = self.record(0, 0, OpCode::Reconfig, &body, Some(self.state.digest()));
        self.in_flight.push_back((Work::Reconfig { text: text.to_owned(), time: self.time }, Ok(record)));
        self.apply_beyond(0);
    }

    pub(crate) fn apply_beyond(&mut self, depth: usize) {
        while depth < self.in_flight.len() {
            self.apply_one();
        }
    }

    /// The proposer learns what has been applied.
    pub(crate) fn tell_pending(&mut self) {
        self.pending.applied(self.state.last_zxid());
    }

    pub(crate) fn drain(&mut self) {
        self.apply_beyond(0);
        self.tell_pending();
        assert!(self.pending.is_empty());
    }

    /// Applies the oldest write on its way, lets the model execute it, and compares.
    fn apply_one(&mut self) {
        let Some((work, prepared)) = self.in_flight.pop_front() else { return };
        let record = match prepared {
            Ok(record) => record,
            Err(code) => return self.compare_refusal(&work, code),
        };
        let decoded = Record::decode(&record).unwrap();
        // The proposer may hear of it at once, or only later.
        let mut nowhere = ox_tree::Hints::default();
        let zxid = decoded.header.zxid;
        let hints = if zxid.0 % 2 == 0 { self.pending.applied(zxid) } else { &mut nowhere };
        let outcome = self.state.apply(&decoded, hints, &mut self.outboxes);
        assert!(!outcome.conflict, "{decoded:?}");
        assert!(!outcome.digest_differs, "projected digest of {decoded:?}");
        let mut reply = Vec::new();
        put_write_reply(&mut reply, &decoded, &outcome.applied);
        self.replies.push(reply.clone());
        match &work {
            Work::Write { conn, xid, time, op, applied } => {
                self.model.applied.clone_from(applied);
                let expected = self.model.write(&self.conns[*conn].who, *xid, *time, op);
                let actual = Answer { zxid: Some(decoded.header.zxid.0), reply };
                assert_eq!(actual, expected, "{op:?}");
            }
            Work::Open { session, timeout_ms } => self.model.open_session(*session, *timeout_ms),
            Work::Close { conn, xid } => {
                let expected = self.model.close_session(&self.conns[*conn].who, *xid);
                assert_eq!(Answer { zxid: Some(decoded.header.zxid.0), reply }, expected);
                self.conns[*conn].is_dead = true;
            }
            Work::DeleteContainer { path, time } => {
                assert_eq!(self.model.delete_container(path, *time), Ok(decoded.header.zxid.0), "{path}");
            }
            Work::Reconfig { text, time } => self.model.reconfig(text, *time),
        }
        assert_eq!(self.state.last_zxid().0, self.model.zxid);
        assert_eq!(self.state.digest(), self.model.digest(), "digest after {decoded:?}");
        self.compare_events();
        self.history.push(record);
    }

    fn compare_refusal(&mut self, work: &Work, code: i32) {
        match work {
            Work::Write { conn, xid, time, op, applied } => {
                self.model.applied.clone_from(applied);
                let expected = self.model.write(&self.conns[*conn].who, *xid, *time, op);
                let reply = crate::model::reply(*xid, self.model.zxid, code, &[]);
                self.replies.push(reply.clone());
                assert_eq!(Answer { zxid: None, reply }, expected, "{op:?}");
            }
            Work::DeleteContainer { path, time } => {
                assert_eq!(self.model.delete_container(path, *time), Err(code), "{path}");
            }
            Work::Open { .. } | Work::Close { .. } | Work::Reconfig { .. } => unreachable!("never refused"),
        }
    }

    /// What each connection gets, in order.
    fn compare_events(&mut self) {
        let mut actual = vec![Vec::new(); CONNS];
        for outbox in &mut self.outboxes.0 {
            let Outbox { bytes, parts } = std::mem::take(outbox);
            for part in parts {
                let at = part.conn.slot();
                let conn = &self.conns[at];
                assert_eq!(part.conn, conn.id, "event for a closed connection");
                let Note::Event(readers) = part.note else { panic!("only events are expected") };
                if readers.is_none_or(|list| conn.ids.may(&list, perms::READ)) {
                    actual[at].push(bytes[part.span].to_vec());
                }
            }
        }
        let mut expected = vec![Vec::new(); CONNS];
        for event in std::mem::take(&mut self.model.watches.sent) {
            if Model::allows(&event.acl, &self.conns[event.conn].who, 1) {
                let body = Bytes::default().int(event.kind).int(3).text(Some(&event.path)).0;
                expected[event.conn].push(crate::model::reply(-1, event.zxid, 0, &body));
            }
        }
        assert_eq!(actual, expected, "events");
        self.delivered.iter_mut().zip(actual).for_each(|(all, new)| all.extend(new));
    }

    /// Reads on the applied state, and compares.
    pub(crate) fn read(&mut self, conn: usize, ask: &Ask) {
        let ask = self.resolved_ask(ask);
        self.xid += 1;
        let mut actual = Vec::new();
        let Conn { id, ids, who, .. } = &self.conns[conn];
        let asker = Asker { conn: *id, session: SessionId(who.session), ids };
        let (op, body) = (OpCode::try_from(ask.code()).unwrap(), ask.body());
        let _ = answer(&self.state, asker, Question { xid: self.xid, op, body: &body }, &mut actual);
        let expected = self.model.read(who, conn, self.xid, &ask);
        assert_eq!(sorted(&ask, actual), expected, "{ask:?}");
        self.answer = expected;
    }

    /// Writes with nothing else on its way; the code of the reply, or of the first failed element.
    pub(crate) fn code(&mut self, conn: usize, op: &Op) -> i32 {
        self.write(conn, op);
        self.drain();
        let reply = self.replies.last().unwrap();
        let number = |at: usize| i32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        match op {
            Op::Multi(elements) if number(16) == 0 && !elements.is_empty() && number(20) == -1 => {
                let codes = (0..elements.len()).map(|at| number(20 + 13 * at + 5));
                codes.into_iter().find(|code| *code != 0).unwrap()
            }
            _ => number(16),
        }
    }

    /// Writes something that must succeed.
    pub(crate) fn ok(&mut self, conn: usize, op: &Op) {
        assert_eq!(self.code(conn, op), 0, "{op:?}");
    }

    /// The path that the last create made.
    pub(crate) fn created(&self) -> String {
        let reply = self.replies.last().unwrap();
        let length = usize::try_from(i32::from_be_bytes(reply[20..24].try_into().unwrap())).unwrap();
        String::from_utf8(reply[24..24 + length].to_vec()).unwrap()
    }

    /// Reads; the code of the reply.
    pub(crate) fn asked(&mut self, conn: usize, ask: &Ask) -> i32 {
        self.read(conn, ask);
        // Events may stand before the reply.
        let mut rest = &self.answer[..];
        loop {
            let length = usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
            if rest.len() == 4 + length {
                return i32::from_be_bytes(rest[16..20].try_into().unwrap());
            }
            rest = &rest[4 + length..];
        }
    }

    /// Goes on with a state that was loaded from what the model holds.
    pub(crate) fn reload(&mut self) {
        self.drain();
        let mut loader = Loader::new(self.setup.options());
        for (session, timeout_ms) in &self.model.sessions {
            loader.session(SessionId(*session), *timeout_ms);
        }
        let mut lists: Vec<&Stored> = self.model.nodes.values().filter_map(|node| node.acl.as_ref()).collect();
        lists.sort();
        lists.dedup();
        for (id, list) in (1..).zip(&lists) {
            loader.acl(id, RawAcls::from_encoded(&encoded(list)).unwrap()).unwrap();
        }
        for (path, node) in &self.model.nodes {
            let place = node.acl.as_ref().map(|list| lists.iter().position(|other| *other == list).unwrap());
            let acl = place.map_or(-1, |place| i64::try_from(place).unwrap() + 1);
            loader.node(path, node.data.as_deref(), acl, persisted(node)).unwrap();
        }
        assert_eq!(loader.take_unresolved(), [""; 0]);
        self.state = loader.finish(Zxid(self.model.zxid)).unwrap();
    }

    /// Prepares a raw request, and applies nothing: type of the transaction and its code.
    pub(crate) fn prepared_raw(&mut self, conn: usize, code: i32, body: &[u8]) -> Option<(i32, i32)> {
        self.drain();
        let mut out = Vec::new();
        let stamp = self.stamp(self.conns[conn].who.session, self.zxid + 1);
        let mut pending = Pending::default();
        let mut view = View::new(&self.state, &mut pending, &self.conns[conn].ids, stamp);
        match ops::prepare(&mut view, OpCode::try_from(code).unwrap(), body, &mut out) {
            Verdict::Txn(OpCode::Error) => Some((-1, i32::from_be_bytes(out[..4].try_into().unwrap()))),
            Verdict::Txn(kind) => Some((kind.code(), 0)),
            Verdict::Refused(_) => None,
        }
    }

    /// The answer to a raw read.
    pub(crate) fn answer_raw(&mut self, conn: usize, code: i32, body: &[u8]) -> Vec<u8> {
        let Conn { id, ids, who, .. } = &self.conns[conn];
        let asker = Asker { conn: *id, session: SessionId(who.session), ids };
        let mut out = Vec::new();
        let _ = answer(&self.state, asker, Question { xid: 1, op: OpCode::try_from(code).unwrap(), body }, &mut out);
        out
    }

    /// The events a connection got since the last call.
    pub(crate) fn events(&mut self, conn: usize) -> Vec<Seen> {
        std::mem::take(&mut self.delivered[conn]).iter().map(|frame| seen(frame)).collect()
    }

    /// The events before the reply in the last answer.
    pub(crate) fn events_in_answer(&self) -> Vec<Seen> {
        let (mut rest, mut events) = (&self.answer[..], Vec::new());
        loop {
            let length = usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
            if rest.len() == 4 + length {
                return events;
            }
            events.push(seen(rest));
            rest = &rest[4 + length..];
        }
    }

    fn resolved_ask(&self, ask: &Ask) -> Ask {
        let text = |path: &Option<String>| path.as_ref().map(|path| self.resolve(path));
        let mut ask = ask.clone();
        match &mut ask {
            Ask::Exists { path, .. }
            | Ask::GetData { path, .. }
            | Ask::GetChildren { path, .. }
            | Ask::GetAcl { path }
            | Ask::AllChildrenNumber { path }
            | Ask::AddWatch { path, .. }
            | Ask::CheckWatches { path, .. }
            | Ask::RemoveWatches { path, .. }
            | Ask::Sync { path }
            | Ask::Ephemerals { prefix: path } => *path = text(path),
            Ask::MultiRead(elements) => elements.iter_mut().for_each(|(_, path)| *path = text(path)),
            Ask::SetWatches { lists, relative, .. } => {
                lists.iter_mut().flatten().for_each(|path| *path = self.resolve(path));
                *relative = self.model.zxid - *relative;
            }
            Ask::Ping => (),
        }
        ask
    }

    /// The connection breaks and another takes its place.
    pub(crate) fn drop_conn(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        self.state.watches().lock().drop_conn(conn.id);
        self.model.watches.drop_conn(at);
        conn.generation += 1;
        conn.id = conn_id(at, conn.generation);
    }

    /// Everything there is to see, compared.
    pub(crate) fn compare_all(&self) {
        let seen = Image::of(&self.state);
        let expected = Image::of_model(&self.model);
        assert_eq!(seen, expected);
        assert_eq!(self.state.digest(), self.model.digest());
        assert_eq!(self.state.node_count(), self.model.nodes.len() + 1);
        let bytes = |(path, node): (&String, &Node)| path.len() + node.data.as_ref().map_or(0, Vec::len);
        let second_root = 1;
        assert_eq!(self.state.data_bytes(), (self.model.nodes.iter().map(bytes).sum::<usize>() + second_root) as u64);
        let lists: BTreeSet<_> = self.model.nodes.values().filter_map(|node| node.acl.as_ref()).collect();
        assert_eq!(self.state.acl_count(), lists.len(), "lists that nobody uses any more");
        for never_used in [0, 50] {
            let expired: BTreeSet<String> = self.state.expired_nodes(self.time, never_used).into_iter().collect();
            assert_eq!(expired, self.model.expired(self.time, never_used));
        }
        assert_eq!(self.state.watches().lock().total(), self.model.watches.total());
    }
}

fn seen(frame: &[u8]) -> Seen {
    let int = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    assert_eq!((int(4), int(16), int(24)), (-1, 0, 3), "xid, error and state of an event");
    let length = usize::try_from(int(28)).unwrap();
    let path = String::from_utf8(frame[32..32 + length].to_vec()).unwrap();
    (int(20), path, i64::from_be_bytes(frame[8..16].try_into().unwrap()))
}

/// A real answer with the names of children in order.
fn sorted(ask: &Ask, answer: Vec<u8>) -> Vec<u8> {
    let has_list = matches!(ask, Ask::GetChildren { .. } | Ask::Ephemerals { .. });
    let err = i32::from_be_bytes(answer[16..20].try_into().unwrap());
    match ask {
        _ if has_list && err == 0 => {
            let (list, rest) = sort_list(&answer[20..]);
            [&answer[..20], &list, rest].concat()
        }
        Ask::MultiRead(_) => {
            let (mut out, mut rest) = (answer[..20].to_vec(), &answer[20..]);
            while !rest.is_empty() {
                let kind = i32::from_be_bytes(rest[..4].try_into().unwrap());
                let is_end = rest[4] == 1;
                out.extend_from_slice(&rest[..9]);
                rest = &rest[9..];
                let length = match kind {
                    8 => {
                        let (list, after) = sort_list(rest);
                        out.extend(list);
                        rest = after;
                        0
                    }
                    4 => 4 + usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap_or(0) + 68,
                    _ if is_end => 0,
                    _ => 4,
                };
                out.extend_from_slice(&rest[..length]);
                rest = &rest[length..];
            }
            out
        }
        _ => answer,
    }
}

fn sort_list(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let (count, mut rest) = bytes.split_first_chunk::<4>().unwrap();
    let mut names = Vec::new();
    for _ in 0..i32::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>().unwrap();
        let (name, after) = after.split_at(usize::try_from(i32::from_be_bytes(*length)).unwrap());
        names.push(std::str::from_utf8(name).unwrap());
        rest = after;
    }
    names.sort_unstable();
    (Bytes::default().texts(names.into_iter()).0, rest)
}
