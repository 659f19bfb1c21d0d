//! Members with full disks (P63): others lead, nothing is lost, and the members return without an operator when there
//! is space.

use crate::members;
use ox_testkit::{FailoverClient, SmallDisk, TestEnsemble, wait_until};
use std::path::Path;

/// Three servers, each on its own small disk; `None` where mounting is not permitted.
fn start(home: &Path, properties: &'static [&'static str]) -> Option<(Vec<SmallDisk>, TestEnsemble)> {
    let disks: Vec<SmallDisk> = (0..3).map_while(|_| SmallDisk::mount(100)).collect();
    if disks.len() < 3 {
        return None;
    }
    for (at, disk) in disks.iter().enumerate() {
        std::os::unix::fs::symlink(disk.path(), home.join((at + 1).to_string())).unwrap();
    }
    let ensemble = members::prepare_in(home, 3, 0, "", properties).start();
    Some((disks, ensemble)) // the processes end before the disks are unmounted
}

/// Writes half a megabyte.
fn write(client: &mut FailoverClient, number: usize) {
    client.create_with(&format!("/n{number}"), &vec![number as u8; 500_000], 0);
}

fn check_all(ensemble: &TestEnsemble, count: usize) {
    let there = ensemble.check_equal();
    let missing: Vec<usize> = (0..count).filter(|number| !there.contains_key(&format!("/n{number}"))).collect();
    assert!(missing.is_empty(), "{missing:?} were acknowledged");
}

fn wait_until_serving(ensemble: &TestEnsemble, at: usize) {
    wait_until(&format!("server {} serves", at + 1), || ensemble.mode(at).is_some());
}

#[test]
fn p63_leader_with_full_disk_steps_down() {
    let home = tempfile::tempdir().unwrap();
    let Some((disks, mut ensemble)) = start(home.path(), &[]) else { return };
    let first = ensemble.leader();
    write(&mut ensemble.client(), 0);
    let filler = disks[first].fill_up();
    ensemble.process_mut(first).wait_for("disk space is low, and another voter can lead");
    let second = ensemble.leader_but(&[first]);
    wait_until_serving(&ensemble, first);
    assert_eq!(ensemble.mode(first).as_deref(), Some("follower"));
    // As a follower it logs writes as long as they fit.
    write(&mut ensemble.client_of(first), 1);
    // It is not elected again while another member with the same history can be.
    let third = 3 - first - second;
    write(&mut ensemble.client_of(third), 2);
    ensemble.kill(second);
    assert_eq!(ensemble.leader_but(&[second]), third);
    write(&mut ensemble.client(), 3);
    ensemble.restart(second);
    std::fs::remove_file(filler).unwrap();
    check_all(&ensemble, 4);
}

#[test]
fn p63_member_with_full_disk_rejoins_when_there_is_space() {
    let home = tempfile::tempdir().unwrap();
    let Some((disks, mut ensemble)) = start(home.path(), &[]) else { return };
    let full = (ensemble.leader() + 1) % 3;
    let filler = disks[full].fill_up();
    let mut client = ensemble.client();
    // More than its reserve.
    (0..20).for_each(|number| write(&mut client, number));
    let process = ensemble.process_mut(full);
    let line = process.wait_for("disk is full: this member has stopped");
    assert!(line.contains("data_dir_needs_bytes="), "{line}");
    assert!(process.said.iter().any(|line| line.contains("No space left")), "{:#?}", process.said);
    write(&mut client, 20);
    std::fs::remove_file(filler).unwrap();
    process.wait_for("restarting after a full disk");
    wait_until_serving(&ensemble, full);
    check_all(&ensemble, 21);
    assert!(!ensemble.process_mut(full).has_ended());
}

/// A server that waits for space stops when requested.
#[test]
fn p63_member_that_waits_for_space_can_be_stopped() {
    let home = tempfile::tempdir().unwrap();
    let Some((disks, mut ensemble)) = start(home.path(), &[]) else { return };
    let full = (ensemble.leader() + 1) % 3;
    disks[full].fill_up();
    let mut client = ensemble.client();
    (0..20).for_each(|number| write(&mut client, number));
    let mut process = ensemble.take(full);
    process.wait_for("disk is full: this member has stopped");
    process.signal("TERM");
    let ended = process.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
}

/// The leader's snapshot does not fit: the old files stay, and the synchronisation is retried.
#[test]
fn p63_snapshot_that_does_not_fit_is_installed_when_there_is_space() {
    let home = tempfile::tempdir().unwrap();
    let Some((disks, mut ensemble)) = start(home.path(), &["zookeeper.forceSnapshotSync=true"]) else { return };
    let full = (ensemble.leader() + 1) % 3;
    let mut client = ensemble.client();
    write(&mut client, 0);
    ensemble.kill(full);
    (1..12).for_each(|number| write(&mut client, number));
    let filler = disks[full].fill_up_but(2);
    let files = ensemble.directory(full).join("data/version-2");
    let before = std::fs::read_dir(&files).unwrap().count();
    ensemble.launch(full);
    let process = ensemble.process_mut(full);
    process.wait_for("disk is full: this member has stopped");
    let after = std::fs::read_dir(&files).unwrap().count();
    assert!(after <= before + 1, "nothing is left of the attempt");
    std::fs::remove_file(filler).unwrap();
    process.wait_for("restarting after a full disk");
    wait_until_serving(&ensemble, full);
    check_all(&ensemble, 12);
}
