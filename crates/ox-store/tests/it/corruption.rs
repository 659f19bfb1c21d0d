//! Changed bytes on disk are detected or have no effect; the history is never shortened silently (P57).

use crate::expected::{check_state, nodes_of};
use crate::sim_stores::{damage, file, golden, names, open, open_with, options, remove, startable_sets, worked};
use crate::workload::model;
use ox_proto::Zxid;
use ox_store::disk::{Disk, KeepUnsynced, OpenMode, SimDisk};
use ox_store::log_reader::LogReader;

/// The zxids of a log's records with their end offsets.
fn frames(disk: &SimDisk, log: &str) -> Vec<(u64, Zxid)> {
    let mut reader = LogReader::open(disk, &file(log)).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        let record = ox_proto::txn::Record::decode(frame.record).unwrap();
        let end = frame.offset + frame.record.len() as u64 + 13;
        frames.push((end, record.header.zxid));
    }
    frames
}

fn newest_log(disk: &SimDisk) -> Option<String> {
    names(disk, "log.")
        .into_iter()
        .filter(|name| !name.ends_with("bak"))
        .max_by_key(|name| i64::from_str_radix(&name[4..], 16).unwrap())
}

/// The newest log may be truncated at any byte: recovery finds exactly the complete records before.
#[test]
fn newest_log_truncated_at_any_byte_keeps_its_complete_records() {
    for (set, step) in [
        ("e-corrupt/undamaged", 1),
        ("c-snapshots", 3),
        ("g-ensemble/1", 3),
        ("h-formats/dup-zxid", 1),
        ("b-rich", 9973),
    ] {
        let (disk, _) = golden(set);
        let log = newest_log(&disk).unwrap();
        let frames = frames(&disk, &log);
        let before = Zxid(i64::from_str_radix(&log[4..], 16).unwrap() - 1);
        let used = frames.last().unwrap().0;
        for length in (0..used).step_by(step) {
            let disk = disk.fork();
            damage(&disk, &log, |bytes| bytes.truncate(usize::try_from(length).unwrap()));
            let opened = open(&disk).unwrap_or_else(|error| panic!("{set} truncated at {length}: {error}"));
            let last = frames.iter().rfind(|(end, _)| *end <= length).map_or(before, |(_, zxid)| *zxid);
            assert_eq!(opened.state.last_zxid(), last, "{set} cut at {length}");
            assert_eq!(opened.report.digest_mismatches, 0);
        }
    }
}

/// An earlier log that is truncated is refused, unless no record is lost.
#[test]
fn earlier_log_truncated_at_any_byte_is_refused() {
    let (disk, expected) = golden("e-corrupt/undamaged");
    for name in ["snapshot.7", "snapshot.d"] {
        remove(&disk, name);
    }
    for log in ["log.1", "log.8"] {
        let used = frames(&disk, log).last().unwrap().0;
        for length in 0..=used {
            let disk = disk.fork();
            damage(&disk, log, |bytes| bytes.truncate(usize::try_from(length).unwrap()));
            match open(&disk) {
                Ok(opened) => {
                    assert_eq!(length, used, "{log} cut at {length} started");
                    check_state(&opened.state, &expected, log);
                }
                Err(error) => assert!(length < used, "{log} whole: {error}"),
            }
        }
    }
}

/// Any flipped bit in Apache's files leads to the same tree or a refusal.
#[test]
fn changed_byte_in_a_golden_set_is_detected_or_harmless() {
    let (disk, expected) = golden("e-corrupt/undamaged");
    for name in names(&disk, "").into_iter().filter(|name| name.contains('.')) {
        let used = disk.content(&file(&name)).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in 0..used {
            let disk = disk.fork();
            damage(&disk, &name, |bytes| bytes[at] ^= 1 << (at % 8));
            if let Ok(opened) = open(&disk) {
                assert_eq!(opened.report.dropped, None, "{name} byte {at}");
                check_state(&opened.state, &expected, &format!("{name} byte {at}"));
            }
        }
    }
}

/// Any flipped bit, lost sector or stale sector in our own files leads to the same state or a refusal. Where records
/// contain zeros, only the marker makes this possible.
#[test]
fn changed_byte_or_sector_in_our_files_is_detected_or_harmless() {
    let mut options = options();
    options.log.snap_count = 30;
    let (disk, history) = worked(&options, &[2, 7, 1, 5, 9, 3, 12, 1]);
    let nodes = nodes_of(&model(history.acked));
    let check = |disk: &SimDisk, what: &str| {
        if let Ok(opened) = open_with(disk, &options) {
            assert_eq!(opened.state.last_zxid(), history.acked, "{what}");
            assert_eq!(nodes_of(&opened.state), nodes, "{what}");
        }
    };
    for name in names(&disk, "log.").into_iter().chain(names(&disk, "snapshot.")) {
        let length = disk.content(&file(&name)).unwrap().len();
        for at in (0..length).step_by(3) {
            let disk = disk.fork();
            damage(&disk, &name, |bytes| bytes[at] ^= 1 << (at % 8));
            check(&disk, &format!("{name} byte {at}"));
        }
        for sector in 0..length / 512 {
            for source in [None, Some(0), Some(sector.saturating_sub(1))] {
                let disk = disk.fork();
                damage(&disk, &name, |bytes| match source {
                    None => bytes[sector * 512..(sector + 1) * 512].fill(0),
                    Some(from) => bytes.copy_within(from * 512..(from + 1) * 512, sector * 512),
                });
                check(&disk, &format!("{name} sector {sector} from {source:?}"));
            }
            let disk = disk.fork();
            damage(&disk, &name, |bytes| bytes.truncate(sector * 512));
            check(&disk, &format!("{name} cut before sector {sector}"));
        }
    }
}

/// Any file that is removed is noticed, or not needed.
#[test]
fn missing_file_is_noticed_or_not_needed() {
    let (disk, history) = worked(&options(), &[2, 7, 1, 5, 9, 3, 12, 1]);
    let nodes = nodes_of(&model(history.acked));
    for name in names(&disk, "") {
        let disk = disk.fork();
        remove(&disk, &name);
        match open(&disk) {
            Ok(opened) => assert_eq!(nodes_of(&opened.state), nodes, "without {name}"),
            Err(_) => assert!(name.starts_with("log.") || name.starts_with("snapshot."), "{name} is not needed"),
        }
    }
}

/// A torn batch with gaps is truncated if a marker shows that it was never synced.
#[test]
fn marker_distinguishes_a_torn_batch_from_bit_rot() {
    use ox_store::marker::Marker;
    let (disk, expected) = golden("e-corrupt/torn-batch-hole");
    assert!(open(&disk).is_err());
    let identity = i64::from_be_bytes(*disk.content(&file("log.e")).unwrap()[16..].first_chunk().unwrap());
    let marker = Marker { log: Zxid(0xe), position: 619, identity, last: Zxid(0x14), ..Marker::default() };
    let check = |marker: Marker, starts: bool| {
        let disk = disk.fork();
        disk.install(&file("oxk.synced"), &marker.encode());
        match open(&disk) {
            Ok(opened) => {
                assert!(starts, "{marker:?}");
                check_state(&opened.state, &expected, "torn-batch-hole");
            }
            Err(error) => assert!(!starts, "{marker:?}: {error}"),
        }
    };
    check(marker, true);
    check(Marker { position: 16, ..marker }, true);
    check(Marker { position: 620, ..marker }, false);
    check(Marker { identity: 1, ..marker }, false);
    check(Marker { log: Zxid(8), ..marker }, false);
    check(Marker { last: Zxid(0x15), ..marker }, false);
}

/// Apache can read every log that we leave: only zeros follow the last record.
pub(crate) fn check_log_ends(disk: &SimDisk, what: &str) {
    for log in names(disk, "log.").into_iter().filter(|name| !name.ends_with("bak")) {
        let end = frames(disk, &log).last().map_or(16, |(end, _)| *end);
        let content = disk.content(&file(&log)).unwrap();
        let rest = &content[usize::try_from(end).unwrap()..];
        assert!(rest.iter().all(|byte| *byte == 0), "{what}: {log}");
    }
}

#[test]
fn logs_left_by_a_start_are_readable_by_apache() {
    for entry in startable_sets() {
        let (disk, _) = golden(&entry.set);
        let mut options = options();
        options.trust_empty = entry.properties.contains_key("zookeeper.snapshot.trust.empty");
        drop(open_with(&disk, &options).unwrap());
        // A log that Apache does not read may stay unchanged.
        if !["e-corrupt/torn-then-next-log", "e-corrupt/flip-data-covered", "e-corrupt/flip-data-covered-older"]
            .contains(&&*entry.set)
        {
            check_log_ends(&disk, &entry.set);
        }
    }
}

/// Records that another server's process left in the page cache are durable before they are served (P15, R19).
#[test]
fn unsynced_files_are_made_durable_at_start() {
    for set in ["e-corrupt/undamaged", "c-snapshots", "d-gz"] {
        let (source, expected) = golden(set);
        let disk = SimDisk::new();
        disk.create_dir_all(file("x").parent().unwrap()).unwrap();
        for name in names(&source, "log.").into_iter().chain(names(&source, "snapshot.")) {
            let copy = disk.open(&file(&name), OpenMode::CreateNew).unwrap();
            copy.write_all_at(&source.content(&file(&name)).unwrap(), 0).unwrap();
        }
        drop(open(&disk).unwrap());
        disk.power_on(KeepUnsynced::Nothing);
        check_state(&open(&disk).unwrap().state, &expected, set);
    }
}

/// A series of records that was written twice is applied once; the same zxids with different contents are corruption
/// (R3).
#[test]
fn repeated_records_are_applied_once() {
    let (disk, expected) = golden("e-corrupt/undamaged");
    let content = disk.content(&file("log.8")).unwrap();
    let twice = |disk: &SimDisk, change: fn(&mut [u8])| {
        let mut second = content[16..].to_vec();
        change(&mut second);
        damage(disk, "log.8", |bytes| bytes.extend_from_slice(&second));
        ["snapshot.7", "snapshot.d"].iter().for_each(|name| remove(disk, name));
    };
    let same = disk.fork();
    twice(&same, |_| ());
    check_state(&open(&same).unwrap().state, &expected, "written twice");
    let other = disk.fork();
    // A different time in the header of the first record, with a matching checksum.
    twice(&other, |bytes| {
        let length = usize::try_from(i32::from_be_bytes(*bytes[8..].first_chunk().unwrap())).unwrap();
        bytes[12 + 27] ^= 1;
        let checksum = u64::from(simd_adler32::adler32(&&bytes[12..12 + length]));
        bytes[..8].copy_from_slice(&checksum.to_be_bytes());
    });
    assert!(open(&other).is_err());
}

/// A refusal states each problem once, with a remedy that works.
#[test]
fn refusals_name_a_remedy() {
    let (disk, history) = worked(&options(), &[4; 10]);
    assert!(2 < names(&disk, "snapshot.").len());
    let refused = |disk: &SimDisk| {
        let error = open(disk).err().expect("something is missing");
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.contains("is newer and cannot"), "{text}");
        (text, error.remedy().unwrap())
    };
    let mut lax = options();
    lax.allow_gaps = true;

    let last_lost = disk.fork();
    remove(&last_lost, &newest_log(&disk).unwrap());
    let (text, remedy) = refused(&last_lost);
    assert_eq!(text.matches("was synced up to").count(), 1, "{text}");
    assert!(text.contains("oxk.synced") && remedy.contains("delete oxk.synced"), "{text}; {remedy}");
    let rescued = last_lost.fork();
    let opened = open_with(&rescued, &lax).unwrap();
    let (first, last) = (opened.state.last_zxid().0 + 1, history.acked);
    let warnings = opened.report.warnings.join("\n");
    assert!(warnings.contains(&format!("; transactions {} to {last} are given up", Zxid(first))), "{warnings}");
    drop(opened);
    open(&rescued).expect("once is enough");
    remove(&last_lost, "oxk.synced");
    assert!(open(&last_lost).unwrap().state.last_zxid() < history.acked);

    let damaged = disk.fork();
    let log = newest_log(&disk).unwrap();
    damage(&damaged, &log, |bytes| bytes[40] ^= 1);
    let (text, remedy) = refused(&damaged);
    assert_eq!(text.matches("is damaged at byte").count(), 1, "{text}");
    assert!(remedy.contains("allowGaps=true"), "{remedy}");
    assert!(open_with(&damaged, &lax).is_ok());

    let foreign = disk.fork();
    damage(&foreign, &log, |bytes| bytes[0] ^= 1);
    let (text, remedy) = refused(&foreign);
    assert!(text.contains("magic") && remedy.contains("move it away"), "{text}; {remedy}");
    remove(&foreign, &log);
    assert!(open_with(&foreign, &lax).is_ok());

    let snapshots = disk.fork();
    for name in names(&disk, "snapshot.") {
        damage(&snapshots, &name, |bytes| bytes[0] ^= 1);
    }
    let (_, remedy) = refused(&snapshots);
    assert!(remedy.contains("restore an intact snapshot"), "{remedy}");
}

/// Rescue gives up what cannot be read, reports which zxids these are, and keeps everything else.
#[test]
fn standalone_with_allowed_gaps_keeps_intact_records_after_the_damage() {
    let mut lax = options();
    lax.log.snap_count = 1_000_000;
    let (disk, history) = worked(&lax, &[8, 8]);
    let log = newest_log(&disk).unwrap();
    let all = frames(&disk, &log);
    let (start, lost) = (all[3].0, all[4].1);
    damage(&disk, &log, |bytes| bytes[usize::try_from(start).unwrap() + 20] ^= 1);
    let refused = open(&disk).err().unwrap();
    assert!(refused.remedy().unwrap().contains("oxkeeper log recover"), "{:?}", refused.remedy());

    lax.allow_gaps = true;
    let opened = open_with(&disk, &lax).unwrap();
    assert_eq!((opened.state.last_zxid(), opened.report.dropped), (history.acked, None));
    let warnings = opened.report.warnings.join("\n");
    assert!(warnings.contains(&format!("; transaction {lost} is given up")), "{warnings}");
    let saved = names(&disk, &format!("damaged.{log}."));
    assert_eq!(saved.len(), 1, "the damaged file is kept");
    assert!(warnings.contains(&saved[0]), "{warnings}");
    let state = (opened.state.last_zxid(), opened.state.digest());
    drop((opened.state, opened.store, opened.log));
    let again = open(&disk).expect("once is enough");
    assert_eq!((again.state.last_zxid(), again.state.digest()), state);
}

/// What follows the damage may have been acknowledged: the report does not call it a torn tail.
#[test]
fn damaged_end_that_is_given_up_is_not_called_torn() {
    let mut lax = options();
    lax.log.snap_count = 1_000_000;
    let (disk, history) = worked(&lax, &[8]);
    let log = newest_log(&disk).unwrap();
    let all = frames(&disk, &log);
    damage(&disk, &log, |bytes| bytes[usize::try_from(all[all.len() - 2].0).unwrap() + 20] ^= 1);
    assert!(open(&disk).is_err());
    lax.allow_gaps = true;
    let opened = open_with(&disk, &lax).unwrap();
    assert_eq!(opened.state.last_zxid().0, history.acked.0 - 1);
    assert_eq!(opened.report.dropped.unwrap().verdict, ox_store::log_tail::TailVerdict::Corrupt);
}
