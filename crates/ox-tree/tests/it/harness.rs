//! The tree and the model side by side. The tree prepares a write immediately and applies it later, in order; the model
//! executes it when it is applied. So no effect of writes in flight may be visible.

mod compare;

use crate::image::{Image, ImageLoader, digest};
use crate::request::{body, create, set_data};
use compare::{frames, seen};
use ox_history::model::{AuthIds, Authenticated, Model, Quotas, TxnStamp, Watches};
use ox_history::{HistorySettings, LoggedTxn, Op, OpResult, ReplyBody};
use ox_proto::txn::{DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_tree::auth::{DigestHash, Identities, SchemeSettings, SuperDigest, authenticate, digest_id};
use ox_tree::ops::{self, Prepared};
use ox_tree::read::{ReadRequest, Requester, put_reply};
use ox_tree::watch::{EventSink, FiredEvent, WatcherId};
use ox_tree::{AclList, PendingChanges, PendingView, State, TreeOptions, WriteStamp, put_write_reply};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) const CONNS: usize = 4;

/// The time for which the server keeps a container that never had a child.
pub(crate) const NEVER_USED_MS: i64 = 50;

const SUPER_ID: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

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
    /// The identities of the model.
    auth: AuthIds,
    pub(crate) session: SessionId,
    /// Its session was closed, and the close is applied.
    is_dead: bool,
}

enum Work {
    Write { conn: usize, xid: i32, op: Op, quotas: Quotas },
    Open { timeout_ms: i32 },
    Close { conn: usize, xid: i32 },
    DeleteContainer { path: String, time: i64 },
    Reconfig { text: String },
}

/// The record of a prepared write, or the code of its refusal.
type PreparedRecord = Result<Vec<u8>, i32>;

pub(crate) struct Harness {
    pub(crate) state: State,
    pub(crate) pending: PendingChanges,
    events: Events,
    pub(crate) model: Model,
    pub(crate) watches: Watches,
    pub(crate) conns: Vec<Conn>,
    in_flight: VecDeque<(Work, PreparedRecord)>,
    setup: Setup,
    /// The last assigned zxid.
    pub(crate) zxid: i64,
    /// The last applied zxid.
    applied: Zxid,
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
    delivered: Vec<Vec<Seen>>,
}

/// Events with their watchers and readers, in order.
#[derive(Default)]
pub(crate) struct Events(pub(crate) Vec<(WatcherId, Seen, Option<Arc<AclList>>)>);

impl EventSink for Events {
    fn event(&mut self, watchers: &[WatcherId], event: &FiredEvent<'_>) {
        let seen = (event.kind as i32, event.path.to_owned(), event.zxid.0);
        self.0.extend(watchers.iter().map(|watcher| (*watcher, seen.clone(), event.readers.clone())));
    }
}

/// An event as a client sees it: type, path, zxid.
pub(crate) type Seen = (i32, String, i64);

/// The connections have the identities none, bob, eve and super.
fn conn(at: usize) -> Conn {
    let credentials: Option<&[u8]> = [None, Some(&b"bob:pw"[..]), Some(b"eve:pw"), Some(b"super:secret")][at];
    let mut ids = Identities::of_address("10.0.0.1".parse().unwrap());
    let state = State::new(plain().options());
    let mut auth = AuthIds::of_address("10.0.0.1");
    if let Some(credentials) = credentials {
        assert!(ids.add(authenticate(&state, Some("digest"), Some(credentials)).proven().unwrap()));
        let proven = ox_history::model::authenticate(&mut auth, Some(SUPER_ID), "digest", credentials);
        assert_eq!(proven, Authenticated::Yes);
    }
    Conn { id: watcher_id(at, 0), generation: 0, ids, auth, session: SessionId::NONE, is_dead: true }
}

fn watcher_id(at: usize, generation: u64) -> WatcherId {
    WatcherId::new(generation << 32 | at as u64)
}

impl Harness {
    pub(crate) fn new(setup: Setup) -> Self {
        let settings = HistorySettings {
            extended_types: setup.extended_types,
            enforce_quota: setup.enforce_quota,
            never_used_ms: NEVER_USED_MS,
            ..HistorySettings::default()
        };
        let mut harness = Self {
            state: State::new(setup.options()),
            pending: PendingChanges::default(),
            events: Events::default(),
            model: Model::new(settings),
            watches: Watches::default(),
            conns: (0..CONNS).map(conn).collect(),
            in_flight: VecDeque::new(),
            setup,
            zxid: 0,
            applied: Zxid::ZERO,
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

    fn stamp(&self, session: SessionId, zxid: i64) -> WriteStamp {
        WriteStamp { zxid: Zxid(zxid), time_ms: self.time, session }
    }

    fn record(&self, session: SessionId, cxid: i32, kind: OpCode, body: &[u8], digest: Option<i64>) -> Vec<u8> {
        let header = TxnHeader { session, cxid, zxid: Zxid(self.zxid), time_ms: self.time, kind: kind.code() };
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
        let at = number.parse::<usize>().unwrap() % self.model.nodes().len();
        let node = self.model.nodes().keys().nth(at).unwrap();
        let full = format!("{}{below}", node.trim_end_matches('/'));
        if full.is_empty() { "/".to_owned() } else { full }
    }

    /// With real paths and zxids; the version -100 stands for the current one.
    fn resolved(&self, op: &Op) -> Op {
        let mut op = op.clone();
        match &mut op {
            Op::Multi(elements) | Op::MultiRead(elements) => {
                elements.iter_mut().for_each(|element| *element = self.resolved(element));
            }
            Op::NullPath(op) => **op = self.resolved(op),
            Op::SetWatches { relative, lists } => {
                lists.iter_mut().flatten().for_each(|path| *path = self.resolve(path));
                *relative = Zxid(self.applied.0 - relative.0);
            }
            _ => (),
        }
        let Some(path) = op.path_mut() else { return op };
        *path = self.resolve(path);
        let node = self.model.nodes().get(path.as_str());
        match &mut op {
            Op::Delete { version, .. } | Op::SetData { version, .. } | Op::Check { version, .. }
                if *version == -100 =>
            {
                *version = node.map_or(0, |node| node.version);
            }
            Op::SetAcl { version, .. } if *version == -100 => *version = node.map_or(0, |node| node.aversion),
            _ => (),
        }
        op
    }

    /// Prepares a write, and applies the writes beyond the depth.
    pub(crate) fn write(&mut self, conn: usize, op: &Op) {
        if self.conns[conn].is_dead {
            return;
        }
        let op = self.resolved(op);
        self.xid += 1;
        let (xid, session, next) = (self.xid, self.conns[conn].session, self.zxid + 1);
        let mut txn = Vec::new();
        let stamp = self.stamp(session, next);
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.conns[conn].ids, stamp);
        let code = OpCode::try_from(op.code()).unwrap();
        let prepared = ops::prepare(&mut view, code, &body(&op), &mut txn);
        let digest = view.digest();
        let prepared = match prepared {
            Prepared::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(session, xid, kind, &txn, Some(digest)))
            }
            Prepared::Refused(code) => {
                assert!(txn.is_empty());
                Err(code.code())
            }
        };
        let quotas = self.model.quotas();
        self.in_flight.push_back((Work::Write { conn, xid, op, quotas }, prepared));
        self.apply_beyond(self.setup.depth);
    }

    /// Opens a session for a connection without one.
    pub(crate) fn open(&mut self, conn: usize) {
        if !self.conns[conn].is_dead {
            return;
        }
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let timeout_ms = 1000 + i32::try_from(session.0 & 0xff).unwrap();
        self.conns[conn].session = session;
        self.conns[conn].is_dead = false;
        self.zxid += 1;
        let mut body = Vec::new();
        let (stamp, server) = (self.stamp(session, self.zxid), Identities::server());
        let mut view = PendingView::new(&self.state, &mut self.pending, &server, stamp);
        ops::prepare_create_session(&mut view, timeout_ms, &mut body);
        let digest = view.digest();
        let record = self.record(session, 0, OpCode::CreateSession, &body, Some(digest));
        self.in_flight.push_back((Work::Open { timeout_ms }, Ok(record)));
        self.apply_beyond(self.setup.depth);
    }

    pub(crate) fn close(&mut self, conn: usize) {
        let session = self.conns[conn].session;
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
        let (stamp, server) = (self.stamp(SessionId::NONE, next), Identities::server());
        let mut view = PendingView::new(&self.state, &mut self.pending, &server, stamp);
        let prepared = ops::prepare_delete_container(&mut view, &path, NEVER_USED_MS, &mut body);
        let digest = view.digest();
        let prepared = match prepared {
            Prepared::Txn(kind) => {
                self.zxid = next;
                Ok(self.record(SessionId::NONE, 0, kind, &body, Some(digest)))
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
        let record = self.record(SessionId::NONE, 0, OpCode::Reconfig, &body, Some(self.state.digest()));
        self.in_flight.push_back((Work::Reconfig { text: text.to_owned() }, Ok(record)));
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
        let TxnHeader { zxid, time_ms, session, .. } = decoded.header;
        assert_eq!(zxid.0, self.applied.0 + 1, "{decoded:?}");
        self.applied = zxid;
        let at = TxnStamp { zxid, time_ms, session };
        let triggers = match work {
            Work::Write { conn, xid, op, quotas } => {
                assert!(op.is_write(), "{op:?} takes a zxid");
                let done = self.model.write_prepared(at, &self.conns[conn].auth, &op, quotas);
                assert_eq!(LoggedTxn::of(&decoded.txn), done.txn, "{op:?}");
                self.compare_reply(conn, &op, xid, &reply, &done.result);
                done.triggers
            }
            Work::Open { timeout_ms } => {
                assert!(self.model.open_session(session, timeout_ms));
                Vec::new()
            }
            Work::Close { conn, xid } => {
                self.compare_reply(conn, &Op::CloseSession, xid, &reply, &OpResult::ok(ReplyBody::Empty));
                self.conns[conn].is_dead = true;
                self.model.close_session(at, None)
            }
            Work::DeleteContainer { path, .. } => self.model.remove_expired(at, &path).expect(&path),
            Work::Reconfig { text } => self.model.reconfigure(at, Some(text.as_bytes())),
        };
        assert_eq!(self.state.last_zxid(), self.applied);
        assert_eq!(self.state.digest(), digest(&self.model), "digest after {decoded:?}");
        self.compare_events(&triggers);
        self.history.push(record);
    }

    /// Reads from the applied state, and compares.
    pub(crate) fn read(&mut self, conn: usize, read: &Op) {
        let op = self.resolved(read);
        self.xid += 1;
        self.reply = self.reply_to(conn, self.xid, op.code(), &body(&op));
        let xid = if op == Op::Ping { -2 } else { self.xid };
        let (events, reply) = frames(&self.reply);
        let expected = if let Op::SetWatches { relative, lists } = &op {
            let due = self.watches.set_watches(conn, &self.model, &self.conns[conn].auth, *relative, lists);
            let due: Vec<Seen> = due.into_iter().map(|(kind, path)| (kind as i32, path, -1)).collect();
            assert_eq!(events.into_iter().map(seen).collect::<Vec<_>>(), due, "{op:?}");
            OpResult::ok(ReplyBody::Empty)
        } else {
            assert!(events.is_empty(), "{op:?}");
            match self.watches.check_or_remove(conn, &op) {
                Some(0) => OpResult::ok(ReplyBody::Empty),
                Some(err) => OpResult::error(err),
                None => self.model.read(self.caller(conn), &op),
            }
        };
        self.compare_reply(conn, &op, xid, reply, &expected);
        self.watches.register(conn, &op, &expected);
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
    pub(crate) fn read_code(&mut self, conn: usize, read: &Op) -> i32 {
        self.read(conn, read);
        i32::from_be_bytes(frames(&self.reply).1[16..20].try_into().unwrap())
    }

    /// Continues with a state that is loaded from the model's contents.
    pub(crate) fn reload(&mut self) {
        self.drain();
        let image = Image::of_model(&self.model, self.applied);
        let mut loader = ImageLoader::new(self.setup.options(), &image.sessions);
        loader.lists(image.nodes.values());
        image.nodes.iter().for_each(|(path, node)| loader.node(path, node));
        let (state, unresolved) = loader.finish(image.zxid);
        assert_eq!(unresolved, [""; 0]);
        self.state = state;
    }

    /// Prepares a raw request without applying it. Returns the type of the transaction and its error code.
    pub(crate) fn prepared_raw(&mut self, conn: usize, code: i32, body: &[u8]) -> Option<(i32, i32)> {
        self.drain();
        let mut out = Vec::new();
        let stamp = self.stamp(self.conns[conn].session, self.zxid + 1);
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
        self.reply_to(conn, 1, code, body)
    }

    fn reply_to(&self, conn: usize, xid: i32, code: i32, body: &[u8]) -> Vec<u8> {
        let Conn { id, ids, session, .. } = &self.conns[conn];
        let requester = Requester { watcher: *id, session: *session, ids };
        let request = ReadRequest { xid, op: OpCode::try_from(code).unwrap(), body };
        let mut out = Vec::new();
        let _ = put_reply(&self.state, requester, request, &mut out);
        out
    }

    /// The events of a connection since the last call.
    pub(crate) fn events(&mut self, conn: usize) -> Vec<Seen> {
        std::mem::take(&mut self.delivered[conn])
    }

    /// The events that precede the last reply.
    pub(crate) fn events_in_reply(&self) -> Vec<Seen> {
        frames(&self.reply).0.into_iter().map(seen).collect()
    }

    /// Closes a connection and replaces it by a new one.
    pub(crate) fn drop_conn(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        self.state.watches().lock().drop_watcher(conn.id);
        self.watches.drop_connection(at);
        conn.generation += 1;
        conn.id = watcher_id(at, conn.generation);
    }
}
