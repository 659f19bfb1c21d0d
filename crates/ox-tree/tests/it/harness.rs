//! The tree and the model side by side. The tree prepares a write immediately and applies it later, in order; the model
//! executes it when it is applied. So no effect of writes in flight may be visible.

use crate::fuzzy_snapshots::{encoded, persisted};
use crate::image::Image;
use crate::model::reads::ReadOp;
use crate::model::{Client, Model, NEVER_USED_MS, Node, Settings, Stored, WriteReply};
use crate::request::{Bytes, Op, create, set_data};
use ox_proto::acl::perms;
use ox_proto::event::put_event;
use ox_proto::txn::{DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_tree::auth::{DigestHash, Identities, SchemeSettings, SuperDigest, authenticate, digest_id};
use ox_tree::ops::{self, Prepared};
use ox_tree::read::{ReadRequest, Requester, put_reply};
use ox_tree::watch::{EventSink, FiredEvent, WatcherId};
use ox_tree::{AclList, Loader, PendingChanges, PendingView, State, TreeOptions, WriteStamp, put_write_reply};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(crate) const CONNS: usize = 4;

/// Settings of a harness.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The number of transactions kept in flight.
    pub(crate) depth: usize,
    pub(crate) extended_types: bool,
    pub(crate) enforce_quota: bool,
    pub(crate) close_session_txn: bool,
    /// Start with a quota on `/a`.
    pub(crate) has_quota: bool,
}

pub(crate) fn plain() -> Setup {
    Setup { depth: 0, extended_types: true, enforce_quota: false, close_session_txn: true, has_quota: false }
}

impl Setup {
    pub(crate) fn options(&self) -> TreeOptions {
        TreeOptions {
            extended_types: self.extended_types,
            enforce_quota: self.enforce_quota,
            close_session_txn: self.close_session_txn,
            schemes: SchemeSettings {
                super_digest: Some(SuperDigest::new(digest_id(DigestHash::Sha1, b"super:secret"))),
                ..SchemeSettings::default()
            },
            hash_seed: 7,
            ..TreeOptions::default()
        }
    }
}

pub(crate) struct Conn {
    pub(crate) id: WatcherId,
    generation: u64,
    pub(crate) ids: Identities,
    pub(crate) client: Client,
    /// Its session was closed, and the close is applied.
    is_dead: bool,
}

enum Work {
    Write { conn: usize, xid: i32, time: i64, op: Op, applied: BTreeMap<String, Node> },
    Open { session: i64, timeout_ms: i32 },
    Close { conn: usize, xid: i32 },
    DeleteContainer { path: String, time: i64 },
    Reconfig { text: String, time: i64 },
}

/// The record of a prepared write, or the code of its refusal.
type PreparedRecord = Result<Vec<u8>, i32>;

pub(crate) struct Harness {
    pub(crate) state: State,
    pub(crate) pending: PendingChanges,
    events: Events,
    pub(crate) model: Model,
    pub(crate) conns: Vec<Conn>,
    in_flight: VecDeque<(Work, PreparedRecord)>,
    setup: Setup,
    /// The last assigned zxid.
    pub(crate) zxid: i64,
    pub(crate) time: i64,
    xid: i32,
    next_session: i64,
    /// All applied records, for replays.
    pub(crate) history: Vec<Vec<u8>>,
    /// Replies to all applied or refused writes.
    pub(crate) replies: Vec<Vec<u8>>,
    /// The reply to the last read.
    pub(crate) reply: Vec<u8>,
    /// Events by connection, after the ACL filter.
    delivered: Vec<Vec<Vec<u8>>>,
}

/// Encoded events with their watchers and readers, in order.
#[derive(Default)]
pub(crate) struct Events(pub(crate) Vec<(WatcherId, Vec<u8>, Option<Arc<AclList>>)>);

impl EventSink for Events {
    fn event(&mut self, watchers: &[WatcherId], event: &FiredEvent<'_>) {
        let mut frame = Vec::new();
        put_event(&mut frame, event.zxid, event.kind, event.path);
        self.0.extend(watchers.iter().map(|watcher| (*watcher, frame.clone(), event.readers.clone())));
    }
}

/// An event as a client sees it: type, path, zxid.
pub(crate) type Seen = (i32, String, i64);

/// The connections have the identities none, bob, eve and super.
fn conn(at: usize) -> Conn {
    let credentials: Option<&[u8]> = [None, Some(&b"bob:pw"[..]), Some(b"eve:pw"), Some(b"super:secret")][at];
    let mut ids = Identities::of_address("10.0.0.1".parse().unwrap());
    let state = State::new(plain().options());
    if let Some(credentials) = credentials {
        assert!(ids.add(authenticate(&state, Some("digest"), Some(credentials)).proven().unwrap()));
    }
    let client = Client {
        session: 0,
        ids: ids.iter().map(|identity| (identity.scheme.to_string(), identity.id.clone())).collect(),
    };
    Conn { id: watcher_id(at, 0), generation: 0, ids, client, is_dead: true }
}

fn watcher_id(at: usize, generation: u64) -> WatcherId {
    WatcherId::new(generation << 32 | at as u64)
}

impl Harness {
    pub(crate) fn new(setup: Setup) -> Self {
        let settings = Settings { extended_types: setup.extended_types, enforce_quota: setup.enforce_quota };
        let mut harness = Self {
            state: State::new(setup.options()),
            pending: PendingChanges::default(),
            events: Events::default(),
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
            reply: Vec::new(),
            delivered: vec![Vec::new(); CONNS],
        };
        (0..CONNS).for_each(|at| harness.open(at));
        if harness.setup.has_quota {
            for path in ["/a", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_stats"] {
                harness.write(0, &create(path, 0));
            }
            harness.write(0, &create("/zookeeper/quota/a/zookeeper_limits", 0));
            let limits = "countHardLimit=6;byteHardLimit=40,count=2";
            harness.write(0, &set_data("/zookeeper/quota/a/zookeeper_limits", limits));
        }
        harness
    }

    fn stamp(&self, session: i64, zxid: i64) -> WriteStamp {
        WriteStamp { zxid: Zxid(zxid), time_ms: self.time, session: SessionId(session) }
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

    /// Resolves `@7` to some existing node, and `@7/x` to a path below it.
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
        // -100 stands for the current version.
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

    /// Prepares a write, and applies the writes beyond the depth.
    pub(crate) fn write(&mut self, conn: usize, op: &Op) {
        if self.conns[conn].is_dead {
            return;
        }
        let op = self.resolved(op);
        self.xid += 1;
        let (xid, session, next) = (self.xid, self.conns[conn].client.session, self.zxid + 1);
        let mut body = Vec::new();
        let stamp = self.stamp(session, next);
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.conns[conn].ids, stamp);
        let code = OpCode::try_from(op.code()).unwrap();
        let prepared = ops::prepare(&mut view, code, &op.body(), &mut body);
        let digest = view.digest();
        let prepared = match prepared {
            Prepared::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(session, xid, kind, &body, Some(digest)))
            }
            Prepared::Refused(code) => {
                assert!(body.is_empty());
                Err(code.code())
            }
        };
        let applied = if self.setup.enforce_quota { self.model.nodes.clone() } else { BTreeMap::new() };
        self.in_flight.push_back((Work::Write { conn, xid, time: self.time, op, applied }, prepared));
        self.apply_beyond(self.setup.depth);
    }

    /// Opens a session for a connection without one.
    pub(crate) fn open(&mut self, conn: usize) {
        if !self.conns[conn].is_dead {
            return;
        }
        let session = self.next_session;
        self.next_session += 1;
        let timeout_ms = 1000 + i32::try_from(session & 0xff).unwrap();
        self.conns[conn].client.session = session;
        self.conns[conn].is_dead = false;
        self.zxid += 1;
        let mut body = Vec::new();
        let (stamp, server) = (self.stamp(session, self.zxid), Identities::server());
        let mut view = PendingView::new(&self.state, &mut self.pending, &server, stamp);
        ops::prepare_create_session(&mut view, timeout_ms, &mut body);
        let digest = view.digest();
        let record = self.record(session, 0, OpCode::CreateSession, &body, Some(digest));
        self.in_flight.push_back((Work::Open { session, timeout_ms }, Ok(record)));
        self.apply_beyond(self.setup.depth);
    }

    pub(crate) fn close(&mut self, conn: usize) {
        let session = self.conns[conn].client.session;
        let is_closing =
            self.in_flight.iter().any(|(work, _)| matches!(work, Work::Close { conn: c, .. } if *c == conn));
        if self.conns[conn].is_dead || is_closing {
            return;
        }
        self.xid += 1;
        self.zxid += 1;
        let mut body = Vec::new();
        let stamp = self.stamp(session, self.zxid);
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.conns[conn].ids, stamp);
        let may_carry_digest = ops::prepare_close_session(&mut view, &mut body);
        let digest = view.digest();
        assert_eq!(may_carry_digest, self.setup.close_session_txn);
        let digest = may_carry_digest.then_some(digest);
        let record = self.record(session, self.xid, OpCode::CloseSession, &body, digest);
        self.in_flight.push_back((Work::Close { conn, xid: self.xid }, Ok(record)));
        self.apply_beyond(self.setup.depth);
    }

    /// Deletes a container or TTL node on behalf of the server.
    pub(crate) fn delete_container(&mut self, path: &str) {
        let path = self.resolve(path);
        let next = self.zxid + 1;
        let mut body = Vec::new();
        let (stamp, server) = (self.stamp(0, next), Identities::server());
        let mut view = PendingView::new(&self.state, &mut self.pending, &server, stamp);
        let prepared = ops::prepare_delete_container(&mut view, &path, NEVER_USED_MS, &mut body);
        let digest = view.digest();
        let prepared = match prepared {
            Prepared::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(0, 0, kind, &body, Some(digest)))
            }
            Prepared::Refused(code) => Err(code.code()),
        };
        self.in_flight.push_back((Work::DeleteContainer { path, time: self.time }, prepared));
        self.apply_beyond(self.setup.depth);
    }

    /// Executes a reconfig of the ensemble.
    pub(crate) fn reconfig(&mut self, text: &str) {
        self.apply_beyond(0); // a reconfig has no pending changes
        self.sync_pending();
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

    /// Removes the applied transactions from the pending changes.
    pub(crate) fn sync_pending(&mut self) {
        self.pending.applied(self.state.last_zxid());
    }

    pub(crate) fn drain(&mut self) {
        self.apply_beyond(0);
        self.sync_pending();
        assert!(self.pending.is_empty());
    }

    /// Applies the oldest write in flight in tree and model, and compares.
    fn apply_one(&mut self) {
        let Some((work, prepared)) = self.in_flight.pop_front() else { return };
        let record = match prepared {
            Ok(record) => record,
            Err(code) => return self.compare_refusal(&work, code),
        };
        let decoded = Record::decode(&record).unwrap();
        // The pending changes may be updated immediately or later.
        let mut nowhere = ox_tree::NodeHints::default();
        let zxid = decoded.header.zxid;
        let hints = if zxid.0 % 2 == 0 { self.pending.applied(zxid) } else { &mut nowhere };
        let outcome = self.state.apply(&decoded, hints, &mut self.events);
        assert!(!outcome.conflict, "{decoded:?}");
        assert!(!outcome.digest_differs, "prepared digest of {decoded:?}");
        let mut reply = Vec::new();
        put_write_reply(&mut reply, &decoded, &outcome.applied);
        self.replies.push(reply.clone());
        match &work {
            Work::Write { conn, xid, time, op, applied } => {
                self.model.applied.clone_from(applied);
                let expected = self.model.write(&self.conns[*conn].client, *xid, *time, op);
                let actual = WriteReply { zxid: Some(decoded.header.zxid.0), reply };
                assert_eq!(actual, expected, "{op:?}");
            }
            Work::Open { session, timeout_ms } => self.model.open_session(*session, *timeout_ms),
            Work::Close { conn, xid } => {
                let expected = self.model.close_session(&self.conns[*conn].client, *xid);
                assert_eq!(WriteReply { zxid: Some(decoded.header.zxid.0), reply }, expected);
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
                let expected = self.model.write(&self.conns[*conn].client, *xid, *time, op);
                let reply = crate::model::reply(*xid, self.model.zxid, code, &[]);
                self.replies.push(reply.clone());
                assert_eq!(WriteReply { zxid: None, reply }, expected, "{op:?}");
            }
            Work::DeleteContainer { path, time } => {
                assert_eq!(self.model.delete_container(path, *time), Err(code), "{path}");
            }
            Work::Open { .. } | Work::Close { .. } | Work::Reconfig { .. } => unreachable!("never refused"),
        }
    }

    /// Compares the events of each connection, in order.
    fn compare_events(&mut self) {
        let mut actual = vec![Vec::new(); CONNS];
        for (watcher, frame, readers) in std::mem::take(&mut self.events.0) {
            let at = self.conns.iter().position(|conn| conn.id == watcher).expect("events are for open connections");
            if readers.is_none_or(|list| self.conns[at].ids.may(&SchemeSettings::default(), &list, perms::READ)) {
                actual[at].push(frame);
            }
        }
        let mut expected = vec![Vec::new(); CONNS];
        for event in std::mem::take(&mut self.model.watches.sent) {
            if Model::allows(&event.acl, &self.conns[event.conn].client, 1) {
                let body = Bytes::default().int(event.kind).int(3).text(Some(&event.path)).0;
                expected[event.conn].push(crate::model::reply(-1, event.zxid, 0, &body));
            }
        }
        assert_eq!(actual, expected, "events");
        self.delivered.iter_mut().zip(actual).for_each(|(all, new)| all.extend(new));
    }

    /// Reads from the applied state, and compares.
    pub(crate) fn read(&mut self, conn: usize, read: &ReadOp) {
        let read = self.resolved_read(read);
        self.xid += 1;
        let mut actual = Vec::new();
        let Conn { id, ids, client, .. } = &self.conns[conn];
        let requester = Requester { watcher: *id, session: SessionId(client.session), ids };
        let (op, body) = (OpCode::try_from(read.code()).unwrap(), read.body());
        let _ = put_reply(&self.state, requester, ReadRequest { xid: self.xid, op, body: &body }, &mut actual);
        let expected = self.model.read(client, conn, self.xid, &read);
        assert_eq!(sorted(&read, actual), expected, "{read:?}");
        self.reply = expected;
    }

    /// Writes with nothing else in flight. Returns the code of the reply, or of the first failed element.
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

    /// Executes a write that must succeed.
    pub(crate) fn ok(&mut self, conn: usize, op: &Op) {
        assert_eq!(self.code(conn, op), 0, "{op:?}");
    }

    /// The path of the last created node.
    pub(crate) fn created(&self) -> String {
        let reply = self.replies.last().unwrap();
        let length = usize::try_from(i32::from_be_bytes(reply[20..24].try_into().unwrap())).unwrap();
        String::from_utf8(reply[24..24 + length].to_vec()).unwrap()
    }

    /// Reads, and returns the code of the reply.
    pub(crate) fn read_code(&mut self, conn: usize, read: &ReadOp) -> i32 {
        self.read(conn, read);
        // Events may precede the reply.
        let mut rest = &self.reply[..];
        loop {
            let length = usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
            if rest.len() == 4 + length {
                return i32::from_be_bytes(rest[16..20].try_into().unwrap());
            }
            rest = &rest[4 + length..];
        }
    }

    /// Continues with a state that is loaded from the model's contents.
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

    /// Prepares a raw request without applying it. Returns the type of the transaction and its error code.
    pub(crate) fn prepared_raw(&mut self, conn: usize, code: i32, body: &[u8]) -> Option<(i32, i32)> {
        self.drain();
        let mut out = Vec::new();
        let stamp = self.stamp(self.conns[conn].client.session, self.zxid + 1);
        let mut pending = PendingChanges::default();
        let mut view = PendingView::new(&self.state, &mut pending, &self.conns[conn].ids, stamp);
        match ops::prepare(&mut view, OpCode::try_from(code).unwrap(), body, &mut out) {
            Prepared::Txn(OpCode::Error) => Some((-1, i32::from_be_bytes(out[..4].try_into().unwrap()))),
            Prepared::Txn(kind) => Some((kind.code(), 0)),
            Prepared::Refused(_) => None,
        }
    }

    /// The reply to a raw read.
    pub(crate) fn reply_raw(&mut self, conn: usize, code: i32, body: &[u8]) -> Vec<u8> {
        let Conn { id, ids, client, .. } = &self.conns[conn];
        let requester = Requester { watcher: *id, session: SessionId(client.session), ids };
        let mut out = Vec::new();
        let _ = put_reply(
            &self.state,
            requester,
            ReadRequest { xid: 1, op: OpCode::try_from(code).unwrap(), body },
            &mut out,
        );
        out
    }

    /// The events of a connection since the last call.
    pub(crate) fn events(&mut self, conn: usize) -> Vec<Seen> {
        std::mem::take(&mut self.delivered[conn]).iter().map(|frame| seen(frame)).collect()
    }

    /// The events that precede the last reply.
    pub(crate) fn events_in_reply(&self) -> Vec<Seen> {
        let (mut rest, mut events) = (&self.reply[..], Vec::new());
        loop {
            let length = usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
            if rest.len() == 4 + length {
                return events;
            }
            events.push(seen(rest));
            rest = &rest[4 + length..];
        }
    }

    fn resolved_read(&self, read: &ReadOp) -> ReadOp {
        let text = |path: &Option<String>| path.as_ref().map(|path| self.resolve(path));
        let mut read = read.clone();
        match &mut read {
            ReadOp::Exists { path, .. }
            | ReadOp::GetData { path, .. }
            | ReadOp::GetChildren { path, .. }
            | ReadOp::GetAcl { path }
            | ReadOp::AllChildrenNumber { path }
            | ReadOp::AddWatch { path, .. }
            | ReadOp::CheckWatches { path, .. }
            | ReadOp::RemoveWatches { path, .. }
            | ReadOp::Sync { path }
            | ReadOp::Ephemerals { prefix: path } => *path = text(path),
            ReadOp::MultiRead(elements) => elements.iter_mut().for_each(|(_, path)| *path = text(path)),
            ReadOp::SetWatches { lists, relative, .. } => {
                lists.iter_mut().flatten().for_each(|path| *path = self.resolve(path));
                *relative = self.model.zxid - *relative;
            }
            ReadOp::Ping => (),
        }
        read
    }

    /// Closes a connection and replaces it by a new one.
    pub(crate) fn drop_conn(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        self.state.watches().lock().drop_watcher(conn.id);
        self.model.watches.drop_conn(at);
        conn.generation += 1;
        conn.id = watcher_id(at, conn.generation);
    }

    /// Compares the complete contents.
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
        assert_eq!(self.state.acl_count(), lists.len(), "number of lists in use");
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

/// A reply of the tree with the names of children sorted.
fn sorted(read: &ReadOp, reply: Vec<u8>) -> Vec<u8> {
    let has_list = matches!(read, ReadOp::GetChildren { .. } | ReadOp::Ephemerals { .. });
    let err = i32::from_be_bytes(reply[16..20].try_into().unwrap());
    match read {
        _ if has_list && err == 0 => {
            let (list, rest) = sort_list(&reply[20..]);
            [&reply[..20], &list, rest].concat()
        }
        ReadOp::MultiRead(_) => {
            let (mut out, mut rest) = (reply[..20].to_vec(), &reply[20..]);
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
        _ => reply,
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
