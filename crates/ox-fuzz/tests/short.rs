//! A short run of every target.

use ox_fuzz::{TARGETS, Until, run};

fn short(name: &str, inputs: u64) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    run(target, 1, Until::Inputs(inputs));
}

#[test]
fn connection() {
    short("connection", 5_000);
}

#[test]
fn requests() {
    short("requests", 10_000);
}

#[test]
fn records() {
    short("records", 50_000);
}

#[test]
fn log() {
    short("log", 1_000);
}

#[test]
fn snapshot() {
    short("snapshot", 1_000);
}

#[test]
fn snapshot_gz() {
    short("snapshot-gz", 500);
}

#[test]
fn snapshot_snappy() {
    short("snapshot-snappy", 500);
}

#[test]
fn config() {
    short("config", 5_000);
}

#[test]
fn quorum_packets() {
    short("quorum-packets", 20_000);
}

#[test]
fn quorum_hello() {
    short("quorum-hello", 50_000);
}

#[test]
fn quorum_notifications() {
    short("quorum-notifications", 50_000);
}

#[test]
fn ensemble() {
    short("ensemble", 20_000);
}
