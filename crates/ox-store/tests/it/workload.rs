//! A workload for stores: transactions that are created, logged, synced and applied.

use crate::sim_stores::{golden, open};
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{CreateKind, CreateTxn, DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_store::disk::SimDisk;
use ox_store::{Appended, Opened, StoreError};
use ox_tree::{State, TreeOptions};

/// The expected history of a store: for each zxid from 1 on, the salt of its contents, so that a reused zxid is
/// distinguished from the first.
#[derive(Clone, Default)]
pub(crate) struct History {
    salts: Vec<u8>,
    /// Everything up to here was acknowledged.
    pub(crate) acked: Zxid,
    pub(crate) salt: u8,
    /// Batches appended before each sync; 0 counts as 1.
    pub(crate) sync_every: usize,
    /// A store with the beginning of this history.
    base: Option<SimDisk>,
}

impl History {
    /// The history that continues a golden set.
    pub(crate) fn after(set: &str) -> Self {
        let base = golden(set).0;
        let opened = open(&base).unwrap();
        opened.store.write_snapshot(&opened.state.freeze()).unwrap();
        Self { acked: opened.state.last_zxid(), base: Some(base), ..Self::default() }
    }

    fn start(&self) -> State {
        match &self.base {
            None => State::new(TreeOptions::default()),
            Some(disk) => {
                let disk = disk.fork();
                disk.restart_process();
                open(&disk).unwrap().state
            }
        }
    }

    /// Creates the next `count` transactions.
    pub(crate) fn make(&mut self, state: &mut State, count: usize, frames: &mut Vec<u8>) {
        for _ in 0..count {
            let zxid = state.last_zxid().next().unwrap();
            make(state, zxid, self.salt, frames);
            self.salts.push(self.salt);
        }
    }

    /// Checks that `state` is a prefix of this history with everything that was acknowledged. The rest is dropped
    /// forever.
    pub(crate) fn settle(&mut self, state: &State, what: &str) {
        let (last, mut model) = (state.last_zxid(), self.start());
        assert!(self.acked <= last, "{what}: acknowledged up to {}, recovered up to {last}", self.acked);
        let length = usize::try_from(last.0 - model.last_zxid().0).unwrap();
        assert!(length <= self.salts.len(), "{what}: {last} was never written");
        self.salts.truncate(length);
        for salt in &self.salts {
            let zxid = model.last_zxid().next().unwrap();
            make(&mut model, zxid, *salt, &mut Vec::new());
        }
        assert_eq!(state.digest(), model.digest(), "{what}: another state at {last}");
        assert!(state.sessions().eq(model.sessions()), "{what}: other sessions at {last}");
        // It is served now, so it must never disappear.
        self.acked = last;
    }
}

pub(crate) const SESSION: SessionId = SessionId(0x77);

fn txn(number: i64, data: &[u8]) -> Txn<'_> {
    let path = format!("/n{}", number / 3).into();
    match number {
        // The first transaction of a new history, and those after the golden sets in use.
        1 | 0x19 | 0x1a => Txn::CreateSession { timeout_ms: 30_000 },
        _ if number % 11 == 10 => Txn::Error { err: -101 },
        _ if number % 3 == 0 => Txn::Create(CreateTxn {
            kind: CreateKind::Create { ephemeral: number % 2 == 0 },
            path,
            data: Some(data),
            acl: RawAcls::OPEN,
            parent_cversion: i32::try_from(number).unwrap(),
        }),
        _ if number % 7 == 4 => Txn::Delete { path },
        _ => Txn::SetData { path, data: Some(data), version: i32::try_from(number).unwrap() },
    }
}

/// Data whose size and contents depend on the number; some records span sectors, some contain zero sectors.
fn data(number: i64, salt: u8) -> Vec<u8> {
    let size = usize::try_from(number * 97 % 1400).unwrap();
    let mut data = vec![u8::try_from(number % 251).unwrap().wrapping_add(salt); size];
    if number % 5 == 0 {
        data.fill(0);
    }
    data
}

/// Applies transaction `zxid` to `state` and appends its frame to `frames`.
pub(crate) fn make(state: &mut State, zxid: Zxid, salt: u8, frames: &mut Vec<u8>) {
    let number = i64::from(zxid.epoch()) * 1_000 + i64::from(zxid.counter());
    let data = data(number, salt);
    let txn = txn(number, &data);
    let kind = txn.kind().code();
    let header = TxnHeader { session: SESSION, cxid: 1, zxid, time_ms: 1_000 * i64::from(salt) + zxid.0, kind };
    let mut record = Record { header, txn, digest: None };
    state.replay(&record);
    record.digest = Some(TxnDigest { version: DIGEST_VERSION, tree_digest: state.digest() });
    let mark = begin_log_frame(frames);
    record.put(frames);
    end_log_frame(frames, mark);
}

/// Runs batches of the given sizes through the store as a server does. It continues after a failed snapshot.
pub(crate) fn run(opened: &mut Opened, batches: &[usize], history: &mut History) -> Result<(), StoreError> {
    for group in batches.chunks(history.sync_every.max(1)) {
        let mut is_due = false;
        for size in group {
            let first = opened.state.last_zxid().next().unwrap();
            let mut frames = Vec::new();
            history.make(&mut opened.state, *size, &mut frames);
            let appended = opened.log.append(&frames, first, opened.state.last_zxid(), *size)?;
            is_due |= appended == Appended::SnapshotDue;
        }
        let synced = opened.log.sync()?;
        assert_eq!(synced.last, opened.state.last_zxid());
        history.acked = synced.last;
        if is_due && opened.store.write_snapshot(&opened.state.freeze()).is_ok() {
            _ = opened.store.purge(3, &|| false);
        }
    }
    Ok(())
}

/// The state after transactions 1 to `last`, computed without files.
pub(crate) fn model(last: Zxid) -> State {
    let mut state = State::new(TreeOptions::default());
    for number in 1..=last.0 {
        make(&mut state, Zxid(number), 0, &mut Vec::new());
    }
    state
}
