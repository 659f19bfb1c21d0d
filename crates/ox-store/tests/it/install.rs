//! SNAP: a leader's snapshot replaces the local history.

use crate::lifecycle::{
    Life, cut_power_everywhere, cut_power_twice, fail_everywhere, open, outcomes, quarantined, state_of, txns,
    with_logs, worked, zx,
};
use crate::sim_stores::{damage, file, names, options};
use ox_store::disk::{DiskFault, KeepUnsynced};
use ox_store::names::Compression;
use ox_store::{MemberOptions, OpenOutcome, OpenedMember, Store, StoreError, StoredEpochs};
use ox_tree::TreeOptions;
use std::sync::Arc;

/// After any fault there is the old history or the new one, never a mix, and never the old one after the new (K12,
/// K13).
#[test]
fn k012_k013_installing_survives_power_cuts_and_failing_calls() {
    cut_power_everywhere(&Life::new(), Life::be_replaced, 1_000);
    cut_power_twice(&Life::new(), Life::be_replaced);
    fail_everywhere(&Life::new(), Life::be_replaced);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    split.options.compression = Compression::Gz;
    fail_everywhere(&split, Life::be_replaced);
}

#[test]
fn replaced_files_are_removed_by_the_next_snapshot() {
    let (life, mut opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "log.").len() + names(&life.disk, "snapshot.").len();
    opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    assert_eq!(names(&life.disk, "old.").len(), before);
    assert_eq!(names(&life.disk, "log."), [""; 0]);
    assert_eq!(names(&life.disk, "snapshot."), ["snapshot.200000003"]);
    assert_eq!(opened.log.last(), zx(2, 3));
    opened.store.write_snapshot(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    assert_eq!(names(&life.disk, "old.").len(), before, "the only snapshot");
    // A late snapshot of the old history.
    let error = opened.store.write_snapshot(&state_of(&txns(1, 1..=9, 0)).freeze()).unwrap_err();
    assert!(matches!(error, StoreError::SnapshotBehind { .. }), "{error}");
    let mut state = state_of(&txns(2, 1..=3, 7));
    state.set_last_zxid(zx(4, 0));
    opened.store.write_snapshot(&state.freeze()).unwrap();
    assert_eq!(names(&life.disk, "old."), [""; 0]);
}

/// The note records that files were moved, but the snapshot is gone: the history is unknown.
#[test]
fn installation_that_cannot_be_completed_is_quarantined() {
    let (life, mut opened) = with_logs(&[zx(1, 5)]);
    let start = life.disk.fork();
    opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    let calls = life.disk.calls() - start.calls();
    let mut lost = 0;
    for call in 1..=calls {
        let (life, mut opened) = with_logs(&[zx(1, 5)]);
        let disk = life.disk;
        disk.set_fault(disk.calls() + call, DiskFault::PowerCut);
        assert!(opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).is_err());
        disk.power_on(KeepUnsynced::Everything);
        if disk.content(&file("oxk.install")).is_none_or(|bytes| bytes[39] == 0) {
            continue;
        }
        lost += 1;
        damage(&disk, "snapshot.200000003", |bytes| bytes[50] ^= 1);
        let reason = quarantined(&disk, &MemberOptions::new(1), "a lost snapshot");
        assert!(reason.contains("snapshot.200000003"), "{reason}");
        let standalone = Store::open(Arc::new(disk.clone()), &options(), &TreeOptions::default(), 3);
        assert!(standalone.is_err_and(|error| error.is_damage()));
    }
    assert!(5 < lost, "only {lost}");
}

/// Damage, quarantine, a leader's snapshot, and a voter again; with a crash at every call.
#[test]
fn quarantined_member_is_restored_by_a_snapshot() {
    let (disk, _) = worked();
    let log = names(&disk, "log.").pop().unwrap();
    damage(&disk, &log, |bytes| bytes[40] ^= 1);
    drop(open(&disk).unwrap());
    let healthy = [txns(1, 1..=6, 0), txns(6, 1..=2, 0)].concat();
    for call in 1.. {
        let disk = disk.fork();
        let mut opened = open(&disk).unwrap();
        assert!(matches!(opened.outcome, OpenOutcome::Quarantined(_)));
        disk.set_fault(disk.calls() + call, DiskFault::PowerCut);
        let heal = |opened: &mut OpenedMember| {
            opened.log.install(&state_of(&healthy).freeze())?;
            opened.log.set_accepted(6)?;
            opened.log.set_current(6)?;
            opened.log.end_quarantine()
        };
        let healed = heal(&mut opened).is_ok();
        disk.clear_faults();
        for keep in outcomes(&disk, call) {
            let disk = disk.fork();
            disk.power_on(keep);
            let opened = open(&disk).unwrap();
            match opened.outcome {
                OpenOutcome::Quarantined(_) => assert!(!healed, "{call}, {keep:?}"),
                OpenOutcome::Empty => panic!("{call}, {keep:?}: empty"),
                OpenOutcome::Loaded(loaded) => {
                    assert_eq!(loaded.state.digest(), state_of(&healthy).digest(), "{call}, {keep:?}");
                    assert_eq!(opened.log.epochs(), StoredEpochs { accepted: 6, current: 6 });
                }
            }
        }
        if healed {
            break;
        }
    }
}
