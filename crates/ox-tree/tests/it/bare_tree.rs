//! The tree without the model, for cases that the model does not cover: counters at their limits, malformed records,
//! sizes.

use crate::harness::plain;
use crate::request::{body, create};
use ox_history::Op;
use ox_proto::stat::StatPersisted;
use ox_proto::txn::{DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::ops::{self, Prepared};
use ox_tree::{Loader, PendingChanges, PendingView, State, WriteStamp};
use std::collections::VecDeque;

pub(crate) const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

pub(crate) struct BareTree {
    pub(crate) state: State,
    pub(crate) pending: PendingChanges,
    pub(crate) ids: Identities,
    pub(crate) zxid: i64,
    /// The number of transactions kept in flight.
    pub(crate) depth: usize,
    pub(crate) in_flight: VecDeque<Vec<u8>>,
}

impl BareTree {
    pub(crate) fn new(state: State) -> Self {
        let zxid = state.last_zxid().0;
        let ids = Identities::of_address("10.0.0.1".parse().unwrap());
        let mut tree =
            Self { state, pending: PendingChanges::default(), ids, zxid, depth: 0, in_flight: VecDeque::new() };
        tree.open(SESSION);
        tree
    }

    /// A tree with one node besides the root, with this cversion.
    pub(crate) fn with_node(path: &str, cversion: i32) -> Self {
        let mut loader = Loader::new(plain().options());
        loader.node("", Some(b""), -1, StatPersisted::default()).unwrap();
        loader.node(path, Some(b""), -1, StatPersisted { cversion, ..StatPersisted::default() }).unwrap();
        Self::new(loader.finish(Zxid(7)).unwrap())
    }

    pub(crate) fn stamp(&self, session: SessionId) -> WriteStamp {
        WriteStamp { zxid: Zxid(self.zxid + 1), time_ms: self.zxid + 1, session }
    }

    /// Puts a prepared body in flight.
    fn send(&mut self, session: SessionId, kind: OpCode, body: &[u8], digest: Option<i64>) -> Vec<u8> {
        self.zxid += 1;
        let (zxid, time_ms) = (Zxid(self.zxid), self.zxid);
        let mut record = Vec::new();
        TxnHeader { session, cxid: 1, zxid, time_ms, kind: kind.code() }.put(&mut record);
        record.extend_from_slice(body);
        if let Some(tree_digest) = digest {
            TxnDigest { version: DIGEST_VERSION, tree_digest }.put(&mut record);
        }
        self.in_flight.push_back(record.clone());
        while self.depth < self.in_flight.len() {
            self.apply_one();
        }
        record
    }

    fn apply_one(&mut self) {
        let bytes = self.in_flight.pop_front().unwrap();
        let record = Record::decode(&bytes).unwrap();
        let outcome = self.state.replay(&record);
        assert!(!outcome.digest_differs && !outcome.conflict, "{record:?}");
        self.pending.applied(record.header.zxid);
    }

    pub(crate) fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            self.apply_one();
        }
    }

    pub(crate) fn open(&mut self, session: SessionId) {
        let (stamp, mut body) = (self.stamp(session), Vec::new());
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.ids, stamp);
        ops::prepare_create_session(&mut view, 5000, &mut body);
        let digest = view.digest();
        self.send(session, OpCode::CreateSession, &body, Some(digest));
    }

    /// Closes a session and returns the record.
    pub(crate) fn close(&mut self, session: SessionId) -> Vec<u8> {
        let (stamp, mut body) = (self.stamp(session), Vec::new());
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.ids, stamp);
        let may_carry_digest = ops::prepare_close_session(&mut view, &mut body);
        let digest = view.digest();
        self.send(session, OpCode::CloseSession, &body, may_carry_digest.then_some(digest))
    }

    /// Prepares a write. Returns its record, or the code of a refusal without a record.
    pub(crate) fn write(&mut self, session: SessionId, op: &Op) -> Result<Vec<u8>, i32> {
        self.write_raw(session, op.code(), &body(op))
    }

    pub(crate) fn write_raw(&mut self, session: SessionId, code: i32, request: &[u8]) -> Result<Vec<u8>, i32> {
        let (stamp, mut body) = (self.stamp(session), Vec::new());
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.ids, stamp);
        let prepared = ops::prepare(&mut view, OpCode::try_from(code).unwrap(), request, &mut body);
        let digest = view.digest();
        match prepared {
            Prepared::Txn(kind) => Ok(self.send(session, kind, &body, Some(digest))),
            Prepared::Refused(code) => Err(code.code()),
        }
    }

    /// Creates a node and returns its path, or the error code.
    pub(crate) fn create(&mut self, path: &str, flags: i32) -> Result<String, i32> {
        let record = self.write(SESSION, &create(path, flags))?;
        match Record::decode(&record).unwrap().txn {
            Txn::Create(create) => Ok(create.path.into_owned()),
            Txn::Error { err } => Err(err),
            other => panic!("{other:?}"),
        }
    }

    /// Executes a multi of creates and returns the paths.
    pub(crate) fn multi(&mut self, elements: &[Op]) -> Vec<String> {
        let record = self.write(SESSION, &Op::Multi(elements.to_vec())).unwrap();
        let Txn::Multi(elements) = Record::decode(&record).unwrap().txn else { panic!("a multi") };
        let path = |element: Txn<'_>| match element {
            Txn::Create(create) => create.path.into_owned(),
            other => panic!("{other:?}"),
        };
        elements.into_iter().map(path).collect()
    }
}
