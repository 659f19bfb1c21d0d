//! The files of `ops`: what rules and dashboard name exists, and every alert is tested and documented.

use crate::harness::Harness;
use ox_testkit::{json_strings, promql_metrics, wait_for};
use std::collections::BTreeSet;

const RULES: &str = include_str!("../../../../ops/prometheus/oxkeeper.rules.yml");
const TESTS: &str = include_str!("../../../../ops/prometheus/tests/oxkeeper.test.yml");
const DASHBOARD: &str = include_str!("../../../../ops/grafana/oxkeeper.json");
const RUNBOOKS: &str = include_str!("../../../../docs/operate/runbooks.md");
const LEADER: &str = include_str!("../../../ox-server/testdata/prometheus/leader.txt");

/// Metrics of other roles than standalone, of TLS, and of Prometheus itself.
const ELSEWHERE: [&str; 2] = ["up", "oxkeeper_certificate_days_left"];

/// What monitoring of ZooKeeper usually names: dashboards and rules that exist for Apache must go on working.
const USUAL: &str = "znode_count watch_count ephemerals_count approximate_data_size num_alive_connections global_sessions \
    outstanding_requests packets_received packets_sent avg_latency min_latency max_latency open_file_descriptor_count \
    max_file_descriptor_count uptime leader_uptime quorum_size learners synced_followers synced_observers pending_syncs \
    election_time_count looking_count fsynctime_sum fsynctime_count snapshottime_sum snapshottime_count readlatency \
    updatelatency readlatency_count readlatency_sum updatelatency_count updatelatency_sum proposal_count commit_count \
    connection_rejected connection_drop_count connection_request_count stale_sessions_expired auth_failed_count \
    bytes_received_count response_bytes unrecoverable_error_count digest_mismatches_count propagation_latency \
    jvm_pause_time_ms jvm_memory_bytes_used jvm_memory_bytes_max jvm_threads_current jvm_threads_deadlocked \
    process_cpu_seconds_total process_resident_memory_bytes process_open_fds process_start_time_seconds";

/// Names of the samples of a page.
fn samples(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// The samples of a server that has served requests, and those that a leader has besides.
fn existing() -> BTreeSet<String> {
    let harness = Harness::new();
    let mut client = harness.client();
    client.create("/app", b"data");
    client.get("/app");
    client.watch(ox_testkit::OpCode::GetData, "/app");
    let page = || harness.get("/metrics").text();
    wait_for(|| page().contains("oxkeeper_path_nodes{path=\"/app\"").then_some(())).expect("the tree is measured");
    let page = page();
    let leader = samples(LEADER).into_iter().filter(|name| {
        ["quorum_size", "synced_", "learners", "leader_uptime", "pending_syncs"]
            .iter()
            .any(|start| name.starts_with(start))
    });
    samples(&page).into_iter().chain(leader).chain(ELSEWHERE.map(str::to_owned)).collect()
}

#[test]
fn metrics_of_rules_and_dashboards_exist() {
    let rules = RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned);
    let queries: Vec<String> = rules.chain(json_strings(DASHBOARD, "expr")).collect();
    assert!(60 < queries.len(), "only {} queries were found", queries.len());
    let (existing, named) = (existing(), promql_metrics(&queries));
    let usual = USUAL.split_whitespace().map(str::to_owned);
    let missing: Vec<String> = named.into_iter().chain(usual).filter(|name| !existing.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_alert_has_a_test_and_a_runbook() {
    let alerts: Vec<&str> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let links = RULES.lines().filter_map(|line| line.trim().strip_prefix("runbook: docs/operate/runbooks.md#"));
    let links: Vec<&str> = links.collect();
    assert_eq!(links, alerts.iter().map(|alert| alert.to_lowercase()).collect::<Vec<_>>());
    for alert in &alerts {
        assert!(RUNBOOKS.contains(&format!("\n### {alert}\n")), "{alert} has no runbook");
        assert!(TESTS.contains(&format!("  - name: {alert}\n")), "{alert} has no test");
    }
    let headings: Vec<&str> = RUNBOOKS.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(headings, alerts, "runbooks are in the order of the rules, and none is left over");
}
