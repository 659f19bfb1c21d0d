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
