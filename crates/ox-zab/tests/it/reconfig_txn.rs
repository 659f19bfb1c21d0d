//! Transactions that propose a configuration.

use bytes::Bytes;
use ox_proto::ensemble::{Addresses, Ensemble};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use ox_proto::{SessionId, Zxid};
use ox_zab::EncodedTxn;

/// The record of a reconfiguration.
pub(crate) fn record_of(config: &Ensemble, zxid: Zxid) -> Bytes {
    let text = config.to_string();
    let txn = Body::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1, kind: txn.kind().code() };
    let mut out = Vec::new();
    Record { header, txn, digest: None }.put(&mut out);
    out.into()
}

pub(crate) fn config_of(txn: &EncodedTxn) -> Option<Ensemble> {
    let Body::Reconfig { data: Some(text), .. } = Record::decode(&txn.record).ok()?.txn else { return None };
    Ensemble::parse(std::str::from_utf8(text).ok()?, Addresses::One).ok()
}
