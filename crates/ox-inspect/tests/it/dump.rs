//! Dumps compared with the output of Apache's toolkits for the same files.

use crate::golden_sets::{default_sets, testdata};
use ox_inspect::dump::log::{LogFormat, dump_log};
use ox_inspect::dump::snapshot::{SnapshotFormat, dump_snapshot};
use ox_proto::Zxid;
use ox_store::disk::{RealDisk, SimDisk};
use ox_store::names::{Compression, SnapshotFile};
use std::path::Path;

/// The recorded output of a toolkit's command line.
fn recorded(file: &str, command: &str) -> String {
    let all = String::from_utf8(std::fs::read(testdata().join("tools").join(file)).unwrap()).unwrap();
    let start = format!("$ {command}\n--- stdout\n");
    let from = all.find(&start).unwrap() + start.len();
    let length = all[from..].find("--- stderr").unwrap();
    all[from..from + length].to_owned()
}

fn log(name: &str, format: LogFormat) -> String {
    let mut out = Vec::new();
    dump_log(&RealDisk, &testdata().join("tools").join(name), format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn snapshot(format: SnapshotFormat) -> String {
    let path = testdata().join("tools/snapshot.15");
    let file = SnapshotFile { last: Zxid(0x15), compression: Compression::None, path };
    let mut out = Vec::new();
    dump_snapshot(&RealDisk, &file, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn logs_as_text_match_apache() {
    assert_eq!(log("log.1", LogFormat::Text), recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh log.1"));
    assert_eq!(log("log.1.bad", LogFormat::Text), recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh log.1.bad"));
}

/// Both tools print as much as they can. Apache's prints the record, and then reports the missing end byte.
#[test]
fn log_without_an_end_byte_is_printed_up_to_it() {
    let whole = std::fs::read(testdata().join("tools/log.1")).unwrap();
    let ends = ends(&whole);
    let text = log("log.1", LogFormat::Text);
    let expected = &text[..text.find("11/15/26, 6:44:10 AM UTC session 0x10000197c880000 cxid 0x5 ").unwrap()];
    let mut flipped = whole.clone();
    flipped[ends[4]] = b'X';
    for bytes in [flipped, whole[..ends[4]].to_vec()] {
        let disk = SimDisk::new();
        disk.install(Path::new("/log.1"), &bytes);
        let mut out = Vec::new();
        let summary = dump_log(&disk, Path::new("/log.1"), LogFormat::Text, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!((summary.records, summary.damaged, summary.is_partial), (4, 0, true));
    }
}

/// The offsets of the end bytes of a log's records.
fn ends(log: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (16, Vec::new());
    while let Some(size) = log.get(at + 8..).and_then(|rest| rest.first_chunk()).map(|size| i32::from_be_bytes(*size))
        && size != 0
    {
        at += 12 + usize::try_from(size).unwrap();
        ends.push(at);
        at += 1;
    }
    ends
}

#[test]
fn damaged_snapshot_is_printed_as_far_as_readable() {
    let whole = std::fs::read(testdata().join("tools/snapshot.15")).unwrap();
    let dump = |bytes: &[u8], format| {
        let disk = SimDisk::new();
        disk.install(Path::new("/snapshot.15"), bytes);
        let path = "/snapshot.15".into();
        let file = SnapshotFile { last: Zxid(0x15), compression: Compression::None, path };
        let mut out = Vec::new();
        let result = dump_snapshot(&disk, &file, format, &mut out);
        (String::from_utf8(out).unwrap(), result.map_err(|error| error.to_string()))
    };
    // A changed byte of data: everything is printed, and only the checksum shows it.
    let mut rotten = whole.clone();
    let data = rotten.windows(4).position(|bytes| bytes == b"zzzz").unwrap();
    rotten[data] = b'y';
    let (text, result) = dump(&rotten, SnapshotFormat::Text);
    assert_eq!(text, snapshot(SnapshotFormat::Text));
    assert!(result.unwrap_err().contains("checksum"));
    // Half of the file: the nodes and sessions in it.
    let half = &whole[..whole.len() / 2];
    let (text, result) = dump(half, SnapshotFormat::Text);
    assert!(result.is_err() && text.contains("\n/app\n") && text.contains("0x10000197c880000, 40000"), "{text}");
    let (json, result) = dump(half, SnapshotFormat::Ncdu { now_ms: 0 });
    assert!(result.is_err());
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
    // Nothing readable: no output.
    assert_eq!(dump(&whole[1..], SnapshotFormat::Text).0, "");
}

#[test]
fn logs_as_json_have_all_records() {
    let lines: Vec<serde_json::Value> =
        log("log.1.bad", LogFormat::Json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 25);
    assert_eq!(lines[0]["type"], "createSession");
    assert_eq!(lines[1]["checksumFits"], false);
    assert_eq!(lines[2]["path"], "/app/a");
    assert_eq!(lines[12]["ops"][3], serde_json::json!({"type": "delete", "path": "/app/a"}));
    assert_eq!(lines[24]["paths"], serde_json::json!(["/app/eph"]));
}

#[test]
fn snapshots_as_text_match_apache() {
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::Text), expected);
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh -d snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::TextWithData), expected);
}

#[test]
fn snapshots_as_json_have_all_nodes() {
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh -json snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::Ncdu { now_ms: 1_794_725_102_424 }), expected);
    let lines: Vec<serde_json::Value> =
        snapshot(SnapshotFormat::Json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let eph = lines.iter().find(|line| line["path"] == "/app/eph").unwrap();
    assert_eq!(eph["ephemeralOwner"], "0x10000197c880000");
    assert_eq!(eph["data"], "ZQ==");
}

#[test]
fn dumps_never_panic() {
    let mut dumped = 0;
    for set in default_sets() {
        for item in std::fs::read_dir(testdata().join(set).join("version-2")).unwrap() {
            let path = item.unwrap().path();
            for format in [LogFormat::Text, LogFormat::Json] {
                dumped += u32::from(dump_log(&RealDisk, &path, format, &mut Vec::new()).is_ok());
            }
            let file = SnapshotFile { last: Zxid(0), compression: Compression::None, path };
            for format in [SnapshotFormat::Text, SnapshotFormat::Ncdu { now_ms: 0 }, SnapshotFormat::Json] {
                dumped += u32::from(dump_snapshot(&RealDisk, &file, format, &mut Vec::new()).is_ok());
            }
        }
    }
    assert!(100 < dumped);
}
