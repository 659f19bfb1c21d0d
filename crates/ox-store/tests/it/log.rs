//! The log on a real disk: synced records survive, files roll, damage is noticed.

use crate::expected::nodes_of;
use crate::workload::{History, model, run};
use ox_proto::Zxid;
use ox_store::disk::RealDisk;
use ox_store::{Opened, StartSnapshot, Store, StoreOptions};
use ox_tree::TreeOptions;
use std::path::Path;
use std::sync::Arc;

fn options(dir: &Path) -> StoreOptions {
    let mut options = StoreOptions::new(dir);
    options.log.preallocate_bytes = 64 << 10;
    options.log.snap_count = 20;
    options.reserve_bytes = 4096;
    options
}

fn open(dir: &Path) -> Opened {
    Store::open(Arc::new(RealDisk), &options(dir), &TreeOptions::default(), 7).unwrap()
}

#[test]
fn reopened_store_has_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut history = History::default();
    let first = open(dir.path());
    assert_eq!(first.report.start_snapshot, StartSnapshot::Written);
    drop(first);
    for (round, batches) in [&[1, 5, 17][..], &[3, 3, 3, 3, 3, 3, 3], &[], &[40]].into_iter().enumerate() {
        let mut opened = open(dir.path());
        assert_eq!(opened.state.last_zxid(), history.acked);
        assert_eq!(nodes_of(&opened.state), nodes_of(&model(history.acked)));
        assert_eq!((opened.report.digest_mismatches, opened.report.conflicts), (0, 0));
        run(&mut opened, batches, &mut history).unwrap();
        if round == 1 {
            opened.log.close().unwrap();
        }
    }
    let opened = open(dir.path());
    assert_eq!(opened.state.last_zxid(), Zxid(84));
    assert_eq!(nodes_of(&opened.state), nodes_of(&model(Zxid(84))));
    let purged = opened.store.purge(3, &|| false).unwrap();
    assert!(purged.failed.is_empty());
    drop(opened);
    assert_eq!(nodes_of(&open(dir.path()).state), nodes_of(&model(Zxid(84))));
}

/// A killed process leaves a log with preallocated space; the next start releases it.
#[test]
fn preallocated_space_is_released_by_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut history = History::default();
    let mut opened = open(dir.path());
    run(&mut opened, &[1, 5], &mut history).unwrap();
    let length = || {
        let files = std::fs::read_dir(dir.path().join("version-2")).unwrap().map(Result::unwrap);
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log."));
        logs.map(|log| log.metadata().unwrap().len()).sum::<u64>()
    };
    assert!(64 << 10 <= length());
    drop(opened);
    assert!(64 << 10 <= length(), "as if it were killed");
    let opened = open(dir.path());
    assert_eq!(nodes_of(&opened.state), nodes_of(&model(history.acked)));
    assert!(length() < 8 << 10, "{}", length());
}

#[test]
#[should_panic(expected = "does not follow")]
fn append_after_a_gap_panics() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path());
    _ = opened.log.append(b"frame", Zxid(2), Zxid(2), 1);
}

#[test]
fn directory_is_locked_by_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let opened = open(dir.path());
    let second = Store::open(Arc::new(RealDisk), &options(dir.path()), &TreeOptions::default(), 7);
    assert_eq!(second.err().map(|error| error.exit_code()), Some(3));
    drop(opened);
    open(dir.path());
}
