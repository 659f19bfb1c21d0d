//! Dumps against what Apache's toolkits printed for the same files.

use crate::expected::testdata;
use ox_proto::Zxid;
use ox_store::disk::RealDisk;
use ox_store::dump::log::{LogFormat, dump_log};
use ox_store::dump::snapshot::{SnapshotFormat, dump_snapshot};
use ox_store::names::{Compression, SnapshotFile};

/// What the toolkit printed for a command line.
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
fn logs_as_text() {
    assert_eq!(log("log.1", LogFormat::Text), recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh log.1"));
    assert_eq!(log("log.1.bad", LogFormat::Text), recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh log.1.bad"));
}

#[test]
fn logs_as_json() {
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
fn snapshots_as_text() {
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::Text), expected);
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh -d snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::TextWithData), expected);
}

#[test]
fn snapshots_as_json() {
    let expected = recorded("snapshot-toolkit.txt", "zkSnapShotToolkit.sh -json snapshot.15");
    assert_eq!(snapshot(SnapshotFormat::Ncdu { now_ms: 1_794_725_102_424 }), expected);
    let lines: Vec<serde_json::Value> =
        snapshot(SnapshotFormat::Json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let eph = lines.iter().find(|line| line["path"] == "/app/eph").unwrap();
    assert_eq!(eph["ephemeralOwner"], "0x10000197c880000");
    assert_eq!(eph["data"], "ZQ==");
}

#[test]
fn no_file_makes_a_dump_panic() {
    let mut dumped = 0;
    for entry in crate::expected::index() {
        let dir = testdata().join(&entry.set).join("version-2");
        for item in std::fs::read_dir(dir).into_iter().flatten() {
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
