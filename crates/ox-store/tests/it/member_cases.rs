//! Known cases of members' files.

use crate::lifecycle::{Life, loaded, open, quarantined, state_of, txns, with_logs, worked, zx};
use crate::sim_stores::{damage, file, names, remove};
use crate::workload::{SESSION, make};
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{Record, Txn, TxnHeader};
use ox_proto::{OpCode, Zxid};
use ox_store::disk::{KeepUnsynced, SimDisk};
use ox_store::marker::Marker;
use ox_store::{MemberOptions, OpenOutcome, OpenedMember, StoreError};
use ox_tree::State;

/// A start applies the whole log, committed or not, but writes no snapshot of it, so that the end can still be
/// truncated.
#[test]
fn k024_start_writes_no_snapshot_of_uncommitted_transactions() {
    let (mut life, opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "snapshot.");
    life.end_process(opened);
    let mut opened = life.open().unwrap();
    assert_eq!(loaded(std::mem::replace(&mut opened.outcome, OpenOutcome::Empty)).state.last_zxid(), zx(3, 6));
    assert_eq!(names(&life.disk, "snapshot."), before);
    life.truncate(&mut opened, zx(3, 2)).unwrap();
    // A snapshot that was requested before the truncation is too late.
    let late = opened.store.write_snapshot(&state_of(&[txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat()).freeze());
    assert!(matches!(late, Err(StoreError::SnapshotAhead { .. })));
    drop(opened);
    life.check_after(KeepUnsynced::Nothing, "truncated");
}

/// A snapshot that is newer than every record suffices.
#[test]
fn k032_snapshot_without_later_records_suffices() {
    let (mut life, mut opened) = with_logs(&[]);
    life.accept(&mut opened, 4).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 7)).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    assert_eq!(names(&life.disk, "log."), [""; 0]);
    drop(opened);
    life.check_after(KeepUnsynced::Nothing, "only a snapshot");
}

/// A leader's second snapshot replaces its first.
#[test]
fn k033_second_snapshot_replaces_the_first() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5)]);
    life.accept(&mut opened, 4).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 7)).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 8)).unwrap();
    life.install(&mut opened, [txns(4, 1..=3, 8), txns(4, 4..=9, 2)].concat()).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    life.append(&mut opened, &[txns(4, 10..=12, 0)]).unwrap();
    drop(opened);
    for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
        life.check_after(keep, "the last one counts");
    }
}

/// Purges and snapshots of other threads do not interfere with an installation.
#[test]
fn k034_installation_excludes_purges_and_snapshots() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5), zx(1, 9), zx(3, 3)]);
    life.accept(&mut opened, 4).unwrap();
    let store = opened.store.clone();
    let old = state_of(&life.txns).freeze();
    std::thread::scope(|scope| {
        let maintenance = scope.spawn(move || {
            for _ in 0..200 {
                _ = store.purge(3, &|| false);
                _ = store.write_snapshot(&old);
            }
        });
        for salt in 1..40 {
            life.install(&mut opened, txns(4, 1..=3, salt)).unwrap();
        }
        maintenance.join().unwrap();
    });
    life.take_over(&mut opened, 4).unwrap();
    life.append(&mut opened, &[txns(4, 4..=6, 0)]).unwrap();
    drop(opened);
    for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
        life.check_after(keep, "replaced");
    }
}

/// A removed log and a new one may have the same name; a later purge must not remove the new one.
#[test]
fn k055_reused_log_name_is_not_purged() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "log.");
    life.truncate(&mut opened, zx(1, 6)).unwrap();
    for (zxid, _) in txns(1, 7..=9, 0) {
        opened.log.roll();
        life.append(&mut opened, &[vec![(zxid, 9)]]).unwrap();
    }
    assert!(names(&life.disk, "log.").iter().any(|name| before.contains(name)), "a name is reused");
    for _ in 0..3 {
        _ = opened.store.purge(3, &|| false);
    }
    drop(opened);
    for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
        life.check_after(keep, "cut and continued");
    }
}

/// Snapshots without the logs after them are not taken for the whole history.
#[test]
fn k109_snapshots_without_their_logs_are_quarantined() {
    let (disk, _) = worked();
    for name in names(&disk, "log.") {
        remove(&disk, &name);
    }
    let reason = quarantined(&disk, &MemberOptions::new(1), "without its logs");
    assert!(reason.contains("log."), "{reason}");
}

#[test]
fn k110_second_process_on_a_directory_is_refused() {
    let (life, opened) = with_logs(&[]);
    assert!(matches!(open(&life.disk).map(|_| ()), Err(StoreError::Locked(_))));
    life.end_process(opened);
    assert!(open(&life.disk).is_ok());
}

/// The missing end of an epoch is noticed although the next one starts with a refused request, which has no digest.
#[test]
fn missing_end_of_an_epoch_is_noticed() {
    for refused in 0..3 {
        let (mut life, mut opened) = in_epoch_3();
        life.append(&mut opened, &[txns(1, 1..=4, 0)]).unwrap();
        opened.log.roll();
        life.append(&mut opened, &[txns(1, 5..=8, 0)]).unwrap();
        opened.log.roll();
        let mut state = state_of(&life.txns);
        for counter in 1..=refused + 2 {
            let mut frames = Vec::new();
            if counter <= refused {
                refuse(&mut state, zx(3, counter), &mut frames);
            } else {
                make(&mut state, zx(3, counter), 0, &mut frames);
            }
            _ = opened.log.append(&frames, zx(3, counter), zx(3, counter), 1).unwrap();
            opened.log.sync().unwrap();
        }
        life.end_process(opened);
        assert_eq!(loaded(life.open().unwrap().outcome).state.digest(), state.digest());
        life.disk.restart_process();
        as_apache_writes(&life.disk);
        remove(&life.disk, "log.100000005");
        quarantined(&life.disk, &MemberOptions::new(1), &format!("{refused} refused"));
    }
}

/// The missing end of an epoch is noticed without digests: a log names its predecessor, and records after damage show
/// that something is missing there.
#[test]
fn missing_end_of_an_epoch_is_noticed_without_digests() {
    type Harm = fn(&SimDisk);
    let harms: [(&str, Harm); 3] = [
        ("a bit", |disk| damage(disk, "log.100000001", |bytes| bytes[60] ^= 1)),
        ("the last records", |disk| damage(disk, "log.100000005", |bytes| bytes.truncate(whole_records(bytes, 2)))),
        ("a log", |disk| remove(disk, "log.100000005")),
    ];
    for (harm, damages) in harms {
        let (mut life, mut opened) = in_epoch_3();
        for counters in [1..=4, 5..=8] {
            life.append(&mut opened, &[txns(1, counters, 0)]).unwrap();
            opened.log.roll();
        }
        begin_with_refused(&life, &mut opened);
        life.end_process(opened);
        assert_eq!(loaded(open(&life.disk.fork()).unwrap().outcome).state.last_zxid(), zx(3, 1));
        damages(&life.disk);
        quarantined(&life.disk, &MemberOptions::new(1), harm);
    }
}

/// Apache's logs do not name their predecessor. An unreadable part before them shows that something is missing.
#[test]
fn damage_before_an_epoch_is_noticed_in_apache_logs() {
    let (mut life, mut opened) = in_epoch_3();
    life.append(&mut opened, &[txns(1, 1..=8, 0)]).unwrap();
    opened.log.roll();
    begin_with_refused(&life, &mut opened);
    life.end_process(opened);
    as_apache_writes(&life.disk);
    assert_eq!(loaded(open(&life.disk.fork()).unwrap().outcome).state.last_zxid(), zx(3, 1));
    damage(&life.disk, "log.100000001", |bytes| bytes[60] ^= 1);
    quarantined(&life.disk, &MemberOptions::new(1), "a bit");
}

/// If a start uses a snapshot that the logs do not reach, it moves older ones aside, because the next epoch would
/// appear to follow them.
#[test]
fn damage_to_a_covered_log_retires_older_snapshots() {
    type Harm = fn(&mut Vec<u8>);
    let harms: [(&str, Harm); 3] = [
        ("a bit", |bytes| bytes[60] ^= 1),
        ("a tail that looks torn", |bytes| bytes[200..].fill(0)),
        ("a whole record", |bytes| bytes.truncate(whole_records(bytes, 3))),
    ];
    for (harm, damages) in harms {
        let (mut life, mut opened) = in_epoch_3();
        life.append(&mut opened, &[txns(1, 1..=8, 0)]).unwrap();
        let state = state_of(&life.txns);
        opened.store.write_snapshot(&state.freeze()).unwrap();
        life.end_process(opened);
        remove(&life.disk, "oxk.synced");
        damage(&life.disk, "log.100000001", damages);
        let mut opened = life.open().unwrap();
        let OpenOutcome::Loaded(loaded) = &opened.outcome else { panic!("{harm}: the damage is covered") };
        assert!(loaded.report.warnings.iter().any(|warning| warning.contains("snapshot.0")), "{harm}");
        begin_with_refused(&life, &mut opened);
        life.end_process(opened);
        assert_eq!(crate::lifecycle::loaded(open(&life.disk.fork()).unwrap().outcome).state.digest(), state.digest());
        as_apache_writes(&life.disk);
        remove(&life.disk, "snapshot.100000008");
        quarantined(&life.disk, &MemberOptions::new(1), harm);
    }
}

/// A power cut before the first record of a log: the next start removes the log and leaves the marker, which must not
/// make a later start report a loss.
#[test]
fn marker_may_name_a_removed_log() {
    let (life, mut opened) = with_logs(&[zx(3, 6)]);
    let mut frames = Vec::new();
    opened.log.roll();
    make(&mut state_of(&life.txns), zx(3, 7), 0, &mut frames);
    _ = opened.log.append(&frames, zx(3, 7), zx(3, 7), 1).unwrap();
    drop(opened);
    life.disk.power_on(KeepUnsynced::Nothing);
    for start in ["first", "second"] {
        assert_eq!(loaded(life.open().unwrap().outcome).state.last_zxid(), zx(3, 6), "{start}");
        life.disk.restart_process();
        let marker = Marker::decode(&life.disk.content(&file("oxk.synced")).unwrap()).unwrap();
        assert_eq!((marker.log, marker.last), (zx(3, 7), zx(3, 6)), "{start}");
        assert_eq!(names(&life.disk, "log.300000007"), [""; 0], "{start}");
    }
}

/// A member with current epoch 3 that takes no snapshots by itself.
fn in_epoch_3() -> (Life, OpenedMember) {
    let mut life = Life::new();
    life.options.log.snap_count = 1_000_000;
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    (life, opened)
}

/// Starts epoch 3 with a record without a digest.
fn begin_with_refused(life: &Life, opened: &mut OpenedMember) {
    let mut frames = Vec::new();
    refuse(&mut state_of(&life.txns), zx(3, 1), &mut frames);
    _ = opened.log.append(&frames, zx(3, 1), zx(3, 1), 1).unwrap();
    opened.log.sync().unwrap();
}

/// Removes the predecessor from the headers of all logs.
fn as_apache_writes(disk: &SimDisk) {
    for name in names(disk, "log.") {
        damage(disk, &name, |bytes| bytes[8..16].fill(0));
    }
}

/// The offset after `count` records of a log.
fn whole_records(log: &[u8], count: usize) -> usize {
    (0..count)
        .fold(16, |at, _| at + 13 + usize::try_from(u32::from_be_bytes(*log[at + 8..].first_chunk().unwrap())).unwrap())
}

/// The record of a refused request.
fn refuse(state: &mut State, zxid: Zxid, frames: &mut Vec<u8>) {
    let header = TxnHeader { session: SESSION, cxid: 1, zxid, time_ms: 1, kind: OpCode::Error.code() };
    let record = Record { header, txn: Txn::Error { err: -101 }, digest: None };
    state.replay(&record);
    let mark = begin_log_frame(frames);
    record.put(frames);
    end_log_frame(frames, mark);
}
