//! The start of an ensemble member: epochs, identity, empty directories, damage.

use crate::lifecycle::{
    Life, Txns, cut_power_everywhere, cut_power_twice, fail_everywhere, loaded, open, open_with, quarantined, state_of,
    txns, with_logs, worked, zx,
};
use crate::sim_stores::{damage, file, golden, names, options, remove};
use crate::workload::make;
use ox_proto::Zxid;
use ox_store::disk::{DiskFault, KeepUnsynced, SimDisk};
use ox_store::marker::Marker;
use ox_store::{Loaded, MemberLog, MemberOptions, OnDamage, OpenOutcome, Store, StoreError, StoredEpochs};
use ox_tree::TreeOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

#[test]
fn k004_following_survives_power_cuts_and_failing_calls() {
    let start = Life::new();
    cut_power_everywhere(&start, Life::follow, 1_000);
    cut_power_twice(&start, Life::follow);
    fail_everywhere(&start, Life::follow);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    fail_everywhere(&split, Life::follow);
}

/// After an error the contents of the files are unknown: no epoch is stored, and nothing is truncated or installed.
#[test]
fn jobs_after_a_failed_job_are_refused() {
    type Job = fn(&mut MemberLog) -> Result<(), StoreError>;
    let jobs: [(&str, Job); 4] = [
        ("a promise", |log| log.set_accepted(6)),
        ("an epoch", |log| log.set_current(5)),
        ("a cut", |log| log.truncate(zx(1, 6)).map(drop)),
        ("a leader's state", |log| log.install(&state_of(&txns(5, 1..=2, 7)).freeze()).map(drop)),
    ];
    for (job, work) in jobs {
        for call in 1.. {
            let (mut life, mut opened) = with_logs(&[zx(1, 5)]);
            life.accept(&mut opened, 5).unwrap();
            let reached = life.disk.calls() + call;
            life.disk.set_fault(reached, DiskFault::Error(ErrorKind::PermissionDenied));
            if work(&mut opened.log).is_ok() {
                assert!(1 < call, "{job} asks the disk");
                if life.disk.calls() < reached {
                    break;
                }
                continue; // the failure of an optional file
            }
            life.disk.clear_faults();
            for (next, work) in jobs {
                assert!(
                    matches!(work(&mut opened.log), Err(StoreError::LogFailed)),
                    "{next} behind {job}, call {call}"
                );
            }
            assert!(matches!(opened.log.sync(), Err(StoreError::LogFailed)), "{job}, call {call}");
        }
    }
}

fn set(disk: &SimDisk, name: &str, content: &str) {
    disk.install(&file(name), content.as_bytes());
}

fn read(disk: &SimDisk, name: &str) -> Option<String> {
    disk.content(&file(name)).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn member_starts_with_files_of_apache() {
    for (number, epochs) in [(1, (3, 3)), (2, (3, 3)), (3, (3, 3))] {
        let (disk, expected) = golden(&format!("g-ensemble/{number}"));
        let before: Vec<_> = names(&disk, "").into_iter().map(|name| (disk.content(&file(&name)), name)).collect();
        let opened = open_with(&disk, &options(), &MemberOptions::new(number)).unwrap();
        let found = opened.log.epochs();
        assert_eq!((found.accepted, found.current), epochs);
        let loaded = loaded(opened.outcome);
        crate::expected::check_state(&loaded.state, &expected, &format!("member {number}"));
        assert_eq!(loaded.recent_txns.last().map(|logged| logged.zxid), Some(loaded.state.last_zxid()));
        assert!(loaded.report.dropped.is_none());
        // The start has written only our own marker files; the last log lost its zeros.
        for (content, name) in before {
            let after = disk.content(&file(&name)).unwrap();
            assert!(content.unwrap().starts_with(&after), "{name}");
        }
    }
}

#[test]
fn recent_txns_equal_the_proposals() {
    let (disk, txns) = worked();
    for (recent_max, found) in [(500, 6), (4, 4)] {
        let member = MemberOptions { recent_max, ..MemberOptions::new(1) };
        let loaded = loaded(open_with(&disk.fork(), &options(), &member).unwrap().outcome);
        assert_eq!(loaded.recent_txns.len(), found, "a snapshot covers the rest");
        check_recent_txns(&loaded, &txns);
    }
}

fn check_recent_txns(loaded: &Loaded, txns: &[(Zxid, u8)]) {
    for (logged, (zxid, salt)) in loaded.recent_txns.iter().rev().zip(txns.iter().rev()) {
        let before: Txns = txns.iter().filter(|(other, _)| other < zxid).copied().collect();
        let mut frame = Vec::new();
        make(&mut state_of(&before), *zxid, *salt, &mut frame);
        assert_eq!((logged.zxid, &logged.record[..]), (*zxid, &frame[12..frame.len() - 1]));
    }
}

/// Another server's directory is refused unchanged (K58).
#[test]
fn k058_directory_of_another_server_is_refused() {
    let (disk, _) = worked();
    let before = names(&disk, "");
    let Err(error) = open_with(&disk, &options(), &MemberOptions::new(2)) else { panic!("opened") };
    assert!(matches!(error, StoreError::OtherServer { found: 1, server: 2, .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert_eq!(names(&disk, ""), before);
    set(&disk, "oxk.identity", "garbage");
    assert!(open(&disk).is_ok(), "its own directory");
    assert_eq!(read(&disk, "oxk.identity").as_deref(), Some("1"));
}

/// As in Apache, the first snapshot contains the configuration, which an Apache server with our files then shows.
#[test]
fn first_snapshot_of_a_member_contains_the_configuration() {
    let disk = SimDisk::new();
    let text = "server.1=127.0.0.1:2888:3888:participant\nversion=0";
    let member = MemberOptions { config: Some((text.to_owned(), 0)), ..MemberOptions::new(1) };
    let founded = open_with(&disk, &options(), &member).unwrap().log.initialize().unwrap();
    assert_eq!(founded.state.config(), Some(text.as_bytes()));
    assert_eq!(founded.report.snapshot, Some(file("snapshot.0")));
}

/// An empty directory gives no vote, unless the operator has created the `initialize` marker (K57).
#[test]
fn k057_empty_member_abstains() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let opened = open(&disk).unwrap();
        assert!(matches!(opened.outcome, OpenOutcome::Empty));
        let error = opened.store.write_snapshot(&state_of(&[]).freeze()).unwrap_err();
        assert!(matches!(error, StoreError::NotSynced), "{error}");
        assert_eq!(names(&disk, "snapshot."), [""; 0]);
        assert_eq!(names(&disk, "acceptedEpoch"), [""; 0]);
    }
    let mut opened = open(&disk).unwrap();
    assert_eq!(opened.log.initialize().unwrap().state.last_zxid(), Zxid::ZERO);
    assert_eq!(names(&disk, "snapshot."), ["snapshot.0"]);
    drop(opened);
    disk.power_on(KeepUnsynced::Nothing);
    assert_eq!(loaded(open(&disk).unwrap().outcome).state.last_zxid(), Zxid::ZERO);
    for dir in ["/srv/zk/initialize", "/logs/initialize"] {
        let (disk, mut options) = (SimDisk::new(), options());
        options.log_dir = Some("/logs".into());
        disk.install(Path::new(dir), b"");
        let opened = open_with(&disk, &options, &MemberOptions::new(1)).unwrap();
        assert_eq!(loaded(opened.outcome).state.last_zxid(), Zxid::ZERO, "{dir}");
        assert!(disk.content(Path::new(dir)).is_none());
    }
}

/// Epochs without a history mean that the history was lost; no setting of the operator overrides this (K57).
#[test]
fn k057_member_with_lost_history_is_quarantined() {
    let (disk, _) = worked();
    names(&disk, "log.").iter().chain(&names(&disk, "snapshot.")).for_each(|name| remove(&disk, name));
    remove(&disk, "oxk.synced");
    disk.install(Path::new("/srv/zk/initialize"), b"");
    let reason = quarantined(&disk, &MemberOptions::new(1), "wiped");
    assert!(reason.contains("lost"), "{reason}");
}

#[test]
fn k049_inconsistent_epoch_files_are_quarantined() {
    let (disk, txns) = worked();
    assert_eq!(txns.last(), Some(&(zx(4, 8), 0)));
    type Change = fn(&SimDisk);
    let changes: [(&str, Change); 6] = [
        ("both missing", |disk| ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| remove(disk, name))),
        ("accepted missing", |disk| remove(disk, "acceptedEpoch")),
        ("current missing", |disk| remove(disk, "currentEpoch")),
        ("accepted empty", |disk| set(disk, "acceptedEpoch", "")),
        ("accepted below current", |disk| set(disk, "acceptedEpoch", "3")),
        ("never accepted", |disk| ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| set(disk, name, "3"))),
    ];
    for (what, change) in changes {
        let disk = disk.fork();
        change(&disk);
        let exit = MemberOptions { on_damage: OnDamage::Exit, ..MemberOptions::new(1) };
        let Err(error) = open_with(&disk.fork(), &options(), &exit) else { panic!("{what}: opened") };
        assert!(
            matches!(error, StoreError::Epochs { .. }) && error.is_damage() && error.exit_code() == 1,
            "{what}: {error}"
        );
        let accept = MemberOptions { on_damage: OnDamage::Accept, ..MemberOptions::new(1) };
        let accepted = open_with(&disk.fork(), &options(), &accept).unwrap();
        let in_doubt = ["both missing", "current missing"].contains(&what);
        assert_eq!(matches!(accepted.outcome, OpenOutcome::Loaded(_)), in_doubt, "{what}");
        let before: Vec<_> = names(&disk, "").into_iter().filter(|name| !name.starts_with("oxk.")).collect();
        quarantined(&disk, &MemberOptions::new(1), what);
        // The operator can accept it later, too, once.
        let noted = disk.fork();
        let accepted = open_with(&noted, &options(), &accept).unwrap();
        assert_eq!(matches!(accepted.outcome, OpenOutcome::Loaded(_)), in_doubt, "{what}");
        drop(accepted);
        let again = open(&noted).unwrap();
        assert_eq!(matches!(again.outcome, OpenOutcome::Loaded(_)), in_doubt, "{what}");
        drop(again);
        // The recorded quarantine counts, even if the damage is no longer visible.
        ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| set(&disk, name, "4"));
        disk.power_on(KeepUnsynced::Nothing);
        quarantined(&disk, &MemberOptions::new(1), "the note");
        let after: Vec<_> = names(&disk, "").into_iter().filter(|name| !name.starts_with("oxk.")).collect();
        assert!(before.iter().all(|name| after.contains(name)), "{what}: nothing was touched");
    }
}

/// The server crashed between history and epoch (K48).
#[test]
fn k048_epoch_is_raised_to_a_newer_history() {
    for (tmp, expected) in [(None, 4), (Some("5"), 5), (Some("6"), 4), (Some("x"), 4)] {
        let (disk, _) = worked();
        set(&disk, "acceptedEpoch", "5");
        set(&disk, "currentEpoch", "3");
        tmp.into_iter().for_each(|text| set(&disk, "currentEpoch.tmp", text));
        set(&disk, "updatingEpoch", "");
        let opened = open(&disk).unwrap();
        assert_eq!(opened.log.epochs(), StoredEpochs { accepted: 5, current: expected }, "{tmp:?}");
        assert_eq!(read(&disk, "currentEpoch"), Some(expected.to_string()));
        assert_eq!(names(&disk, "updatingEpoch"), [""; 0]);
        assert_eq!(names(&disk, "currentEpoch.tmp"), [""; 0]);
    }
}

/// A standalone server refuses damaged logs and snapshots; a member is quarantined and changes nothing.
#[test]
fn member_with_damage_is_quarantined() {
    let (disk, _) = worked();
    let log = names(&disk, "log.").pop().unwrap();
    let damaged = disk.fork();
    damage(&damaged, &log, |bytes| bytes[40] ^= 1);
    let before: Vec<_> = names(&damaged, "").into_iter().map(|name| (damaged.content(&file(&name)), name)).collect();
    let mut opened = open(&damaged).unwrap();
    let OpenOutcome::Quarantined(quarantine) = &opened.outcome else { panic!("not quarantined") };
    assert!(quarantine.reason.contains(&log), "{}", quarantine.reason);
    assert_eq!(opened.log.epochs().accepted, 4, "the accepted epoch is intact");
    for (content, name) in before {
        assert!(name.starts_with("oxk.") || damaged.content(&file(&name)) == content, "{name} was touched");
    }
    assert!(opened.store.purge(3, &|| false).unwrap().removed.is_empty());
    opened.log.end_quarantine().unwrap();
    drop(opened);
    damaged.power_on(KeepUnsynced::Nothing);
    assert_eq!(names(&damaged, "oxk.quarantine"), [""; 0]);
    let standalone = Store::open(Arc::new(damaged.clone()), &options(), &TreeOptions::default(), 3);
    assert!(standalone.is_err_and(|error| error.is_damage()));
}

/// A tail that a standalone server truncates, as Apache does, may have been acknowledged to a leader.
#[test]
fn member_does_not_truncate_a_doubtful_tail() {
    let (disk, _) = worked();
    remove(&disk, "oxk.synced");
    let log = names(&disk, "log.").pop().unwrap();
    let (mut torn, mut doubtful) = (0, 0);
    for block in 0..disk.content(&file(&log)).unwrap().len() / 512 {
        let disk = disk.fork();
        damage(&disk, &log, |bytes| bytes[block * 512..][..512].fill(0));
        let standalone = Store::open(Arc::new(disk.fork()), &options(), &TreeOptions::default(), 3);
        let Ok(standalone) = standalone else { continue };
        let Some(dropped) = standalone.report.dropped else { continue };
        let accept = MemberOptions { on_damage: OnDamage::Accept, ..MemberOptions::new(1) };
        let accepted = loaded(open_with(&disk.fork(), &options(), &accept).unwrap().outcome);
        assert_eq!(accepted.state.last_zxid(), standalone.state.last_zxid());
        let outcome = open(&disk).unwrap().outcome;
        assert_eq!(matches!(outcome, OpenOutcome::Quarantined(_)), dropped.last.is_some(), "block {block}");
        (torn, doubtful) = (torn + 1, doubtful + usize::from(dropped.last.is_some()));
    }
    assert!(0 < doubtful && doubtful < torn, "{doubtful} of {torn}");
}

/// The logs before a leader's snapshot may belong to a replaced history: they are no substitute for it.
#[test]
fn older_snapshot_needs_proof() {
    let mut life = Life::new();
    life.options.log.snap_count = 1_000_000;
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    life.append(&mut opened, &[txns(1, 1..=5, 0)]).unwrap();
    let logged = opened.store.write_snapshot(&state_of(&life.txns).freeze()).is_ok();
    let mut other = state_of(&[txns(1, 1..=5, 0), txns(2, 1..=2, 0)].concat());
    other.set_last_zxid(zx(3, 0));
    opened.store.write_snapshot(&other.freeze()).unwrap();
    life.end_process(opened);
    assert!(logged);
    let last = |disk: &SimDisk| loaded(open_with(disk, &life.options, &MemberOptions::new(1)).unwrap().outcome);
    assert_eq!(last(&life.disk.fork()).state.last_zxid(), zx(3, 0));
    // The logs make up for a broken snapshot at a record, but not for one at the start of an epoch.
    let disk = life.disk.fork();
    remove(&disk, "snapshot.300000000");
    damage(&disk, "snapshot.100000005", |bytes| bytes[100] ^= 1);
    assert_eq!(last(&disk).state.last_zxid(), zx(1, 5));
    damage(&life.disk, "snapshot.300000000", |bytes| bytes[100] ^= 1);
    quarantined(&life.disk, &MemberOptions::new(1), "a history that was given up");
}

/// The snapshot contains parts of transactions that the log does not have.
#[test]
fn snapshot_ahead_of_the_log_is_completed_by_the_leader() {
    let mut fuzzy = state_of(&txns(1, 1..=7, 0));
    fuzzy.set_last_zxid(zx(1, 7));
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=7, 0)]).unwrap();
    opened.store.write_snapshot(&fuzzy.freeze()).unwrap();
    life.end_process(opened);
    // As Apache leaves it: named by the zxid at its start, and the log lacks the rest.
    let bytes = life.disk.content(&file("snapshot.100000007")).unwrap();
    remove(&life.disk, "snapshot.100000007");
    remove(&life.disk, "snapshot.0");
    remove(&life.disk, "log.100000001");
    remove(&life.disk, "oxk.synced");
    life.disk.install(&file("snapshot.100000005"), &bytes);
    let opened = life.open().unwrap();
    let store = opened.store.clone();
    let mut loaded = loaded(opened.outcome);
    assert_eq!((loaded.state.last_zxid(), loaded.reach), (zx(1, 5), zx(1, 7)));
    let error = store.write_snapshot(&loaded.state.freeze()).unwrap_err();
    assert!(matches!(error, StoreError::SnapshotBehind { .. }), "{error}");
    // The leader sends the rest.
    let mut frames = Vec::new();
    for (zxid, salt) in txns(1, 6..=7, 0) {
        make(&mut loaded.state, zxid, salt, &mut frames);
    }
    assert_eq!(loaded.state.digest(), fuzzy.digest());
    let error = store.write_snapshot(&loaded.state.freeze()).unwrap_err();
    assert!(matches!(error, StoreError::SnapshotAhead { .. }), "{error}");
}

/// As after an upgrade from a release that wrote no snapshot of the empty tree. The replayed records may still have to
/// be truncated, so the snapshot must not contain them.
#[test]
fn member_that_replays_from_the_beginning_has_a_snapshot_when_it_is_loaded() {
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=3, 0), txns(1, 4..=5, 0)]).unwrap();
    life.end_process(opened);
    names(&life.disk, "snapshot.").iter().for_each(|name| remove(&life.disk, name));
    quarantined(&life.disk.fork(), &MemberOptions::new(1), "no snapshot");

    let mut trusting = options();
    trusting.trust_empty = true;
    let found = loaded(open_with(&life.disk, &trusting, &MemberOptions::new(1)).unwrap().outcome);
    assert_eq!(found.state.last_zxid(), zx(1, 5));
    assert_eq!(names(&life.disk, "snapshot."), ["snapshot.0"]);
    life.disk.restart_process();
    let mut opened = life.open().unwrap();
    let found = loaded(std::mem::replace(&mut opened.outcome, OpenOutcome::Empty));
    assert_eq!(found.state.digest(), state_of(&life.txns).digest());
    life.truncate(&mut opened, zx(1, 3)).unwrap();
    life.end_process(opened);
    life.check_start("truncated");
}

/// The first log of an epoch was created, and is lost together with the epoch files before it has a record.
#[test]
fn member_whose_first_log_and_epochs_are_lost_is_quarantined() {
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    let marker = Marker { log: zx(1, 1), position: 16, ..Marker::default() };
    life.end_process(opened);
    ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| remove(&life.disk, name));
    loaded(open(&life.disk.fork()).unwrap().outcome);
    life.disk.install(&file("oxk.synced"), &marker.encode());
    quarantined(&life.disk, &MemberOptions::new(1), "epochs lost");
}
