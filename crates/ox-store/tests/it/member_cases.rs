//! Known cases of members' files.

use crate::life::{Life, loaded, open, quarantined, state_of, txns, with_logs, worked, zx};
use crate::sim::{damage, file, names, remove};
use crate::workload::{SESSION, make};
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{Record, Txn, TxnHeader};
use ox_proto::{OpCode, Zxid};
use ox_store::disk::{Keep, SimDisk};
use ox_store::marker::Marker;
use ox_store::{Error, MemberOptions, OpenedMember, Standing};
use ox_tree::State;

/// A start applies the whole log, agreed on or not; nothing of that becomes a snapshot, so that the end can still go.
#[test]
fn k024_a_start_makes_nothing_permanent_that_may_have_to_go() {
    let (mut life, opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "snapshot.");
    drop(opened);
    life.disk.restart_process();
    let mut opened = life.open().unwrap();
    assert_eq!(loaded(std::mem::replace(&mut opened.standing, Standing::Empty)).state.last_zxid(), zx(3, 6));
    assert_eq!(names(&life.disk, "snapshot."), before);
    life.truncate(&mut opened, zx(3, 2)).unwrap();
    // A snapshot that was asked for before comes too late.
    let late = opened.store.write_snapshot(&state_of(&[txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat()).freeze());
    assert!(matches!(late, Err(Error::SnapshotAhead { .. })));
    drop(opened);
    life.check_after(Keep::Nothing, "truncated");
}

/// A snapshot that is newer than every record is all that is needed.
#[test]
fn k032_a_snapshot_behind_which_nothing_is_logged() {
    let (mut life, mut opened) = with_logs(&[]);
    life.accept(&mut opened, 4).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 7)).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    assert_eq!(names(&life.disk, "log."), [""; 0]);
    drop(opened);
    life.check_after(Keep::Nothing, "only a snapshot");
}

/// The second snapshot of a leader takes the place of the first.
#[test]
fn k033_two_snapshots_shortly_after_each_other() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5)]);
    life.accept(&mut opened, 4).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 7)).unwrap();
    life.install(&mut opened, txns(4, 1..=3, 8)).unwrap();
    life.install(&mut opened, [txns(4, 1..=3, 8), txns(4, 4..=9, 2)].concat()).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    life.append(&mut opened, &[txns(4, 10..=12, 0)]).unwrap();
    drop(opened);
    for keep in [Keep::Nothing, Keep::Everything] {
        life.check_after(keep, "the last one counts");
    }
}

/// Purging and snapshots of other threads do not get in the way of a history that is replaced.
#[test]
fn k034_nobody_else_works_on_the_files_while_they_are_replaced() {
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
    for keep in [Keep::Nothing, Keep::Everything] {
        life.check_after(keep, "replaced");
    }
}

/// A log that was cut away and one that is begun in its place have one name: whatever is removed later, it is not that.
#[test]
fn k055_a_name_that_is_used_again() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "log.");
    life.truncate(&mut opened, zx(1, 6)).unwrap();
    for (zxid, _) in txns(1, 7..=9, 0) {
        opened.log.roll();
        life.append(&mut opened, &[vec![(zxid, 9)]]).unwrap();
    }
    assert!(names(&life.disk, "log.").iter().any(|name| before.contains(name)), "a name is used again");
    for _ in 0..3 {
        _ = opened.store.purge(3, &|| false);
    }
    drop(opened);
    for keep in [Keep::Nothing, Keep::Everything] {
        life.check_after(keep, "cut and continued");
    }
}

/// Snapshots without the logs that were written behind them are not taken for the whole history.
#[test]
fn k109_snapshots_without_their_logs() {
    let (disk, _) = worked();
    for name in names(&disk, "log.") {
        remove(&disk, &name);
    }
    let reason = quarantined(&disk, &MemberOptions::new(1), "without its logs");
    assert!(reason.contains("log."), "{reason}");
}

#[test]
fn k110_two_processes_on_one_directory() {
    let (life, opened) = with_logs(&[]);
    assert!(matches!(open(&life.disk).map(|_| ()), Err(Error::Locked(_))));
    drop(opened);
    life.disk.restart_process();
    assert!(open(&life.disk).is_ok());
}

/// The end of an epoch is missed although the next one begins with a request that was refused, and so without a digest.
#[test]
fn the_end_of_an_epoch_that_is_lost() {
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
        drop(opened);
        life.disk.restart_process();
        assert_eq!(loaded(life.open().unwrap().standing).state.digest(), state.digest());
        life.disk.restart_process();
        as_apache_writes(&life.disk);
        remove(&life.disk, "log.100000005");
        quarantined(&life.disk, &MemberOptions::new(1), &format!("{refused} refused"));
    }
}

/// The end of an epoch is missed although no digest tells: a log says what it comes behind, and records behind a damaged
/// place show that something is missing there.
#[test]
fn the_end_of_an_epoch_that_no_digest_tells_of() {
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
        drop(opened);
        life.disk.restart_process();
        assert_eq!(loaded(open(&life.disk.fork()).unwrap().standing).state.last_zxid(), zx(3, 1));
        damages(&life.disk);
        quarantined(&life.disk, &MemberOptions::new(1), harm);
    }
}

/// A log of Apache's does not say what it comes behind. Records that cannot be read before it tell that something is missing.
#[test]
fn damage_before_an_epoch_that_nothing_else_tells_of() {
    let (mut life, mut opened) = in_epoch_3();
    life.append(&mut opened, &[txns(1, 1..=8, 0)]).unwrap();
    opened.log.roll();
    begin_with_refused(&life, &mut opened);
    drop(opened);
    life.disk.restart_process();
    as_apache_writes(&life.disk);
    assert_eq!(loaded(open(&life.disk.fork()).unwrap().standing).state.last_zxid(), zx(3, 1));
    damage(&life.disk, "log.100000001", |bytes| bytes[60] ^= 1);
    quarantined(&life.disk, &MemberOptions::new(1), "a bit");
}

/// A start that goes on from a snapshot which the logs do not reach leaves no older one: behind it the next epoch would seem
/// to follow.
#[test]
fn damage_to_a_covered_log_takes_older_snapshots_along() {
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
        drop(opened);
        life.disk.restart_process();
        remove(&life.disk, "oxk.synced");
        damage(&life.disk, "log.100000001", damages);
        let mut opened = life.open().unwrap();
        let Standing::Loaded(loaded) = &opened.standing else { panic!("{harm}: it is covered") };
        assert!(loaded.report.warnings.iter().any(|warning| warning.contains("snapshot.0")), "{harm}");
        begin_with_refused(&life, &mut opened);
        drop(opened);
        life.disk.restart_process();
        assert_eq!(crate::life::loaded(open(&life.disk.fork()).unwrap().standing).state.digest(), state.digest());
        as_apache_writes(&life.disk);
        remove(&life.disk, "snapshot.100000008");
        quarantined(&life.disk, &MemberOptions::new(1), harm);
    }
}

/// A power cut before the first record of a log: the next start removes the log and leaves the marker, which is no reason
/// for a later one to miss anything.
#[test]
fn a_marker_may_name_a_log_that_is_gone() {
    let (life, mut opened) = with_logs(&[zx(3, 6)]);
    let mut frames = Vec::new();
    opened.log.roll();
    make(&mut state_of(&life.txns), zx(3, 7), 0, &mut frames);
    _ = opened.log.append(&frames, zx(3, 7), zx(3, 7), 1).unwrap();
    drop(opened);
    life.disk.power_on(Keep::Nothing);
    for start in ["first", "second"] {
        assert_eq!(loaded(life.open().unwrap().standing).state.last_zxid(), zx(3, 6), "{start}");
        life.disk.restart_process();
        let marker = Marker::decode(&life.disk.content(&file("oxk.synced")).unwrap()).unwrap();
        assert_eq!((marker.log, marker.last), (zx(3, 7), zx(3, 6)), "{start}");
        assert_eq!(names(&life.disk, "log.300000007"), [""; 0], "{start}");
    }
}

/// A member that has taken over epoch 3, and makes no snapshots by itself.
fn in_epoch_3() -> (Life, OpenedMember) {
    let mut life = Life::new();
    life.options.log.snap_count = 1_000_000;
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    (life, opened)
}

/// Begins the records of epoch 3 with one that has no digest.
fn begin_with_refused(life: &Life, opened: &mut OpenedMember) {
    let mut frames = Vec::new();
    refuse(&mut state_of(&life.txns), zx(3, 1), &mut frames);
    _ = opened.log.append(&frames, zx(3, 1), zx(3, 1), 1).unwrap();
    opened.log.sync().unwrap();
}

/// Makes logs say nothing of what they come behind.
fn as_apache_writes(disk: &SimDisk) {
    for name in names(disk, "log.") {
        damage(disk, &name, |bytes| bytes[8..16].fill(0));
    }
}

/// Where the record `count` of a log ends.
fn whole_records(log: &[u8], count: usize) -> usize {
    (0..count)
        .fold(16, |at, _| at + 13 + usize::try_from(u32::from_be_bytes(*log[at + 8..].first_chunk().unwrap())).unwrap())
}

/// A record as it is made for a request that was refused.
fn refuse(state: &mut State, zxid: Zxid, frames: &mut Vec<u8>) {
    let header = TxnHeader { session: SESSION, cxid: 1, zxid, time_ms: 1, kind: OpCode::Error.code() };
    let record = Record { header, txn: Txn::Error { err: -101 }, digest: None };
    state.replay(&record);
    let mark = begin_log_frame(frames);
    record.put(frames);
    end_log_frame(frames, mark);
}
