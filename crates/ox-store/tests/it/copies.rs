//! Copied directories: a copy made while the server ran may lack its end, but nothing else; a member does not use it.

use crate::lifecycle::{Life, Txns, loaded, open_with as open_member, quarantined, state_of, txns, zx};
use crate::sim_stores::{ROOT, damage, file, names, open, open_with, options, remove};
use crate::workload::{History, model, run};
use ox_proto::Zxid;
use ox_store::disk::{Disk, DiskFault, FileIdentity, OpenMode, RealDisk, SimDisk};
use ox_store::marker::{MARKER_NAME, Marker};
use ox_store::{MemberOptions, OnDamage, OpenOutcome, Opened, Store, StoreError, StoreOptions};
use ox_tree::TreeOptions;
use std::path::Path;
use std::sync::Arc;

/// A copy of all files, in place of the originals. `pick` chooses the moment at which a file is copied; a file that is
/// gone by then is left out.
fn copy<'a>(listed: &SimDisk, mut pick: impl FnMut(&Path) -> &'a SimDisk) -> SimDisk {
    let copy = listed.fork();
    copy.restart_process();
    copy.power_on(ox_store::disk::KeepUnsynced::Everything);
    copy.clear_faults();
    for path in listed.files() {
        copy.lose(&path);
        if let Some(bytes) = pick(&path).content(&path) {
            copy.install(&path, &bytes);
        }
    }
    copy
}

fn copy_at_once(disk: &SimDisk) -> SimDisk {
    copy(disk, |_| disk)
}

/// A standalone server that has run the batches and is still running, or was stopped.
fn served(batches: &[usize], stops: bool) -> (SimDisk, Zxid) {
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    run(&mut opened, batches, &mut History::default()).unwrap();
    let last = opened.state.last_zxid();
    if stops {
        opened.log.close().unwrap();
    }
    disk.restart_process();
    (disk, last)
}

fn newest_log(disk: &SimDisk) -> String {
    let first = |name: &String| i64::from_str_radix(&name[4..], 16).unwrap();
    names(disk, "log.").into_iter().max_by_key(first).unwrap()
}

fn warnings(opened: &Opened) -> Vec<&String> {
    opened.report.warnings.iter().filter(|line| line.contains("is a copy of a running server")).collect()
}

#[test]
fn standalone_on_a_copy_without_its_end_starts_with_a_warning() {
    let (early, copied) = served(&[4], false);
    let (late, reached) = served(&[4, 2], false);
    let disk = copy(&early, |path| if path.ends_with(MARKER_NAME) { &late } else { &early });
    let opened = open(&disk).unwrap();
    assert_eq!((opened.state.last_zxid(), opened.state.digest()), (copied, model(copied).digest()));
    let [warning] = warnings(&opened)[..] else { panic!("{:?}", opened.report.warnings) };
    assert!(warning.contains(&format!("ends at {copied}")) && warning.contains(&reached.to_string()), "{warning}");
    drop(opened);
    disk.restart_process();

    // It is an independent directory now, and protected like any other.
    let mut opened = open(&disk).unwrap();
    assert_eq!(warnings(&opened).len(), 0);
    run(&mut opened, &[3, 3], &mut History::default()).unwrap();
    drop(opened);
    disk.restart_process();
    remove(&disk, &newest_log(&disk));
    assert!(matches!(open(&disk), Err(StoreError::NoUsableSnapshot(_))), "records synced since are missing");
}

#[test]
fn standalone_on_a_copy_with_a_gap_is_refused_with_a_remedy() {
    let (early, _) = served(&[4, 1], false);
    let (late, _) = served(&[4, 1, 3, 6, 6], false);
    assert!(2 <= names(&late, "log.").len(), "the log was rolled");
    let gap = copy(&late, |path| if path == file("log.1") { &early } else { &late });
    for name in names(&gap, "snapshot.").iter().filter(|name| *name != "snapshot.0") {
        remove(&gap, name);
    }
    let error = open(&gap).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::CopyBroken { .. }) && error.is_damage(), "{error}");
    assert!(error.to_string().contains("are missing: "), "{error}");
    assert_eq!(error.remedy(), Some("copy the directory again"));
    let rescue = StoreOptions { allow_gaps: true, ..options() };
    open_with(&gap, &rescue).unwrap();
}

/// In the copy of a growing log there may be zeros where records were written after the copy had passed.
#[test]
fn standalone_on_a_copy_truncates_its_log_at_the_first_gap_within_a_batch() {
    let (disk, last) = served(&[3, 3], false);
    let copied = copy_at_once(&disk);
    let log = newest_log(&disk);
    let bytes = disk.content(&file(&log)).unwrap();
    let marker = Marker::decode(&disk.content(&file(MARKER_NAME)).unwrap()).unwrap();
    assert!(1024 < marker.position && marker.last == last);
    damage(&copied, &log, |copied| copied[512..1024].fill(0));
    let opened = open(&copied).unwrap();
    assert!(opened.state.last_zxid() < last && opened.report.dropped.is_some());
    // In the original these bytes were synced.
    disk.damage(&file(&log), |bytes| bytes[512..1024].fill(0));
    assert!(open(&disk).is_err());
    disk.damage(&file(&log), |now| now.clone_from(&bytes));
    assert_eq!(open(&disk).unwrap().state.last_zxid(), last);
}

/// A server's disk at every call of its work; the last one after it has stopped.
fn moments(work: impl Fn(&SimDisk, u64) -> bool) -> Vec<SimDisk> {
    let mut moments = Vec::new();
    for call in 1.. {
        let disk = SimDisk::new();
        let is_done = work(&disk, call);
        moments.push(disk);
        if is_done {
            break;
        }
    }
    moments
}

/// Copies that start at one moment and end at a later one, with each file copied at a moment in between.
fn hot_copies(moments: &[SimDisk], mut check: impl FnMut(usize, usize, &SimDisk)) {
    let has_marker = |disk: &SimDisk| disk.content(&file(MARKER_NAME)).is_some_and(|bytes| !bytes.is_empty());
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |bound: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % bound
    };
    let begun = moments.iter().position(has_marker).unwrap();
    for from in begun..moments.len() {
        for _ in 0..6 {
            let to = from + below((moments.len() - from).min(60));
            let copied = copy(&moments[from], |_| &moments[from + below(to - from + 1)]);
            check(from, to, &copied);
        }
    }
}

#[test]
fn standalone_on_any_copy_has_the_state_at_its_start_or_refuses() {
    let acked = std::cell::RefCell::new(Vec::new());
    let moments = moments(|disk, call| {
        let mut history = History::default();
        disk.set_fault(call, DiskFault::PowerCut);
        let worked = open(disk).and_then(|mut opened| {
            run(&mut opened, &[4, 2, 5, 3, 6, 6, 2, 7], &mut history)?;
            opened.log.close()
        });
        acked.borrow_mut().push(history.acked);
        worked.is_ok()
    });
    let (mut started, mut refused) = (0, 0);
    hot_copies(&moments, |from, to, copied| match open(copied) {
        Ok(opened) => {
            let last = opened.state.last_zxid();
            assert!(acked.borrow()[from] <= last, "{from} to {to}: ends at {last}");
            assert_eq!(opened.state.digest(), model(last).digest(), "{from} to {to}: another state at {last}");
            started += 1;
        }
        Err(error) => {
            assert_eq!(error.remedy(), Some("copy the directory again"), "{from} to {to}: {error}");
            refused += 1;
        }
    });
    assert!(500 < started && refused * 20 < started, "{started} started, {refused} were refused");
}

#[test]
fn member_on_any_copy_of_a_running_server_is_quarantined() {
    type Work = fn(&mut Life) -> Result<(), StoreError>;
    let lives: [Work; 3] = [Life::follow, Life::be_cut, Life::be_replaced];
    for work in lives {
        let mut done = Life::new();
        work(&mut done).unwrap();
        let mut moments: Vec<SimDisk> = Vec::new();
        for call in 1.. {
            let Some(life) = Life::new().until(call, DiskFault::PowerCut, work) else { break };
            moments.push(life.disk);
        }
        moments.push(done.disk.clone());
        let (mut waiting, mut moved) = (0, 0);
        hot_copies(&moments, |from, to, copied| {
            let opened = open_member(copied, &options(), &MemberOptions::new(1)).unwrap();
            match opened.outcome {
                OpenOutcome::Quarantined(_) => waiting += 1,
                OpenOutcome::Empty => panic!("{from} to {to}: empty"),
                // It is complete after the clean stop.
                OpenOutcome::Loaded(_) => {
                    copied.restart_process();
                    let life = Life { disk: copied.clone(), ..done.fork() };
                    life.check_start(&format!("{from} to {to}"));
                    moved += 1;
                }
            }
        });
        assert!(500 < waiting && 5 < moved, "{waiting} wait for a leader, {moved} were moved");
    }
}

#[test]
fn member_on_a_copy_is_loaded_after_a_leader_has_synchronised_it() {
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=4, 0)]).unwrap();
    let member = MemberOptions::new(1);
    let disk = copy_at_once(&life.disk);
    let reason = quarantined(&disk, &member, "a copy");
    assert!(reason.contains("it ends at") && reason.contains(&zx(1, 4).to_string()), "{reason}");
    disk.restart_process();

    // A stop does not change that.
    let opened = open_member(&disk, &options(), &member).unwrap();
    opened.log.close().unwrap();
    drop((opened.store, opened.outcome));
    disk.restart_process();
    disk.lose(&file("oxk.quarantine"));
    quarantined(&disk, &member, "a copy whose note is lost");
    disk.restart_process();

    let history: Txns = [txns(1, 1..=4, 0), txns(2, 1..=2, 0)].concat();
    let mut opened = open_member(&disk, &options(), &member).unwrap();
    opened.log.set_accepted(2).unwrap();
    opened.log.install(&state_of(&history).freeze()).unwrap();
    opened.log.set_current(2).unwrap();
    opened.log.end_quarantine().unwrap();
    drop(opened);
    disk.restart_process();
    let found = loaded(open_member(&disk, &options(), &member).unwrap().outcome);
    assert_eq!(found.state.digest(), state_of(&history).digest());
}

#[test]
fn member_on_a_copy_accepted_by_the_operator_is_loaded() {
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=4, 0)]).unwrap();
    let early = life.disk.fork();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    life.append(&mut opened, &[txns(3, 1..=2, 0)]).unwrap();
    // The epoch files were copied first.
    let disk = copy(&life.disk, |path| if path.to_string_lossy().ends_with("Epoch") { &early } else { &life.disk });
    quarantined(&disk.fork(), &MemberOptions::new(1), "a copy");
    let exit = MemberOptions { on_damage: OnDamage::Exit, ..MemberOptions::new(1) };
    let error = open_member(&disk.fork(), &options(), &exit).map(|_| ()).unwrap_err();
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("onDamage=accept")), "{error}");

    let vouched = MemberOptions { on_damage: OnDamage::Accept, ..MemberOptions::new(1) };
    quarantined(&disk, &MemberOptions::new(1), "a copy");
    disk.restart_process();
    let opened = open_member(&disk, &options(), &vouched).unwrap();
    let epochs = opened.log.epochs();
    assert_eq!((epochs.accepted, epochs.current), (3, 3));
    let found = loaded(opened.outcome);
    assert_eq!(found.state.digest(), state_of(&life.txns).digest());
    assert!(found.report.warnings.iter().any(|line| line.contains("is a copy of a running server")));
    drop((opened.store, opened.log));
    disk.restart_process();
    loaded(open_member(&disk, &options(), &MemberOptions::new(1)).unwrap().outcome);
}

#[test]
fn directory_moved_after_a_clean_stop_keeps_its_protection() {
    let (disk, last) = served(&[4, 3, 5], true);
    let moved = copy_at_once(&disk);
    let opened = open(&moved.fork()).unwrap();
    assert_eq!((opened.state.last_zxid(), warnings(&opened).len()), (last, 0));

    let log = newest_log(&moved);
    let damaged = moved.fork();
    damaged.damage(&file(&log), |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert!(matches!(open(&damaged), Err(StoreError::NoUsableSnapshot(_))), "damage is not treated as a missing end");

    // A start invalidates the record of the clean stop before anything is written.
    let running = moved.fork();
    let opened = open(&running).unwrap();
    let opened_again = open(&copy_at_once(&running)).unwrap();
    assert_eq!(warnings(&opened_again).len(), 1);
    drop(opened);
}

#[test]
fn marker_of_version_1_protects_as_before() {
    let (disk, _) = served(&[4, 3], true);
    let marker = Marker::decode(&disk.content(&file(MARKER_NAME)).unwrap()).unwrap();
    let older = Marker { written_to: None, closed: None, ..marker }.encode();
    disk.install(&file(MARKER_NAME), &older);
    open(&disk.fork()).unwrap();
    let log = newest_log(&disk);
    damage(&disk, &log, |bytes| bytes.truncate(bytes.len() - 5));
    assert!(open(&disk).is_err(), "the end is missing");
    // An older release has written its shorter marker over ours.
    let mut mixed = marker.encode();
    mixed[..older.len()].copy_from_slice(&older);
    disk.install(&file(MARKER_NAME), &mixed);
    assert!(open(&disk).is_err());
}

/// `cp -r` of a real directory.
fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn original_on_a_real_disk_keeps_its_protection_when_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let options = StoreOptions { data_dir: dir.path().join(name), ..options() };
        Store::open(Arc::new(RealDisk), &options, &TreeOptions::default(), 3)
    };
    let mut opened = open("first").unwrap();
    run(&mut opened, &[4, 3], &mut History::default()).unwrap();
    copy_dir(&dir.path().join("first"), &dir.path().join("copied"));
    drop(opened);
    std::fs::rename(dir.path().join("first"), dir.path().join("renamed")).unwrap();
    for name in ["renamed", "copied"] {
        let log = dir.path().join(name).join("version-2/log.1");
        let bytes = std::fs::read(&log).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        // Overwritten in place, as a failing medium would do.
        std::fs::write(&log, &bytes[..used - 40]).unwrap();
    }
    assert!(open("renamed").is_err());
    assert_eq!(warnings(&open("copied").unwrap()).len(), 1);
}

#[test]
fn file_identity_survives_renaming_but_not_copying() {
    let dir = tempfile::tempdir().unwrap();
    let sim = SimDisk::new();
    sim.create_dir_all(Path::new(ROOT)).unwrap();
    let cases: [(&dyn Disk, &Path); 2] = [(&RealDisk, dir.path()), (&sim, Path::new(ROOT))];
    for (disk, root) in cases {
        let path = |name: &str| root.join(name);
        let identity = |name: &str| disk.open(&path(name), OpenMode::Read).unwrap().identity().unwrap();
        let write = |name: &str| disk.open(&path(name), OpenMode::Create).unwrap().write_all_at(b"x", 0).unwrap();
        write("a");
        let before = identity("a");
        disk.rename(&path("a"), &path("b")).unwrap();
        write("b");
        assert_eq!(identity("b"), before);
        write("a");
        assert!(!identity("a").is_same(&before));
    }
    let (known, unknown) = (FileIdentity { inode: 7, born_ns: 9 }, FileIdentity { inode: 7, born_ns: 0 });
    assert!(known.is_same(&unknown) && !known.is_same(&FileIdentity { inode: 7, born_ns: 8 }));
    assert!(!known.is_same(&FileIdentity { inode: 8, born_ns: 9 }));
}
