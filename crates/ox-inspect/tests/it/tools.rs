//! The offline tools: the same result as a start for every kind of damage, without changing anything.

use crate::golden_sets::{ROOT, damage, default_sets, file, golden, names, open, testdata};
use ox_inspect::compare::{DiffCounts, Difference, TreeSide, differences};
use ox_inspect::dump::log::{LogFormat, dump_log};
use ox_inspect::locate;
use ox_inspect::log_check::{LogFaultKind, LogPiece, LogVerdict, check_log};
use ox_inspect::recover::{MarkerChoice, PlanAction, RecoverMode, RecoveryPlan};
use ox_inspect::snapshot_check::{SnapshotCheck, StoredDigest, check_snapshot, load_tree};
use ox_inspect::summary::summarize;
use ox_proto::Zxid;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_store::disk::{Disk, RealDisk, SimDisk};
use ox_store::start_preview::{StartPreview, preview_start};
use ox_store::{Damage, StoreError};
use std::path::Path;

fn look(disk: &SimDisk) -> StartPreview {
    let dirs = locate::dirs(disk, Path::new(ROOT), None).unwrap();
    preview_start(disk, &dirs).unwrap()
}

/// All files with their contents.
fn content(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    names(disk, "").into_iter().map(|name| (name.clone(), disk.content(&file(&name)))).collect()
}

#[test]
fn start_preview_matches_a_start() {
    let mut seen = 0;
    for set in default_sets() {
        let disk = golden(&set);
        let before = content(&disk);
        let outlook = look(&disk);
        assert!(content(&disk) == before, "{set}: looking has changed something");
        if outlook.is_member {
            assert!(outlook.history.is_ok(), "{set}");
            continue;
        }
        seen += 1;
        match (outlook.history, open(&disk)) {
            (Ok(history), Ok(opened)) => {
                assert_eq!(history.last, opened.state.last_zxid(), "{set}");
                let dropped = opened.report.dropped.map(|dropped| (dropped.path, dropped.offset, dropped.last));
                assert_eq!(history.cut, dropped, "{set}");
            }
            (Err(preview), Err(error)) => assert_eq!(preview.to_string(), error.to_string(), "{set}"),
            (history, opened) => panic!("{set}: {:?} {:?}", history.err(), opened.err()),
        }
    }
    assert!(40 < seen, "{seen} sets");
}

/// Compares `check_log` with a start after a change of the newest log.
fn agrees(disk: &SimDisk, log: &str, what: &str) {
    let verdict = check_log(disk, &file(log)).unwrap().verdict();
    match open(disk) {
        Ok(opened) => {
            let expected = match opened.report.dropped {
                Some(_) => [LogVerdict::Torn, LogVerdict::InDoubt],
                None => [LogVerdict::Clean, LogVerdict::Empty],
            };
            assert!(expected.contains(&verdict), "{what}: {verdict:?}, but a start says {expected:?}");
        }
        Err(error) => assert_eq!(verdict, LogVerdict::Damaged, "{what}: {error}"),
    }
}

#[test]
fn log_check_matches_a_start_for_any_damage_of_the_newest_log() {
    let disk = golden("e-corrupt/undamaged");
    let used = disk.content(&file("log.e")).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for length in 0..=used {
        let disk = disk.fork();
        damage(&disk, "log.e", |bytes| bytes.truncate(length));
        agrees(&disk, "log.e", &format!("cut at {length}"));
    }
    for at in 0..used {
        let disk = disk.fork();
        damage(&disk, "log.e", |bytes| bytes[at] ^= 1 << (at % 8));
        agrees(&disk, "log.e", &format!("byte {at}"));
    }
    for sector in 0..=used / 512 {
        let disk = disk.fork();
        damage(&disk, "log.e", |bytes| bytes[sector * 512..(sector + 1) * 512].fill(0));
        agrees(&disk, "log.e", &format!("sector {sector}"));
    }
}

/// Synced bytes are never torn: the tools use the marker, too.
#[test]
fn log_check_uses_the_marker() {
    let disk = golden("e-corrupt/undamaged");
    drop(open(&disk).unwrap());
    let log = names(&disk, "log.").pop().unwrap();
    let check = check_log(&disk, &file(&log)).unwrap();
    assert_eq!(check.verdict(), LogVerdict::Clean);
    let Some(LogPiece::Records { bytes, .. }) = check.pieces.last() else { panic!("{check:?}") };
    assert_eq!(check.synced, Some(bytes.end));
    let end = usize::try_from(bytes.end).unwrap();
    damage(&disk, &log, |bytes| bytes.truncate(end - 3));
    let check = check_log(&disk, &file(&log)).unwrap();
    assert_eq!(check.verdict(), LogVerdict::Damaged);
    let plan = RecoveryPlan::new(&disk, &file(&log), RecoverMode::Cut).unwrap();
    let dirs = locate::dirs(&disk, Path::new(ROOT), None).unwrap();
    assert!(
        plan.preview_start(&disk, &dirs, MarkerChoice::Kept).unwrap().history.is_err(),
        "the marker covers dropped records"
    );
    assert!(plan.preview_start(&disk, &dirs, MarkerChoice::Deleted).unwrap().history.is_ok());
    let fault = check.faults().next().unwrap();
    assert!(matches!(fault.kind, LogFaultKind::Bytes { damage: Damage::SyncedBytes { .. }, .. }), "{fault:?}");
}

#[test]
fn log_is_split_into_intact_and_faulty_pieces() {
    let disk = golden("e-corrupt/flip-crc-mid");
    let check = check_log(&disk, &file("log.e")).unwrap();
    let kinds: Vec<String> = check.pieces.iter().map(piece).collect();
    assert_eq!(kinds, ["0xe..0x10", "after 0x10 before 0x12", "0x12..0x19"]);
    assert_eq!((check.records(), check.zxids()), (11, Some((Zxid(0xe), Zxid(0x19)))));
    let gap = golden("e-corrupt/undamaged");
    damage(&gap, "log.e", |bytes| {
        let (second, third) = (frame(bytes, 1), frame(bytes, 2));
        bytes.drain(second.start..third.end);
    });
    let kinds: Vec<String> = check_log(&gap, &file("log.e")).unwrap().pieces.iter().map(piece).collect();
    assert_eq!(kinds, ["0xe..0xe", "after 0xe before 0x11", "0x11..0x19"]);
}

fn piece(piece: &LogPiece) -> String {
    match piece {
        LogPiece::Records { zxids: (first, last), .. } => format!("{first}..{last}"),
        LogPiece::Fault(fault) => format!("after {} before {}", fault.after.unwrap(), fault.before.unwrap()),
    }
}

/// The range of a frame in a log, counted from 0.
fn frame(bytes: &[u8], number: usize) -> std::ops::Range<usize> {
    let mut start = 16;
    for index in 0.. {
        let size = i32::from_be_bytes(bytes[start + 8..start + 12].try_into().unwrap());
        let end = start + usize::try_from(size).unwrap() + 13;
        if index == number {
            return start..end;
        }
        start = end;
    }
    unreachable!("the loop has no end")
}

/// The list of faults of a log is limited.
#[test]
fn number_of_reported_faults_is_limited() {
    let disk = golden("e-corrupt/undamaged");
    let whole = disk.content(&file("log.e")).unwrap();
    let mut bytes = whole[..16].to_vec();
    let first = frame(&whole, 0);
    for number in 0..500_i64 {
        let mark = begin_log_frame(&mut bytes);
        bytes.extend_from_slice(&whole[first.start + 12..first.end - 1]);
        bytes[mark + 12..mark + 20].copy_from_slice(&(0xe + 2 * number).to_be_bytes()); // the zxid
        end_log_frame(&mut bytes, mark);
    }
    disk.install(&file("log.e"), &bytes);
    let check = check_log(&disk, &file("log.e")).unwrap();
    assert!(check.is_incomplete && check.pieces.len() < 100, "{}", check.pieces.len());
    let plan = RecoveryPlan::new(&disk, &file("log.e"), RecoverMode::Skip).unwrap();
    assert_eq!(plan.steps.last().unwrap().bytes.end, bytes.len() as u64);
}

/// Writes the recovered log, compares the preview with a start, and replaces the damaged log.
fn recovered(disk: &SimDisk, log: &str, mode: RecoverMode, what: &str) -> Result<Zxid, StoreError> {
    let before = disk.content(&file(log)).unwrap();
    let plan = RecoveryPlan::new(disk, &file(log), mode).unwrap();
    let dirs = locate::dirs(disk, Path::new(ROOT), None).unwrap();
    let preview = plan.preview_start(disk, &dirs, MarkerChoice::Kept).unwrap();
    let out = file(&format!("{log}.fixed"));
    let written = plan.write(disk, &out).unwrap();
    assert_eq!(written.length, plan.length(), "{what}");
    assert_eq!(disk.content(&file(log)).unwrap(), before, "{what}: the original was changed");
    assert!(plan.write(disk, &out).is_err(), "{what}: never over another file");
    if mode == RecoverMode::Cut {
        assert!(written.verdict().is_good(), "{what}: {written:?}");
    }
    disk.rename(&out, &file(log)).unwrap();
    let opened = open(disk);
    match (&opened, preview.history) {
        (Ok(opened), Ok(history)) => assert_eq!(opened.state.last_zxid(), history.last, "{what}"),
        (Err(error), Err(preview)) => assert_eq!(error.to_string(), preview.to_string(), "{what}"),
        (opened, preview) => panic!("{what}: {:?} {:?}", opened.as_ref().err(), preview.err()),
    }
    opened.map(|opened| opened.state.last_zxid())
}

#[test]
fn recovered_log_starts_after_any_damage_of_the_newest_log() {
    let disk = golden("e-corrupt/undamaged");
    let used = disk.content(&file("log.e")).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in 0..used {
        let disk = disk.fork();
        damage(&disk, "log.e", |bytes| bytes[at] ^= 1 << (at % 8));
        let kept = RecoveryPlan::new(&disk, &file("log.e"), RecoverMode::Cut).unwrap().records(&PlanAction::Keep);
        let kept = kept.map_or(Zxid(0xd), |(_, (_, last))| last);
        assert_eq!(recovered(&disk, "log.e", RecoverMode::Cut, &format!("byte {at}")).unwrap(), kept, "byte {at}");
    }
}

#[test]
fn damaged_logs_of_the_golden_sets_are_recovered() {
    let mut seen = 0;
    for set in default_sets().iter().filter(|set| set.starts_with("e-corrupt/")) {
        for mode in [RecoverMode::Cut, RecoverMode::Skip, RecoverMode::Fix] {
            let disk = golden(set);
            for log in names(&disk, "log.").into_iter().filter(|name| !name.ends_with("bak")) {
                let disk = disk.fork();
                let is_damaged = check_log(&disk, &file(&log)).unwrap().verdict() == LogVerdict::Damaged;
                seen += usize::from(is_damaged);
                let is_newest = !names(&disk, "log.").iter().any(|other| log < *other);
                let what = format!("{set} {log} {mode:?}");
                let outcome = recovered(&disk, &log, mode, &what);
                if is_damaged && is_newest && mode == RecoverMode::Cut {
                    outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                }
            }
        }
    }
    assert!(30 < seen, "{seen}");
}

/// As Apache's toolkit with -r -y: the record is kept with its present contents.
#[test]
fn record_with_wrong_checksum_can_be_fixed() {
    let bad = std::fs::read(testdata().join("tools/log.1.bad")).unwrap();
    let disk = SimDisk::new();
    disk.install(&file("log.1"), &bad);
    let plan = RecoveryPlan::new(&disk, &file("log.1"), RecoverMode::Fix).unwrap();
    assert_eq!(plan.records(&PlanAction::FixChecksum), Some((1, (Zxid(2), Zxid(2)))));
    let written = plan.write(&disk, &file("log.1.fixed")).unwrap();
    assert_eq!((written.verdict(), written.records()), (LogVerdict::Clean, 25));
    let mut text = Vec::new();
    let summary = dump_log(&disk, &file("log.1.fixed"), LogFormat::Text, &mut text).unwrap();
    assert_eq!((summary.records, summary.damaged), (25, 0));
    assert!(String::from_utf8_lossy(&text).contains("create /app,Hello,"));
    let skipped = RecoveryPlan::new(&disk, &file("log.1"), RecoverMode::Skip).unwrap();
    assert_eq!(skipped.records(&PlanAction::Keep), Some((24, (Zxid(1), Zxid(0x19)))));
}

#[test]
fn snapshot_check_matches_a_start() {
    for (set, name, stored) in [
        ("e-corrupt/undamaged", "snapshot.d", StoredDigest::Fits),
        ("a-fresh", "snapshot.0", StoredDigest::None),
        ("h-formats/as-35", "snapshot.0", StoredDigest::None),
    ] {
        let disk = golden(set);
        let found = locate::snapshot_file(&file(name)).and_then(|file| check_snapshot(&disk, &file).ok());
        assert_eq!(found.map(|found| found.stored_digest), Some(stored), "{set}");
    }
    let disk = golden("e-corrupt/undamaged");
    let snapshot = locate::snapshot_file(&file("snapshot.7")).unwrap();
    let bytes = disk.content(&snapshot.path).unwrap();
    for at in 0..bytes.len() {
        let disk = SimDisk::new();
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        disk.install(&snapshot.path, &changed);
        let error = check_snapshot(&disk, &snapshot).err();
        assert!(error.is_some_and(|error| error.is_damage()), "byte {at}");
        disk.install(&snapshot.path, &bytes[..at]);
        // Older releases end a snapshot where newer ones continue.
        let is_older = |found: &SnapshotCheck| found.contents.trailer.last_zxid.is_none();
        assert!(check_snapshot(&disk, &snapshot).as_ref().map_or(true, is_older), "cut at {at}");
    }
}

#[test]
fn subtree_sums_add_up() {
    let path = testdata().join("tools/snapshot.15");
    let frozen = load_tree(&RealDisk, &locate::snapshot_file(&path).unwrap()).unwrap();
    let told = |start: &str, depth| {
        let found = summarize(&frozen, start, depth)?;
        Some(
            found
                .iter()
                .map(|top| format!("{} {} {} {}", top.path, top.depth, top.descendants, top.bytes))
                .collect::<Vec<_>>(),
        )
    };
    let all = ["/ 0 13 61", "/app 1 4 8", "/big 1 2 50", "/zookeeper 1 2 0"];
    assert_eq!(told("/", None).unwrap(), all);
    assert_eq!(told("/", Some(0)).unwrap(), all[..1]);
    assert_eq!(told("/app", None).unwrap(), ["/app 0 4 8"]);
    assert_eq!(told("/app/b", None).unwrap(), ["/app/b 0 0 0"], "the start is included without children");
    assert_eq!(told("/ap", None), None);
}

#[test]
fn differences_are_the_changes_between_two_trees() {
    let tree = |name: &str| {
        load_tree(&RealDisk, &locate::snapshot_file(&testdata().join("tools").join(name)).unwrap()).unwrap()
    };
    let (left, right) = (tree("snapshot.b"), tree("snapshot.15"));
    let told = |with_stat| {
        let mut told = Vec::new();
        let tally = differences(&left, &right, with_stat, |difference| {
            told.push(match difference {
                Difference::Only(TreeSide::Left, node) => format!("-{}", node.path),
                Difference::Only(TreeSide::Right, node) => format!("+{}", node.path),
                Difference::Changed(change) => {
                    let marks =
                        [(change.data.is_some(), 'd'), (change.acl.is_some(), 'a'), (!change.stat.is_empty(), 's')];
                    let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
                    format!("~{} {marks}", change.path)
                }
            });
            Ok::<(), ()>(())
        });
        (told, tally.unwrap())
    };
    let (all, tally) = told(true);
    let expected = ["~ s", "~/app ds", "-/app/a", "~/app/b as", "+/big", "+/big/c1", "+/big/c2", "+/ttl"];
    assert_eq!(all, expected);
    assert_eq!(tally, DiffCounts { same: 7, changed: 3, only_left: 1, only_right: 4, sessions: 1 });
    let (content, _) = told(false);
    assert_eq!(content, ["~/app d", "-/app/a", "~/app/b a", "+/big", "+/big/c1", "+/big/c2", "+/ttl"]);
    let same = differences(&left, &left, true, |_| Err(())).unwrap();
    assert!(same.is_same());
}
