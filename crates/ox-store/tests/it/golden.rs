//! Directories written by Apache, intact and damaged: recovery yields the recorded tree or a refusal.

use crate::expected::{IndexEntry, check_state, expected, index, testdata};
use ox_store::disk::RealDisk;
use ox_store::{Opened, Store, StoreError, StoreOptions};
use ox_tree::TreeOptions;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else if entry.file_name() != "expected.json" {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub(crate) fn options(entry: &IndexEntry, root: &Path) -> StoreOptions {
    let mut options = StoreOptions::new(root.join(&entry.data_dir));
    if entry.log_dir != entry.data_dir {
        options.log_dir = Some(root.join(&entry.log_dir));
    }
    options.trust_empty = entry.properties.get("zookeeper.snapshot.trust.empty").is_some_and(|value| value == "true");
    options.reserve_bytes = 0;
    options
}

fn open(options: &StoreOptions) -> Result<Opened, StoreError> {
    Store::open(Arc::new(RealDisk), options, &TreeOptions::default(), 1)
}

#[test]
fn golden_sets_yield_their_tree_or_are_refused() {
    let mut failures = Vec::new();
    for entry in index() {
        let dir = tempfile::tempdir().unwrap();
        copy_dir(&testdata().join(&entry.set), dir.path());
        let outcome = std::panic::catch_unwind(|| check_set(&entry, dir.path()));
        if outcome.is_err() {
            failures.push(entry.set);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

fn check_set(entry: &IndexEntry, root: &Path) {
    let options = options(entry, root);
    let opened = match open(&options) {
        Ok(opened) => opened,
        Err(error) => {
            assert_eq!(entry.required_outcome, "refuses", "{}: {error}", entry.set);
            assert_eq!(error.exit_code(), 1);
            return;
        }
    };
    assert_eq!(entry.required_outcome, "starts", "{} started", entry.set);
    let expected = expected(&entry.set);
    check_state(&opened.state, &expected, &entry.set);
    assert_eq!(opened.report.digest_mismatches, 0, "{}", entry.set);
    drop(opened);
    let again = open(&options).unwrap();
    check_state(&again.state, &expected, &format!("{} again", entry.set));
    assert_eq!(again.report.dropped, None);
    again.store.write_snapshot(&again.state.freeze()).unwrap();
    drop(again);
    let third = open(&options).unwrap();
    check_state(&third.state, &expected, &format!("{} from our snapshot", entry.set));
    assert_eq!(third.report.replayed, 0);
}
