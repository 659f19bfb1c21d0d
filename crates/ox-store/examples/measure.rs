//! Measures the store on a real disk.
//!
//! - `measure restart DIR [NODES]`: the time to write and load a snapshot of NODES nodes, and to replay a log of as
//!   many records;
//! - `measure sync DIR`: the cost of an fsync of a small batch.

use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{CreateKind, CreateTxn, DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_store::disk::RealDisk;
use ox_store::{Opened, Store, StoreError, StoreOptions};
use ox_tree::{State, TreeOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), StoreError> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "measure-data".into()));
    let nodes = args.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    if what == "sync" { syncs(&dir.join("sync")) } else { restart(&dir.join("restart"), nodes) }
}

fn open(dir: &Path) -> Result<Opened, StoreError> {
    Store::open(Arc::new(RealDisk), &StoreOptions::new(dir), &TreeOptions::default(), 1)
}

/// Appends the create of node `number` to `frames`, and applies it.
fn create(state: &mut State, zxid: Zxid, number: usize, frames: &mut Vec<u8>) {
    let path =
        if number < 1000 { format!("/p{number:03}") } else { format!("/p{:03}/node-{number:010}", number % 1000) };
    let kind = CreateKind::Create { ephemeral: false };
    let data = [b'x'; 100];
    let parent_cversion = i32::try_from(number / 1000 + 1).unwrap_or(i32::MAX);
    let txn =
        Txn::Create(CreateTxn { kind, path: path.into(), data: Some(&data), acl: RawAcls::OPEN, parent_cversion });
    let header =
        TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1_700_000_000_000, kind: txn.kind().code() };
    let mut record = Record { header, txn, digest: None };
    state.replay(&record);
    record.digest = Some(TxnDigest { version: DIGEST_VERSION, tree_digest: state.digest() });
    let mark = begin_log_frame(frames);
    record.put(frames);
    end_log_frame(frames, mark);
}

fn restart(dir: &Path, nodes: usize) -> Result<(), StoreError> {
    let mut opened = open(dir)?;
    if opened.state.node_count() < nodes {
        let started = Instant::now();
        let mut frames = Vec::new();
        for batch in 0..nodes.div_ceil(1000) {
            frames.clear();
            let first = opened.state.last_zxid().next().expect("epoch 0 is long");
            for index in 0..1000 {
                let zxid = opened.state.last_zxid().next().expect("epoch 0 is long");
                create(&mut opened.state, zxid, batch * 1000 + index, &mut frames);
            }
            let _ = opened.log.append(&frames, first, opened.state.last_zxid(), 1000)?;
            opened.log.sync()?;
        }
        println!("log {nodes} records: {:?}", started.elapsed());
        drop(opened);
        let started = Instant::now();
        opened = open(dir)?;
        println!("start, all from the log: {:?} ({} replayed)", started.elapsed(), opened.report.replayed);
        let started = Instant::now();
        let frozen = opened.state.freeze();
        println!("freeze: {:?}", started.elapsed());
        let started = Instant::now();
        opened.store.write_snapshot(&frozen)?;
        println!("write snapshot: {:?}", started.elapsed());
    }
    drop(opened);
    for _ in 0..5 {
        let started = Instant::now();
        let opened = open(dir)?;
        let took = started.elapsed();
        println!(
            "start from snapshot: {took:?} ({} nodes, {} replayed)",
            opened.state.node_count(),
            opened.report.replayed
        );
        let started = Instant::now();
        drop(opened);
        println!("  drop: {:?}", started.elapsed());
    }
    Ok(())
}

fn syncs(dir: &Path) -> Result<(), StoreError> {
    let mut opened = open(dir)?;
    for records in [1, 10, 100] {
        let (mut frames, mut took) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            frames.clear();
            let first = opened.state.last_zxid().next().expect("epoch 0 is long");
            for _ in 0..records {
                let zxid = opened.state.last_zxid().next().expect("epoch 0 is long");
                create(&mut opened.state, zxid, usize::try_from(zxid.0).unwrap_or(0) % 1000, &mut frames);
            }
            let started = Instant::now();
            let _ = opened.log.append(&frames, first, opened.state.last_zxid(), records)?;
            opened.log.sync()?;
            took.push(started.elapsed());
        }
        took.sort();
        let mean = took.iter().sum::<Duration>() / 2000;
        println!("append and sync {records} records: mean {mean:?}, median {:?}, p99 {:?}", took[1000], took[1980]);
    }
    Ok(())
}
