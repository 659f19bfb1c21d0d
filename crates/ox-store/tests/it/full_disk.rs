//! A member whose disk becomes full (P63): existing data is unharmed, epochs can still be stored, and the member
//! continues when space is free again.

use crate::lifecycle::{Life, txns};
use crate::sim_stores::names;
use ox_store::disk::{Disk, KeepUnsynced};
use ox_store::{OpenedMember, StoreError};
use std::path::Path;

const PLENTY: u64 = 1 << 40;

/// A member that follows the leader of epoch 1, with some transactions.
fn following(log_dir: Option<&str>) -> (Life, OpenedMember) {
    let mut life = Life::new();
    (life.options.reserve_bytes, life.options.log.preallocate_bytes) = (4_000, 0);
    life.options.log_dir = log_dir.map(Into::into);
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=9, 0)]).unwrap();
    (life, opened)
}

/// Uses all space except for `bytes`.
fn leave(life: &Life, bytes: u64) {
    let used = PLENTY - life.disk.space(Path::new("/")).unwrap().free_bytes;
    life.disk.set_capacity(used + bytes);
}

/// Appends until the disk is full.
fn use_up(life: &mut Life, opened: &mut OpenedMember) -> StoreError {
    for counter in 10.. {
        if let Err(error) = life.append(opened, &[txns(1, counter..=counter, 0)]) {
            return error;
        }
    }
    unreachable!("the disk has an end");
}

/// Guard: the log does not get the space that is reserved for epochs.
#[test]
fn p63_epochs_are_stored_when_the_log_has_filled_the_disk() {
    for log_dir in [None, Some("/logs")] {
        let (mut life, mut opened) = following(log_dir);
        leave(&life, 0);
        for counter in 10.. {
            if opened.store.space().unwrap().last_bytes < 600 {
                break;
            }
            life.append(&mut opened, &[txns(1, counter..=counter, 0)]).unwrap();
        }
        assert_eq!(
            life.disk.list(opened.store.dirs().logs.as_path()).unwrap().iter().find(|name| *name == "oxk.reserve"),
            None
        );
        leave(&life, 0);
        for epoch in 2..20 {
            life.accept(&mut opened, epoch).unwrap();
            life.take_over(&mut opened, epoch).unwrap();
        }
        drop(opened);
        life.disk.set_capacity(PLENTY);
        life.check_after(KeepUnsynced::Nothing, "epochs on a full disk");
    }
}

/// Guard: a full disk is an error that ends the log; acknowledged records are there when space is free again.
#[test]
fn p63_member_continues_when_space_is_free_again() {
    for bytes in [0, 1, 100, 700] {
        let (mut life, mut opened) = following(None);
        leave(&life, bytes);
        let error = use_up(&mut life, &mut opened);
        assert!(error.is_full(), "{error}");
        assert!(matches!(opened.log.sync(), Err(StoreError::LogFailed)));
        assert!(matches!(opened.log.set_accepted(2), Err(StoreError::LogFailed)), "no epochs either");
        life.end_process(opened);
        assert!(!ox_store::has_free_space(&life.disk, &life.options).unwrap());
        life.disk.set_capacity(PLENTY);
        assert!(ox_store::has_free_space(&life.disk, &life.options).unwrap());
        life.check_start(&format!("with {bytes} bytes left"));
    }
}

/// Guard: a leader's snapshot that does not fit leaves the old files unchanged and no temporary file.
#[test]
fn p63_oversized_snapshot_is_installed_when_space_is_free_again() {
    let (mut life, mut opened) = following(None);
    life.accept(&mut opened, 2).unwrap();
    let theirs = [txns(1, 1..=6, 0), txns(2, 1..=200, 0)].concat();
    leave(&life, 500);
    let before = names(&life.disk, "");
    let error = life.install(&mut opened, theirs.clone()).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(names(&life.disk, ""), before);
    life.end_process(opened);
    // Nor does a start on the full disk change anything.
    life.check_after(KeepUnsynced::Everything, "the old history");
    life.disk.set_capacity(PLENTY);
    let mut opened = life.open().unwrap();
    life.install(&mut opened, theirs).unwrap();
    life.take_over(&mut opened, 2).unwrap();
    drop(opened);
    life.check_after(KeepUnsynced::Nothing, "the new history");
}
