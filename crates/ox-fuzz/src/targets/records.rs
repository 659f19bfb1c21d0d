//! Transaction records: a decoded record encodes to bytes that decode to the same.

use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{RawAcls, SessionId, Zxid};

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let create = |kind| {
        Txn::Create(CreateTxn {
            kind,
            path: "/a/b".into(),
            data: Some(b"data"),
            acl: RawAcls::OPEN,
            parent_cversion: 3,
        })
    };
    let txns = [
        Txn::CreateSession { timeout_ms: 30_000 },
        Txn::CloseSession { paths: Some(vec!["/a".into(), "/b".into()]) },
        Txn::CloseSession { paths: None },
        Txn::Error { err: -101 },
        create(CreateKind::Create { ephemeral: true }),
        create(CreateKind::Create2 { ephemeral: false }),
        create(CreateKind::Container),
        create(CreateKind::Ttl { ttl_ms: 5 }),
        Txn::SetData { path: "/a".into(), data: None, version: 4 },
        Txn::SetAcl { path: "/a".into(), acl: RawAcls::OPEN, version: 1 },
        Txn::Multi(vec![
            create(CreateKind::Container),
            Txn::Check { path: "/a".into(), version: 2 },
            Txn::Error { err: -2 },
        ]),
    ];
    let encode = |txn: Txn<'static>| {
        let header = TxnHeader { session: SessionId(7), cxid: 1, zxid: Zxid(9), time_ms: 5, kind: txn.kind().code() };
        let mut out = Vec::new();
        Record { header, txn, digest: Some(TxnDigest { version: 2, tree_digest: 8 }) }.put(&mut out);
        out
    };
    txns.into_iter().map(encode).collect()
}

pub(super) fn run(input: &[u8]) {
    let Ok(record) = Record::decode(input) else { return };
    let mut printed = Vec::new();
    record.put(&mut printed);
    let mut again = Vec::new();
    Record::decode(&printed).expect("what was printed decodes").put(&mut again);
    assert_eq!(printed, again);
}
