//! Full disks: a small file system in memory, where the tests may mount one.

use crate::process::{Running, Site};
use ox_proto::multi::MultiOp;
use ox_proto::request::PathVersion;
use ox_testkit::{RawClient, RawPacket, SmallDisk};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Opens a pipe only if it has a reader.
const O_NONBLOCK: i32 = 0o4000;

/// Creates nodes of half a megabyte until one is refused; returns the total number.
fn fill_up(client: &mut RawClient, from: usize) -> usize {
    for number in from..500 {
        let reply = client.create(&format!("/big{number}"), &vec![number as u8; 500_000]);
        match reply.err {
            0 => (),
            -127 => return number,
            err => panic!("{err}"),
        }
    }
    panic!("there is no end to it");
}

fn check_all(running: &Running, count: usize) {
    let mut client = running.client();
    for number in 0..count {
        assert_eq!(client.get(&format!("/big{number}")).data().unwrap(), vec![number as u8; 500_000], "/big{number}");
    }
    assert_eq!(client.exists(&format!("/big{count}")).err, -101, "what was refused has no effect");
}

#[test]
fn k153_server_with_full_disk_refuses_writes_until_there_is_space() {
    let Some(disk) = SmallDisk::mount(160) else { return };
    let filler = disk.fill(60);
    let site = Site::new(disk.path(), "");
    let mut running = site.start();
    let mut client = running.client();
    let count = fill_up(&mut client, 0);
    assert!(10 < count, "{count}");
    // Between two checks of free space the server estimates conservatively: a refused write might fit after the next
    // check.
    let others = disk.path().join("others");
    std::fs::write(&others, vec![1; 2 << 20]).unwrap();
    running.process.wait_for("disk space is low");
    // Reads, pings, deletes and new sessions still work.
    assert_eq!(client.ping().err, 0);
    assert_eq!(client.get("/big0").err, 0);
    assert_eq!(client.set("/big0", b"").err, -127);
    check_all(&running, count);
    assert_eq!(client.ask(|packet, xid| packet.delete(xid, &format!("/big{}", count - 1))).err, 0);
    let count = count - 1;
    // It also starts on the full disk, and still refuses writes.
    running.stop();
    let running = site.start();
    check_all(&running, count);
    let mut client = running.client();
    assert_eq!(client.create(&format!("/big{count}"), &vec![0; 500_000]).err, -127);
    // It detects free space by itself.
    std::fs::remove_file(filler).unwrap();
    std::fs::remove_file(others).unwrap();
    let begun = Instant::now();
    while client.create("/more", b"").err == -127 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(client.exists("/more").err, 0);
    running.stop();
    let running = site.start();
    check_all(&running, count);
    running.stop();
}

/// Other programs have used the last byte, and the log has no preallocated space left: the reserve serves this case.
#[test]
fn k153_deletes_succeed_without_free_space() {
    let Some(disk) = SmallDisk::mount(160) else { return };
    let site = Site::new(disk.path(), "preAllocSize=64\n");
    let mut running = site.start();
    let mut client = running.client();
    for number in 0..2000 {
        assert_eq!(client.create(&format!("/n{number}"), &[1; 100]).err, 0);
    }
    let filler = disk.fill_up();
    running.process.wait_for("disk space is low");
    assert_eq!(client.create("/more", b"").err, -127);
    let mut other = running.client(); // deletes need a session
    for number in 0..2000 {
        assert_eq!(other.ask(|packet, xid| packet.delete(xid, &format!("/n{number}"))).err, 0, "/n{number}");
    }
    assert_eq!(client.create("/more", b"").err, -127);
    assert_eq!(client.close().err, 0);
    std::fs::remove_file(filler).unwrap();
    running.stop();
    let running = site.start();
    assert_eq!(running.client().children("/"), ["zookeeper"]);
    running.stop();
}

/// Preallocation uses most of a small volume; that is no reason to refuse writes.
#[test]
fn k153_small_disk_is_usable() {
    let Some(disk) = SmallDisk::mount(120) else { return };
    let site = Site::new(disk.path(), "preAllocSize=65536\n");
    let running = site.start();
    let count = fill_up(&mut running.client(), 0);
    assert!(120 < count, "refused at {count} half megabytes");
    check_all(&running, count);
    running.stop();
}

/// A purge that hangs: an old snapshot is a pipe without a writer, so that it cannot be opened.
#[test]
fn slow_purge_delays_neither_space_checks_nor_requests() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let site = Site::new(disk.path(), "autopurge.purgeInterval=1\n");
    let running = site.start();
    running.client().create("/a", b"");
    running.stop();
    let mut running = site.start();
    running.process.wait_for("Snapshot taken");
    running.stop();
    let pipe = disk.path().join("data/version-2/snapshot.0");
    std::fs::remove_file(&pipe).unwrap();
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is a mkfifo command").success());
    let running = site.start();
    disk.fill(58);
    let mut client = running.client();
    let begun = Instant::now();
    while client.create("/n", b"").err != -127 {
        assert!(begun.elapsed() < Duration::from_secs(20), "free space is not looked at");
        client.ask(|packet, xid| packet.delete(xid, "/n"));
    }
    let writer = std::fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&pipe);
    writer.expect("the purge waits at the other end");
    let _ = std::fs::remove_file(&pipe); // unless the purge has deleted it
    running.stop();
}

/// A snapshot that does not fit is retried, and the failure is logged once (R22).
#[test]
fn failed_snapshot_is_retried() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let (directory, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = format!("dataDir={}\ndataLogDir={}\nsnapCount=6\n", disk.path().display(), logs.path().display());
    let mut running = Site::new(directory.path(), &settings).start();
    disk.fill(3);
    let mut client = running.client();
    // With the session these are six records: one snapshot is due among the last three.
    for number in 0..5 {
        while client.create(&format!("/n{number}"), &[1; 700_000]).err == -127 {}
    }
    running.process.wait_for("snapshot failed");
    // Time for one more failure, which is not logged.
    std::thread::sleep(Duration::from_secs(3));
    let path = |number: i32| Some(format!("/n{number}").into());
    let deletes: Vec<_> =
        (0..5).map(|number| MultiOp::Delete(PathVersion { path: path(number), version: -1 })).collect();
    while client.ask(|packet, xid| packet.multi(xid, &deletes)).err == -127 {}
    running.process.wait_for("Snapshot taken");
    let failures = running.process.said.iter().filter(|line| line.contains("snapshot failed"));
    assert_eq!(failures.count(), 1, "{:#?}", running.process.said);
    running.stop();
}

/// Another program uses the last byte: the server refuses writes, or ends with a clear error, and loses nothing either
/// way.
#[test]
fn k52_suddenly_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::mount(160) else { return };
    let site = Site::new(disk.path(), "snapCount=20\n");
    let running = site.start();
    let mut client = running.client();
    let mut acknowledged = 0;
    for number in 0..30 {
        assert_eq!(client.create(&format!("/n{number}"), &[1; 10_000]).err, 0);
        acknowledged = number;
    }
    let filler = disk.fill_up();
    for number in acknowledged + 1..2000 {
        client.raw.try_send(&RawPacket::default().create(1, &format!("/n{number}"), &[1; 10_000], 0).0);
        match client.try_reply() {
            Some(reply) if reply.err == 0 => acknowledged = number,
            Some(reply) => {
                assert_eq!(reply.err, -127);
                break;
            }
            None => break,
        }
    }
    running.process.signal("TERM");
    let ended = running.process.end();
    let is_clear = ended.said.contains("the transaction log cannot be written") && ended.said.contains("No space left");
    assert!(ended.status.code() == Some(0) || (ended.status.code() == Some(1) && is_clear), "{}", ended.said);
    std::fs::remove_file(filler).unwrap();
    let running = site.start();
    let mut client = running.client();
    for number in 0..=acknowledged {
        assert_eq!(client.exists(&format!("/n{number}")).err, 0, "/n{number}");
    }
    assert_eq!(client.create("/more", b"").err, 0);
    running.stop();
}

#[test]
fn server_ends_when_its_directory_is_deleted() {
    let (directory, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for gone in [directory.path().join("data"), logs.path().join("version-2")] {
        let settings = format!("dataLogDir={}\n", logs.path().display());
        let running = Site::new(directory.path(), &settings).start();
        running.client().create("/a", b"");
        std::fs::remove_dir_all(&gone).unwrap();
        let ended = running.process.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
        assert!(ended.said.contains("a data directory was removed"), "{}", ended.said);
        let _ = std::fs::remove_dir_all(logs.path().join("version-2"));
        let _ = std::fs::remove_dir_all(directory.path().join("data"));
    }
}
