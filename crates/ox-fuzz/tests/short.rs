//! A short run of every target.

use ox_fuzz::{TARGETS, Until, run};

fn short(name: &str, inputs: u64) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    run(target, 1, Until::Inputs(inputs));
}

#[test]
fn connection_target_survives_mutations() {
    short("connection", 5_000);
}

#[test]
fn requests_target_survives_mutations() {
    short("requests", 10_000);
}

#[test]
fn records_target_survives_mutations() {
    short("records", 50_000);
}

#[test]
fn log_target_survives_mutations() {
    short("log", 1_000);
}

#[test]
fn snapshot_target_survives_mutations() {
    short("snapshot", 1_000);
}

#[test]
fn snapshot_gz_target_survives_mutations() {
    short("snapshot-gz", 500);
}

#[test]
fn snapshot_snappy_target_survives_mutations() {
    short("snapshot-snappy", 500);
}

#[test]
fn config_target_survives_mutations() {
    short("config", 5_000);
}

#[test]
fn quorum_packets_target_survives_mutations() {
    short("quorum-packets", 20_000);
}

#[test]
fn quorum_hello_target_survives_mutations() {
    short("quorum-hello", 50_000);
}

#[test]
fn quorum_notifications_target_survives_mutations() {
    short("quorum-notifications", 50_000);
}

#[test]
fn ensemble_target_survives_mutations() {
    short("ensemble", 20_000);
}

#[test]
fn jaas_target_survives_mutations() {
    short("jaas", 10_000);
}

#[test]
fn auth_to_local_target_survives_mutations() {
    short("auth-to-local", 10_000);
}

#[test]
fn sasl_token_target_survives_mutations() {
    short("sasl-token", 2_000);
}

#[test]
fn keytab_target_survives_mutations() {
    short("keytab", 20_000);
}

#[test]
fn http_targets_survive_mutations() {
    short("http", 2_000);
    short("http-query", 500);
    short("http-body", 300);
}
