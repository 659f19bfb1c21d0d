//! Known cases that concern the files of one server (`docs/reference/requirements.md`). Each test fails without the
//! guard that it names.

use crate::expected::{check_state, nodes_of};
use crate::sim_stores::{damage, file, golden, names, open, open_with, options, remove, worked};
use crate::workload::{History, make, run};
use ox_proto::Zxid;
use ox_store::disk::{Disk, DiskFault, KeepUnsynced, SimDisk};
use ox_store::{Appended, Opened, StoreError};
use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;

/// Cuts the power, and starts successfully.
fn reopen_after(disk: &SimDisk, keep: KeepUnsynced, history: &History, what: &str) {
    let disk = disk.fork();
    disk.power_on(keep);
    let opened = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    history.clone().settle(&opened.state, what);
}

fn refused(disk: &SimDisk, what: &str) -> StoreError {
    match open(disk) {
        Ok(opened) => panic!("{what}: started at {}", opened.state.last_zxid()),
        Err(error) => error,
    }
}

/// Guard: the newest log counts as nothing if it has neither header nor record.
#[test]
fn k037_newest_log_without_header_is_ignored() {
    for length in (0..16).chain([16, 2048]) {
        let (disk, history) = worked(&options(), &[3, 3]);
        let next = format!("log.{:x}", history.acked.0 + 1);
        disk.install(&file(&next), &vec![0; length]);
        let mut opened = open(&disk).unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        assert_eq!(names(&disk, &next), Vec::<String>::new(), "Apache would not start on it");
        run(&mut opened, &[2], &mut history.clone()).unwrap();
    }
    let (disk, _) = golden("e-corrupt/empty-middle-log");
    for length in [0, 8, 16] {
        disk.install(&file("log.8"), &vec![0; length]);
        refused(&disk, "an empty log in the middle");
    }
}

/// Guard: space is allocated for the current record, whatever the step.
#[test]
fn k038_record_larger_than_the_preallocation_is_logged() {
    let mut options = options();
    options.log.preallocate_bytes = 512;
    let disk = SimDisk::new();
    let mut opened = open_with(&disk, &options).unwrap();
    let mut frames = Vec::new();
    (1..=40).for_each(|number| make(&mut opened.state, Zxid(number), 0, &mut frames));
    let _ = opened.log.append(&frames, Zxid(1), Zxid(40), 40).unwrap();
    opened.log.sync().unwrap();
    let nodes = nodes_of(&opened.state);
    drop(opened);
    disk.power_on(KeepUnsynced::Nothing);
    assert_eq!(nodes_of(&open_with(&disk, &options).unwrap().state), nodes);
}

/// Guard: zeros in a log that is not the newest are damage, not its end.
#[test]
fn k039_zeroed_block_in_an_older_log_is_damage() {
    let mut options = options();
    options.log.snap_count = 1_000_000;
    options.log.roll_bytes = Some(4000);
    let (disk, history) = worked(&options, &[9, 9, 9, 9, 9]);
    let logs = names(&disk, "log.");
    assert!(2 < logs.len());
    for log in &logs[..logs.len() - 1] {
        let length = disk.content(&file(log)).unwrap().len();
        for block in 0..length / 512 {
            let disk = disk.fork();
            damage(&disk, log, |bytes| bytes[block * 512..(block + 1) * 512].fill(0));
            match open_with(&disk, &options) {
                Err(_) => (),
                // The block contained only zeros.
                Ok(opened) => history.clone().settle(&opened.state, &format!("{log}, block {block}")),
            }
        }
    }
}

/// Guard: the rule for torn tails.
#[test]
fn k040_torn_last_record_is_truncated() {
    for case in ["torn-tail-cut", "torn-tail-zeroed", "torn-tail-hole"] {
        let (disk, expected) = golden(&format!("e-corrupt/{case}"));
        let opened = open(&disk).unwrap();
        check_state(&opened.state, &expected, case);
        let dropped = opened.report.dropped.unwrap();
        assert_eq!(dropped.after, Zxid(0x18));
        assert!(dropped.saved_as.is_some_and(|path| disk.content(&path).is_some()));
    }
}

/// Guard: the directory is synced before any record of a new log is acknowledged.
#[test]
fn k042_name_of_a_new_log_is_durable() {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    for round in 0..20 {
        run(&mut opened, &[2], &mut history).unwrap();
        opened.log.roll();
        reopen_after(&disk, KeepUnsynced::Nothing, &history, &format!("after log {round}"));
    }
}

/// Guard: only the contents of a snapshot decide whether it is intact.
#[test]
fn k043_other_files_do_not_validate_snapshots() {
    let (disk, history) = worked(&options(), &[5, 5, 5, 5]);
    for name in names(&disk, "oxk.") {
        remove(&disk, &name);
    }
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "without side files");
    for name in ["oxk.synced", "oxk.install", "oxk.lock", "oxk.reserve"] {
        disk.install(&file(name), b"garbage");
    }
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "with garbage in side files");
}

/// Guard: a snapshot and its name are synced before it counts for purging.
#[test]
fn k044_snapshot_is_durable_before_older_ones_are_purged() {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    for round in 0..12 {
        run(&mut opened, &[2], &mut history).unwrap();
        opened.log.roll();
        opened.store.write_snapshot(&opened.state.freeze()).unwrap();
        let cut = disk.fork();
        cut.power_on(KeepUnsynced::Nothing);
        assert!(names(&cut, "snapshot.").contains(&format!("snapshot.{:x}", history.acked.0)), "round {round}");
        opened.store.purge(3, &|| false).unwrap();
        reopen_after(&disk, KeepUnsynced::Nothing, &history, &format!("after purge {round}"));
    }
    assert_eq!(names(&disk, "snapshot.").len(), 3);
}

/// Batches with a snapshot after each, without purging.
fn with_snapshots(count: usize) -> (SimDisk, History) {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    for _ in 0..count {
        run_without_purge(&mut opened, &mut history);
        opened.store.write_snapshot(&opened.state.freeze()).unwrap();
    }
    drop(opened);
    disk.restart_process();
    (disk, history)
}

fn run_without_purge(opened: &mut Opened, history: &mut History) {
    let first = opened.state.last_zxid().next().unwrap();
    let mut frames = Vec::new();
    history.make(&mut opened.state, 3, &mut frames);
    let _ = opened.log.append(&frames, first, opened.state.last_zxid(), 3).unwrap();
    history.acked = opened.log.sync().unwrap().last;
    opened.log.roll();
}

fn by_zxid(disk: &SimDisk, prefix: &str) -> Vec<String> {
    let mut names = names(disk, prefix);
    names.sort_by_key(|name| i64::from_str_radix(&name[prefix.len()..], 16).unwrap());
    names
}

/// Guard: only snapshots that were read completely count.
#[test]
fn k045_damaged_snapshots_do_not_displace_intact_ones() {
    let (disk, history) = with_snapshots(7);
    let snapshots = by_zxid(&disk, "snapshot.");
    assert_eq!(snapshots.len(), 8);
    for name in &snapshots[5..] {
        damage(&disk, name, |bytes| bytes[100] ^= 1);
    }
    let opened = open(&disk).unwrap();
    opened.store.purge(3, &|| false).unwrap();
    assert_eq!(by_zxid(&disk, "snapshot."), snapshots[2..], "three intact ones and the damaged, which are newer");
    drop(opened);
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "from the good snapshots");
}

/// Guards: snapshots are removed before logs, durably, oldest first.
#[test]
fn k046_power_cut_while_purging_leaves_no_snapshot_without_its_logs() {
    let (disk, history) = with_snapshots(7);
    for call in 1.. {
        let disk = disk.fork();
        let opened = open(&disk).unwrap();
        disk.set_fault(disk.calls() + call, DiskFault::PowerCut);
        _ = opened.store.purge(3, &|| false);
        drop(opened);
        if disk.is_powered() {
            break;
        }
        for seed in 0..8 {
            let disk = disk.fork();
            disk.power_on(KeepUnsynced::Random(call * 8 + seed));
            while let Some(newest) = by_zxid(&disk, "snapshot.").pop() {
                reopen_after(&disk, KeepUnsynced::Everything, &history, &format!("cut at call {call}, from {newest}"));
                remove(&disk, &newest);
            }
        }
    }
}

/// Guard: a stop is noticed while snapshots and logs are read; then nothing is removed.
#[test]
fn purge_can_be_stopped_before_it_removes() {
    let (disk, _) = with_snapshots(7);
    let opened = open(&disk).unwrap();
    let before = names(&disk, "");
    let asked = Cell::new(0);
    for stop_at in 1.. {
        asked.set(0);
        let stop = || {
            asked.set(asked.get() + 1);
            stop_at <= asked.get()
        };
        match opened.store.purge(3, &stop) {
            Err(StoreError::PurgeStopped) => assert_eq!(names(&disk, ""), before),
            purged => {
                assert!(!purged.unwrap().removed.is_empty());
                break;
            }
        }
    }
    assert!(20 < asked.get(), "asked {} times only", asked.get());
}

/// Guard: every log with a record after the oldest kept snapshot is kept.
#[test]
fn k046_purge_keeps_the_logs_of_every_kept_snapshot() {
    for seed in 0..12_usize {
        let disk = SimDisk::new();
        let mut history = History::default();
        let mut opened = open(&disk).unwrap();
        for step in 0..24 {
            run(&mut opened, &[1 + (seed * 7 + step * 5) % 4], &mut history).unwrap();
            if (seed + step) % 3 == 0 {
                opened.log.roll();
            }
            if (seed * 3 + step) % 4 == 1 {
                opened.store.write_snapshot(&opened.state.freeze()).unwrap();
            }
        }
        opened.store.purge(3, &|| false).unwrap();
        drop(opened);
        while let Some(newest) = by_zxid(&disk, "snapshot.").pop() {
            reopen_after(&disk, KeepUnsynced::Nothing, &history, &format!("seed {seed}, from {newest}"));
            remove(&disk, &newest);
        }
    }
}

/// Guard: logs without a snapshot are refused, or replayed from the very beginning, but never ignored.
#[test]
fn k047_logs_without_a_snapshot_are_not_ignored() {
    let mut options = options();
    options.log.snap_count = 1_000_000;
    options.log.roll_bytes = Some(2000);
    let (disk, history) = worked(&options, &[4; 6]);
    remove(&disk, "snapshot.0");
    assert!(matches!(refused(&disk, "logs only"), StoreError::NoSnapshot(_)));
    options.trust_empty = true;
    let opened = open_with(&disk.fork(), &options).unwrap();
    history.clone().settle(&opened.state, "replayed from the beginning");
    remove(&disk, "log.1");
    assert!(open_with(&disk, &options).is_err(), "the beginning is missing");
}

/// Guard: a snapshot that ends before the zxid in its name is rejected; the last zxid comes from verified contents.
#[test]
fn k050_misnamed_snapshot_is_rejected() {
    let (disk, history) = worked(&options(), &[4; 8]);
    let snapshots = names(&disk, "snapshot.");
    let old = disk.content(&file(&snapshots[0])).unwrap();
    disk.install(&file(&format!("snapshot.{:x}", history.acked.0 - 1)), &old);
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "an old snapshot under a new name");
    // A snapshot beyond everything else may be the only trace of lost transactions.
    disk.install(&file("snapshot.ffff"), &old);
    refused(&disk, "an unreadable snapshot beyond the logs");
}

/// Guard: a directory can be opened after a stop at any moment.
#[test]
fn k051_stop_right_after_start_leaves_a_usable_directory() {
    let disk = SimDisk::new();
    let mut history = History::default();
    for round in 0..6 {
        let mut opened = open(&disk).unwrap();
        if round % 2 == 0 {
            run(&mut opened, &[1], &mut history).unwrap();
        }
        opened.log.close().unwrap();
        drop(opened.store);
        reopen_after(&disk, KeepUnsynced::Nothing, &history, "stopped");
        let opened = open(&disk).unwrap();
        opened.log.close().unwrap();
    }
}

/// Guard: a snapshot for which there is no space is removed and tried again; the server continues.
#[test]
fn k052_server_continues_without_space_for_a_snapshot() {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    run(&mut opened, &[4, 4], &mut history).unwrap();
    let free = disk.space(Path::new("/")).unwrap().free_bytes;
    for free_space in [0, 100, 1000] {
        disk.set_capacity((1 << 40) - free + free_space);
        let error = opened.store.write_snapshot(&opened.state.freeze()).unwrap_err();
        assert_eq!(error.exit_code(), 10);
        assert_eq!(names(&disk, "oxk.snapshot"), Vec::<String>::new());
        assert_eq!(names(&disk, "snapshot."), ["snapshot.0"]);
    }
    disk.set_capacity(1 << 40);
    run(&mut opened, &[1], &mut history).unwrap();
    opened.store.write_snapshot(&opened.state.freeze()).unwrap();
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "space came back");
}

/// Guard: a snapshot does not use the space that the log needs.
#[test]
fn k052_snapshot_leaves_space_for_the_log() {
    let mut options = options();
    options.low_water_bytes = 5_000;
    options.log.snap_count = 1_000_000;
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open_with(&disk, &options).unwrap();
    run(&mut opened, &[9; 10], &mut history).unwrap();
    disk.install(&file("filler"), &[0; 1_000_000]);
    let free = disk.space(Path::new("/")).unwrap().free_bytes;
    for free_space in [5_000, 9_000] {
        disk.set_capacity((1 << 40) - free + free_space);
        let error = opened.store.write_snapshot(&opened.state.freeze()).unwrap_err();
        assert!(error.to_string().contains("for the log"), "{error}");
    }
    disk.set_capacity((1 << 40) - free + 90_000);
    opened.store.write_snapshot(&opened.state.freeze()).unwrap();
}

/// Guard: the reserve is released when the log finds the disk full.
#[test]
fn k052_current_batch_fits_into_the_reserve() {
    let mut options = options();
    options.log.preallocate_bytes = 0;
    options.reserve_bytes = 10_000;
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open_with(&disk, &options).unwrap();
    run(&mut opened, &[4, 4], &mut history).unwrap();
    let used = (1 << 40) - disk.space(Path::new("/")).unwrap().free_bytes;
    disk.set_capacity(used);
    run(&mut opened, &[4, 4], &mut history).unwrap();
    assert_eq!(names(&disk, "oxk.reserve"), [""; 0]);
    let low = opened.store.space().unwrap();
    opened.store.renew_reserve(&low).unwrap();
    assert_eq!(names(&disk, "oxk.reserve"), [""; 0], "it was released");
    disk.set_capacity(1 << 40);
    opened.store.renew_reserve(&opened.store.space().unwrap()).unwrap();
    assert_eq!(disk.content(&file("oxk.reserve")).unwrap().len(), 10_000);
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "in the reserve");
}

/// Guard: preallocated space counts as free, and the low-water mark is lower on a small volume.
#[test]
fn k153_small_volume_is_usable() {
    let mut options = options();
    options.log.preallocate_bytes = 64_000;
    options.log.snap_count = 1_000_000;
    options.low_water_bytes = 64_000;
    let disk = SimDisk::new();
    disk.set_capacity(120_000);
    let mut opened = open_with(&disk, &options).unwrap();
    let before = opened.store.space().unwrap();
    assert_eq!((before.low_water_bytes, before.is_low), (6_000, false));
    let (mut history, mut logged) = (History::default(), 0);
    while !opened.store.space().unwrap().is_low {
        let free = opened.store.space().unwrap().free_bytes;
        run(&mut opened, &[5], &mut history).unwrap();
        logged += free - opened.store.space().unwrap().free_bytes;
    }
    assert!(100_000 < logged, "refused after {logged} bytes");
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "a full volume");
}

/// Guard: after a failed fsync the log accepts nothing more, and a restart rewrites the unsynced bytes.
#[test]
fn k053_failed_fsync_is_final_and_restart_rewrites() {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    run(&mut opened, &[3, 3], &mut history).unwrap();
    let mut frames = Vec::new();
    history.make(&mut opened.state, 3, &mut frames);
    let _ = opened.log.append(&frames, Zxid(7), Zxid(9), 3).unwrap();
    disk.set_fault(disk.calls() + 1, DiskFault::LostSync);
    assert!(opened.log.sync().is_err());
    assert!(matches!(opened.log.sync(), Err(StoreError::LogFailed)));
    history.make(&mut opened.state, 1, &mut frames);
    assert!(matches!(opened.log.append(&frames, Zxid(10), Zxid(10), 1), Err(StoreError::LogFailed)));
    drop(opened);
    // The page cache still has the records, and the next fsync succeeds without writing; what is served now must
    // survive anyway.
    disk.restart_process();
    let opened = open(&disk).unwrap();
    assert_eq!(opened.state.last_zxid(), Zxid(9));
    history.settle(&opened.state, "from the page cache");
    drop(opened);
    reopen_after(&disk, KeepUnsynced::Nothing, &history, "power cut after the restart");
}

/// Guard: the marker is lowered durably before a log is truncated.
#[test]
fn k054_marker_is_lowered_before_a_truncation() {
    let mut rescue = options();
    rescue.log.snap_count = 1_000_000;
    let (disk, mut history) = worked(&rescue, &[5]);
    let mut opened = open_with(&disk, &rescue).unwrap();
    run(&mut opened, &[5], &mut history).unwrap();
    opened.log.close().unwrap();
    drop(opened.store);
    damage(&disk, "log.6", |bytes| *bytes.last_mut().unwrap() = 0x43);
    assert!(matches!(refused(&disk, "synced bytes are damaged"), StoreError::NoUsableSnapshot(_)));
    rescue.allow_gaps = true;
    for call in 1.. {
        let disk = disk.fork();
        disk.set_fault(disk.calls() + call, DiskFault::PowerCut);
        let done = open_with(&disk, &rescue).is_ok();
        disk.clear_faults();
        disk.power_on(KeepUnsynced::Random(call));
        assert_eq!(open_with(&disk, &rescue).unwrap().state.last_zxid(), Zxid(9), "cut at call {call}");
        disk.power_on(KeepUnsynced::Nothing);
        assert_eq!(open(&disk).unwrap().state.last_zxid(), Zxid(9), "cut at call {call}");
        if done {
            break;
        }
    }
}

/// Guard: a snapshot that cannot be removed does not make the next one fail.
#[test]
fn k056_undeletable_snapshots_do_not_stop_new_ones() {
    let mut options = options();
    options.log.snap_count = 1_000_000;
    let (disk, mut history) = worked(&options, &[]);
    let mut opened = open_with(&disk, &options).unwrap();
    for _ in 0..4 {
        run(&mut opened, &[2], &mut history).unwrap();
        opened.store.write_snapshot(&opened.state.freeze()).unwrap();
    }
    let before = disk.fork();
    opened.store.purge(3, &|| false).unwrap();
    let calls = disk.calls() - before.calls();
    drop(opened);
    let failed = (1..=calls).any(|call| {
        let disk = before.fork();
        disk.restart_process();
        let mut opened = open_with(&disk, &options).unwrap();
        disk.set_fault(disk.calls() + call, DiskFault::Error(ErrorKind::PermissionDenied));
        let purged = opened.store.purge(3, &|| false);
        run(&mut opened, &[1], &mut history.clone()).unwrap();
        opened.store.write_snapshot(&opened.state.freeze()).unwrap();
        purged.is_ok_and(|purged| !purged.failed.is_empty())
    });
    assert!(failed, "one of the calls is a removal");
}

/// Guard: appended records count as durable only after the sync.
#[test]
fn k059_append_without_sync_is_not_durable() {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open(&disk).unwrap();
    run(&mut opened, &[2], &mut history).unwrap();
    let mut frames = Vec::new();
    make(&mut opened.state, Zxid(3), 0, &mut frames);
    assert_eq!(opened.log.append(&frames, Zxid(3), Zxid(3), 1).unwrap(), Appended::Plain);
    let cut = disk.fork();
    cut.power_on(KeepUnsynced::Nothing);
    assert_eq!(open(&cut).unwrap().state.last_zxid(), Zxid(2));
    opened.log.sync().unwrap();
    disk.power_on(KeepUnsynced::Nothing);
    assert_eq!(open(&disk).unwrap().state.last_zxid(), Zxid(3));
}

/// Guard: position and contents of a snapshot agree; replaying contained records again changes nothing.
#[test]
fn k060_all_snapshots_lead_to_the_same_state() {
    for set in ["c-fuzzy", "c-snapshots", "e-corrupt/undamaged", "d-gz", "d-snappy", "f-380", "g-ensemble/1"] {
        let (disk, expected) = golden(set);
        let mut snapshots = names(&disk, "snapshot.");
        let number = |name: &str| i64::from_str_radix(name.split('.').nth(1).unwrap(), 16).unwrap();
        snapshots.sort_by_key(|name| number(name));
        while !snapshots.is_empty() {
            let copy = disk.fork();
            let opened = open(&copy).unwrap();
            check_state(&opened.state, &expected, &format!("{set} from {snapshots:?}"));
            remove(&disk, &snapshots.pop().unwrap());
        }
    }
}

/// Guard: temporary files of a crash are recognised; ours are removed.
#[test]
fn k062_temporary_files_are_recognised() {
    let (disk, history) = worked(&options(), &[3, 3]);
    for name in ["oxk.lock", "oxk.snapshot.6.tmp", "oxk.log.1.tmp", "snapshot.6.tmp", "log.1.bak", "damaged.log.1.0"] {
        disk.install(&file(name), b"left over");
    }
    disk.install(Path::new("/srv/zk/initialize"), b"");
    let opened = open(&disk).unwrap();
    history.clone().settle(&opened.state, "among leftovers");
    assert_eq!(opened.report.warnings.len(), 2, "{:?}", opened.report.warnings);
    assert!(names(&disk, "oxk.").iter().all(|name| !name.ends_with(".tmp")));
    assert!(disk.content(Path::new("/srv/zk/initialize")).is_none());
}

/// Guard: nodes whose ACL is missing from the snapshot are reported, unless the logs contain it.
#[test]
fn k067_missing_acls_are_reported() {
    let (disk, _) = golden("c-fuzzy");
    let mut found = 0;
    for snapshot in names(&disk, "snapshot.") {
        let disk = disk.fork();
        names(&disk, "snapshot.").iter().filter(|name| **name != snapshot).for_each(|name| remove(&disk, name));
        assert_eq!(open(&disk.fork()).unwrap().report.unresolved_acls, [""; 0], "{snapshot}: the logs have them all");
        names(&disk, "log.").iter().for_each(|name| remove(&disk, name));
        let opened = open(&disk).unwrap();
        found += opened.report.unresolved_acls.len();
        assert!(opened.report.unresolved_acls.iter().all(|path| opened.state.is_closed(path)));
    }
    assert!(0 < found, "some are in the logs only");
}
