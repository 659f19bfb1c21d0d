//! Request bodies of every opcode, prepared, applied and read on a small state.

use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{
    AuthPacket, CreateRequest, CreateTtlRequest, PathKind, PathVersion, PathWatch, SetAclRequest, SetDataRequest,
    SetWatches,
};
use ox_proto::txn::{DIGEST_VERSION, Record, TxnDigest, TxnHeader};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_replica::outbox::Outboxes;
use ox_tree::auth::Identities;
use ox_tree::ops::{self, Prepared};
use ox_tree::read::{self, ReadRequest, Requester};
use ox_tree::watch::WatcherId;
use ox_tree::{PendingChanges, PendingView, State, TreeOptions, WriteStamp, put_write_reply};

/// The first byte of an input selects the operation.
const OPS: &[OpCode] = OpCode::ALL;

fn entry(op: OpCode, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let at = OPS.iter().position(|other| *other == op).expect("every opcode is listed");
    let mut out = vec![u8::try_from(at).expect("few opcodes")];
    put(&mut out);
    out
}

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let path = || Some("/a".into());
    let create = || CreateRequest { path: Some("/a/n-".into()), data: Some(b"x"), acl: RawAcls::OPEN, flags: 3 };
    let ttl = CreateTtlRequest { path: Some("/a/t".into()), data: None, acl: RawAcls::OPEN, flags: 5, ttl_ms: 9 };
    let mut corpus = vec![
        entry(OpCode::CreateTtl, |out| ttl.put(out)),
        entry(OpCode::SetData, |out| SetDataRequest { path: path(), data: Some(b"yy"), version: -1 }.put(out)),
        entry(OpCode::SetAcl, |out| SetAclRequest { path: path(), acl: RawAcls::OPEN, version: -1 }.put(out)),
        entry(OpCode::Auth, |out| AuthPacket { kind: 0, scheme: Some("digest".into()), auth: Some(b"a:b") }.put(out)),
    ];
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        corpus.push(entry(op, |out| create().put(out)));
    }
    for op in [OpCode::Exists, OpCode::GetData, OpCode::GetChildren, OpCode::GetChildren2, OpCode::GetAcl] {
        corpus.push(entry(op, |out| PathWatch { path: path(), watch: true }.put(out)));
    }
    for op in [OpCode::AddWatch, OpCode::RemoveWatches, OpCode::CheckWatches] {
        corpus.push(entry(op, |out| PathKind { path: path(), kind: 1 }.put(out)));
    }
    corpus.push(entry(OpCode::Delete, |out| PathVersion { path: path(), version: -1 }.put(out)));
    for op in [OpCode::Multi, OpCode::MultiRead] {
        corpus.push(entry(op, |out| {
            MultiOp::Create(OpCode::Create, create()).put(out);
            MultiOp::Check(PathVersion { path: path(), version: 0 }).put(out);
            MultiOp::GetData(PathWatch { path: path(), watch: false }).put(out);
            MultiHeader::END.put(out);
        }));
    }
    let watches = SetWatches { relative_zxid: Zxid(1), lists: std::array::from_fn(|_| vec!["/a".into(), "/b".into()]) };
    corpus.push(entry(OpCode::SetWatches, |out| watches.put(3, out)));
    corpus.push(entry(OpCode::SetWatches2, |out| watches.put(5, out)));
    corpus
}

pub(super) fn run(input: &[u8]) {
    let Some((first, body)) = input.split_first() else { return };
    let op = OPS[usize::from(*first) % OPS.len()];
    let options = TreeOptions { extended_types: true, enforce_quota: true, ..TreeOptions::default() };
    let mut state = State::new(options);
    let ids = Identities::of_address([127, 0, 0, 1].into());
    let mut out = Vec::new();
    write(&mut state, &ids, OpCode::Create, &corpus_parent());
    if read::is_read(op) {
        let asker = Requester { watcher: WatcherId::new(1), session: SessionId(7), ids: &ids };
        let _ = read::put_reply(&state, asker, ReadRequest { xid: 3, op, body }, &mut out);
        assert!(4 <= out.len(), "every read has a reply");
    } else {
        write(&mut state, &ids, op, body);
    }
}

fn corpus_parent() -> Vec<u8> {
    let mut out = Vec::new();
    CreateRequest { path: Some("/a".into()), data: None, acl: RawAcls::OPEN, flags: 0 }.put(&mut out);
    out
}

/// Prepares a write and applies the resulting transaction; the predicted digest must equal the actual one.
fn write(state: &mut State, ids: &Identities, op: OpCode, body: &[u8]) {
    let mut pending = PendingChanges::default();
    let zxid = Zxid(state.last_zxid().0 + 1);
    let stamp = WriteStamp { zxid, time_ms: 1, session: SessionId(7) };
    let mut view = PendingView::new(state, &mut pending, ids, stamp);
    let mut record = Vec::new();
    let mut header = TxnHeader { session: stamp.session, cxid: 3, zxid, time_ms: 1, kind: 0 };
    let mut encoded = Vec::new();
    let Prepared::Txn(kind) = ops::prepare(&mut view, op, body, &mut encoded) else { return };
    header.kind = kind.code();
    header.put(&mut record);
    record.extend_from_slice(&encoded);
    if kind != OpCode::Error {
        TxnDigest { version: DIGEST_VERSION, tree_digest: view.digest() }.put(&mut record);
    }
    let decoded = Record::decode(&record).expect("encoded records decode");
    let outcome = state.apply(&decoded, pending.applied(decoded.header.zxid), &mut Outboxes::new(1));
    assert!(!outcome.conflict && !outcome.digest_differs, "{decoded:?}");
    put_write_reply(&mut Vec::new(), &decoded, &outcome.applied);
}
