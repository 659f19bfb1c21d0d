//! Restoring a snapshot on a standalone server, with a power cut or an error at every call of the disk.

use crate::sim_stores::{names, open, open_with, options};
use crate::workload::{History, make, model, run};
use ox_proto::Zxid;
use ox_store::disk::{DiskFault, KeepUnsynced, SimDisk};
use ox_store::{Opened, StoreError, load_snapshot_stream};
use ox_tree::{State, TreeOptions};
use std::io::ErrorKind;

/// The restored state: another history, which ends below or above the present one.
fn restored(last: i64) -> State {
    let mut state = State::new(TreeOptions::default());
    (1..=last).for_each(|zxid| make(&mut state, Zxid(zxid), 99, &mut Vec::new()));
    state
}

fn append(opened: &mut Opened, salt: u8) -> Result<(), StoreError> {
    let (first, mut frames) = (opened.state.last_zxid().next().unwrap(), Vec::new());
    make(&mut opened.state, first, salt, &mut frames);
    let _ = opened.log.append(&frames, first, first, 1)?;
    opened.log.sync().map(drop)
}

/// A store after some work, with snapshots and a log.
fn worked() -> (SimDisk, Opened, History) {
    let (disk, mut history) = (SimDisk::new(), History::default());
    let mut opened = open(&disk).unwrap();
    run(&mut opened, &[5, 9, 3, 8, 4], &mut history).unwrap();
    (disk, opened, history)
}

fn restore(opened: &mut Opened, last: i64) -> Result<(), StoreError> {
    opened.store.restore(&mut opened.log, &restored(last).freeze())?;
    opened.state = restored(last);
    append(opened, 99)
}

/// A start finds the old data or the restored data, never a mix, and can continue.
#[test]
fn restore_survives_power_cuts_and_failing_calls() {
    for (last, fault) in [
        (7, DiskFault::PowerCut),
        (29, DiskFault::PowerCut),
        (100, DiskFault::PowerCut),
        (7, DiskFault::Error(ErrorKind::Other)),
        (100, DiskFault::Error(ErrorKind::StorageFull)),
    ] {
        let mut outcomes = [0, 0];
        for call in 1.. {
            let (disk, mut opened, _) = worked();
            let old = opened.state.last_zxid();
            disk.set_fault(disk.calls() + call, fault);
            let is_done = restore(&mut opened, last).is_ok();
            drop(opened);
            disk.clear_faults();
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
                let disk = disk.fork();
                disk.power_on(keep);
                let what = format!("{last}, {fault:?} at call {call}, {keep:?}");
                let mut opened = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
                let (found, digest) = (opened.state.last_zxid(), opened.state.digest());
                let is_new = (last..=last + 1).any(|last| digest == restored(last).digest());
                assert!(is_new || digest == model(old).digest(), "{what}: neither old nor new, at {found}");
                assert!(is_new || !is_done, "{what}: restored, and lost");
                outcomes[usize::from(is_new)] += 1;
                append(&mut opened, 98).unwrap();
                let digest = opened.state.digest();
                drop(opened);
                disk.power_on(KeepUnsynced::Nothing);
                assert_eq!(open(&disk).unwrap().state.digest(), digest, "{what}: a second start");
            }
            if is_done {
                break;
            }
        }
        assert!(outcomes.iter().all(|count| 5 < *count), "{last}, {fault:?}: {outcomes:?}");
    }
}

#[test]
fn replaced_files_stay_until_the_next_snapshot() {
    let (disk, mut opened, _) = worked();
    let before = names(&disk, "log.").len() + names(&disk, "snapshot.").len();
    restore(&mut opened, 100).unwrap();
    assert_eq!((names(&disk, "snapshot."), names(&disk, "log.")), (vec!["snapshot.64".into()], vec!["log.65".into()]));
    assert_eq!(names(&disk, "old.").len(), before);
    opened.store.write_snapshot(&opened.state.freeze()).unwrap();
    assert_eq!(names(&disk, "old."), [""; 0]);
}

#[test]
fn log_takes_nothing_after_a_failed_restore() {
    let (disk, mut opened, _) = worked();
    disk.set_fault(disk.calls() + 3, DiskFault::Error(ErrorKind::Other));
    assert!(opened.store.restore(&mut opened.log, &restored(7).freeze()).is_err());
    let (first, mut frames) = (opened.state.last_zxid().next().unwrap(), Vec::new());
    make(&mut opened.state, first, 0, &mut frames);
    assert!(matches!(opened.log.append(&frames, first, first, 1), Err(StoreError::LogFailed)));
    let again = opened.store.restore(&mut opened.log, &restored(7).freeze());
    assert!(matches!(again, Err(StoreError::LogFailed)));
}

/// Every truncation and every changed byte of the stream is refused.
#[test]
fn damaged_stream_is_refused() {
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    run(&mut opened, &[6], &mut History::default()).unwrap();
    opened.store.write_snapshot(&opened.state.freeze()).unwrap();
    let name = names(&disk, "snapshot.").pop().unwrap();
    let bytes = disk.content(&crate::sim_stores::file(&name)).unwrap();
    let load = |bytes: &[u8]| load_snapshot_stream(bytes, &TreeOptions::default());
    let state = load(&bytes).unwrap();
    assert_eq!((state.last_zxid(), state.digest()), (Zxid(6), opened.state.digest()));
    // Without the last part, the digest part names the zxid; without both, nothing does.
    for (missing, is_accepted) in [(21, true), (21 + 33, false), (1, false)] {
        assert_eq!(load(&bytes[..bytes.len() - missing]).is_ok(), is_accepted, "{missing}");
    }
    for at in (16..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(load(&damaged).is_err(), "byte {at}");
    }
    assert!(load(b"").is_err() && load(b"garbage").is_err() && load(&[bytes, vec![0]].concat()).is_err());
    let _ = open_with(&SimDisk::new(), &options()).unwrap();
}
