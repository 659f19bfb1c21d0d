//! A small server's worth of work on a store: transactions made, logged, synced, applied.

use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{CreateKind, CreateTxn, DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_store::{Appended, Error, Opened};
use ox_tree::State;

/// The transaction with number `zxid`: a session, then nodes under `/n` that are created, changed and deleted.
pub(crate) fn txn(number: i64, data: &[u8]) -> Txn<'_> {
    let path = format!("/n{}", number / 3).into();
    match number {
        1 => Txn::CreateSession { timeout_ms: 30_000 },
        _ if number % 11 == 10 => Txn::Error { err: -101 },
        _ if number % 3 == 0 => Txn::Create(CreateTxn {
            kind: CreateKind::Create { ephemeral: false },
            path,
            data: Some(data),
            acl: RawAcls::OPEN,
            parent_cversion: i32::try_from(number).unwrap(),
        }),
        _ if number % 7 == 4 => Txn::Delete { path },
        _ => Txn::SetData { path, data: Some(data), version: i32::try_from(number).unwrap() },
    }
}

/// Data whose size and content depend on the number; some records span sectors, some hold zeros.
pub(crate) fn data(number: i64) -> Vec<u8> {
    let size = usize::try_from(number * 97 % 1400).unwrap();
    let mut data = vec![u8::try_from(number % 251).unwrap(); size];
    if number % 5 == 0 {
        data.fill(0);
    }
    data
}

/// Applies transaction `zxid` to `state` and appends its frame to `frames`.
pub(crate) fn make(state: &mut State, zxid: Zxid, frames: &mut Vec<u8>) {
    let data = data(zxid.0);
    let txn = txn(zxid.0, &data);
    let kind = txn.kind().code();
    let header = TxnHeader { session: SessionId(0x77), cxid: 1, zxid, time_ms: 1_000 + zxid.0, kind };
    let mut record = Record { header, txn, digest: None };
    state.replay(&record);
    record.digest = Some(TxnDigest { version: DIGEST_VERSION, tree_digest: state.digest() });
    let mark = begin_log_frame(frames);
    record.put(frames);
    end_log_frame(frames, mark);
}

/// Runs batches of the given sizes through the store. Returns the zxid up to which everything was acknowledged.
pub(crate) fn run(opened: &mut Opened, batches: &[usize], acked: &mut Zxid) -> Result<(), Error> {
    for size in batches {
        let first = opened.state.last_zxid().next().unwrap();
        let mut frames = Vec::new();
        for _ in 0..*size {
            let zxid = opened.state.last_zxid().next().unwrap();
            make(&mut opened.state, zxid, &mut frames);
        }
        let last = opened.state.last_zxid();
        let appended = opened.log.append(&frames, first, last, *size)?;
        let synced = opened.log.sync()?;
        assert_eq!(synced.last, last);
        *acked = last;
        if appended == Appended::SnapshotDue {
            opened.store.write_snapshot(&opened.state.freeze())?;
        }
    }
    Ok(())
}

/// The state after transactions 1 to `last`, computed without any file.
pub(crate) fn model(last: Zxid) -> State {
    let mut state = State::new(ox_tree::Options::default());
    for number in 1..=last.0 {
        make(&mut state, Zxid(number), &mut Vec::new());
    }
    state
}
