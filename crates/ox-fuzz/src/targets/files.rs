//! Logs and snapshots: a damaged directory is either refused, or opens and then opens again to the same state.

use ox_inspect::recover::{RecoverMode, RecoveryPlan};
use ox_store::disk::SimDisk;
use ox_store::{Store, StoreOptions};
use ox_tree::TreeOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A log without its padding, which only slows down mutations.
fn log(path: &str) -> Vec<u8> {
    let mut bytes = golden(path);
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(end + 64);
    bytes
}

pub(super) fn log_corpus() -> Vec<Vec<u8>> {
    vec![log("e-corrupt/undamaged/version-2/log.1"), log("h-formats/dup-zxid/version-2/log.1")]
}

pub(super) fn snapshot_corpus() -> Vec<Vec<u8>> {
    vec![golden("e-corrupt/undamaged/version-2/snapshot.7"), golden("a-fresh/version-2/snapshot.0")]
}

pub(super) fn gz_corpus() -> Vec<Vec<u8>> {
    vec![golden("e-corrupt/gz-flip/version-2/snapshot.0.gz")]
}

pub(super) fn snappy_corpus() -> Vec<Vec<u8>> {
    vec![golden("e-corrupt/snappy-flip/version-2/snapshot.0.snappy")]
}

pub(super) fn run_log(input: &[u8]) {
    recover_log(input);
    open(&[("snapshot.0", &golden("a-fresh/version-2/snapshot.0")), ("log.1", input)]);
}

pub(super) fn run_snapshot(input: &[u8]) {
    open(&[("snapshot.7", input)]);
}

pub(super) fn run_gz(input: &[u8]) {
    open(&[("snapshot.7.gz", input)]);
}

pub(super) fn run_snappy(input: &[u8]) {
    open(&[("snapshot.7.snappy", input)]);
}

/// Whatever recovery keeps of a log can be read, and everything before the first damage is intact.
fn recover_log(input: &[u8]) {
    let path = Path::new("/data/version-2/log.1");
    for mode in [RecoverMode::Cut, RecoverMode::Skip, RecoverMode::Fix] {
        let disk = SimDisk::new();
        disk.install(path, input);
        let plan = RecoveryPlan::new(&disk, path, mode).expect("a log can be read");
        let written =
            plan.write(&disk, Path::new("/data/version-2/log.1.fixed")).expect("the simulated disk has free space");
        assert!(mode != RecoverMode::Cut || written.verdict().is_good(), "{written:?}");
    }
}

fn open(files: &[(&str, &[u8])]) {
    let disk = SimDisk::new();
    for (name, bytes) in files {
        disk.install(&PathBuf::from("/data/version-2").join(name), bytes);
    }
    let options = StoreOptions::new("/data");
    let Ok(opened) = Store::open(Arc::new(disk.clone()), &options, &TreeOptions::default(), 1) else { return };
    let (last, digest) = (opened.state.last_zxid(), opened.state.digest());
    drop(opened);
    let again =
        Store::open(Arc::new(disk), &options, &TreeOptions::default(), 1).expect("what opened once opens again");
    assert_eq!((again.state.last_zxid(), again.state.digest()), (last, digest));
}
