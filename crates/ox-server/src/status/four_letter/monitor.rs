//! The command `mntr`: all metrics.

use crate::shared::Shared;
use crate::status::java_text;
use crate::status::metrics::{Gauges, Kind, Number, Reading, UNUSED};
use crate::status::os_info;
use crate::status::server_mode::{LearnerCounts, ServerMode};
use ox_tree::{MetricSummary, QuotaStatus};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn mntr(shared: &Shared, mode: ServerMode) -> String {
    let mut text = format!("zk_version\t{}\nzk_server_state\t{}\n", shared.build.version(), mode.name());
    put_role(shared, mode, &mut text);
    let mut show = |name: &'static str, key: Option<&str>, reading| put(&mut text, &full_name(name, key), reading);
    gauges(shared).show(&mut show);
    shared.metrics.show(&mut show);
    for metric in UNUSED {
        let reading = match metric.kind {
            Kind::Gauge | Kind::GaugeSet | Kind::Counter | Kind::CounterSet => Reading::Number(Number::Int(0)),
            Kind::Summary | Kind::SummarySet | Kind::ServerSummary => Reading::Summary(MetricSummary::default()),
            Kind::Percentiles | Kind::ServerPercentiles => Reading::Percentiles(MetricSummary::default(), [0; 4]),
        };
        show(metric.name, None, reading);
    }
    text
}

/// Appends the lines that depend on the role.
fn put_role(shared: &Shared, mode: ServerMode, text: &mut String) {
    let Some(ensemble) = shared.ensemble.read().clone() else { return };
    let state = match mode {
        ServerMode::Standalone | ServerMode::ReadOnly => return,
        ServerMode::Leader(_) => "leading",
        ServerMode::Follower(_) => "following",
        ServerMode::Observer(_) => "observing",
    };
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "zk_{name}\t{value}").expect("a string takes every write");
    };
    line("peer_state", &format_args!("{state} - broadcast"));
    if let ServerMode::Observer(leader) = mode {
        line("observer_master_id", &leader);
    }
    line("quorum_size", &ensemble.voters().count());
    if let ServerMode::Follower(Some(observers)) = mode {
        line("synced_observers", &observers);
    }
    let ServerMode::Leader(counts) = mode else { return };
    let LearnerCounts { learners, synced_followers, synced_non_voting, synced_observers, pending_syncs } = counts;
    let (last_size, min_size, max_size) = shared.stats.proposals.last_min_max();
    let values = [
        ("learners", learners),
        ("followers", learners), // the name in releases before 3.6
        ("synced_followers", synced_followers),
        ("synced_non_voting_followers", synced_non_voting),
        ("synced_observers", synced_observers),
        ("pending_syncs", pending_syncs),
        ("leader_uptime", shared.clock.mono_ms() - shared.stats.leads_since_ms.load(Relaxed)),
        ("last_proposal_size", last_size),
        ("max_proposal_size", max_size),
        ("min_proposal_size", min_size),
    ];
    for (name, value) in values {
        line(name, &value);
    }
}

/// The metrics of a set have their key as prefix. Clients choose the key, so it must not start a new line.
fn full_name(name: &str, key: Option<&str>) -> String {
    match key {
        None => name.to_owned(),
        Some(key) => format!("{}_{name}", key.replace(char::is_control, "?")),
    }
}

fn put(text: &mut String, name: &str, reading: Reading) {
    let mut line = |prefix: &str, value: String| {
        writeln!(text, "zk_{prefix}{name}\t{value}").expect("a string takes every write");
    };
    let totals = match reading {
        Reading::Number(Number::Int(value)) => return line("", value.to_string()),
        Reading::Number(Number::Double(value)) => return line("", java_text::double(value)),
        Reading::Summary(totals) | Reading::Percentiles(totals, _) => totals,
    };
    line("avg_", java_text::double(java_text::average(totals.sum, totals.count)));
    line("min_", totals.min.to_string());
    line("max_", totals.max.to_string());
    line("cnt_", totals.count.to_string());
    line("sum_", totals.sum.to_string());
    if let Reading::Percentiles(_, values) = reading {
        for (prefix, value) in ["p50_", "p95_", "p99_", "p999_"].into_iter().zip(values) {
            line(prefix, value.to_string());
        }
    }
}

fn gauges(shared: &Shared) -> Gauges {
    let stats = &shared.stats;
    let latency = stats.latency.totals();
    let (last_size, min_size, max_size) = stats.responses.last_min_max();
    let mut gauges = Gauges {
        avg_latency: java_text::average(latency.sum, latency.count),
        max_latency: latency.max,
        min_latency: latency.min,
        packets_received: stats.received.get().cast_signed(),
        packets_sent: stats.sent.get().cast_signed(),
        num_alive_connections: count(shared.connections.len()),
        outstanding_requests: stats.outstanding.load(Relaxed),
        connection_drop_probability: shared.drop_probability(),
        client_memory_bytes: count(shared.global_limits.used()),
        client_memory_limit_bytes: count(shared.global_limits.budget().bytes()),
        uptime: shared.clock.mono_ms(),
        open_file_descriptor_count: os_info::open_files().map_or(-1, |open| i64::try_from(open).unwrap_or(i64::MAX)),
        max_file_descriptor_count: i64::try_from(os_info::open_files_max()).unwrap_or(i64::MAX),
        last_client_response_size: last_size,
        max_client_response_size: max_size,
        min_client_response_size: min_size,
        outstanding_tls_handshake: shared.tls.as_ref().map_or(0, |tls| count(tls.handshakes_in_progress())),
        auth_failed_count: stats.auth_failed.get().cast_signed(),
        non_mtls_remote_conn_count: stats.plain_remote.get().cast_signed(),
        non_mtls_local_conn_count: stats.plain_local.get().cast_signed(),
        weak_settings: stats.weak_settings.get().cast_signed(),
        ..Gauges::default()
    };
    let wall_ms = shared.clock.now().wall_ms;
    let client = shared.tls.as_ref().map(|tls| ("client".to_owned(), tls.days_left(wall_ms)));
    let quorum = shared.peer_security.get().and_then(|security| security.tls.as_ref());
    let quorum = quorum.map(|tls| ("quorum".to_owned(), tls.days_left(wall_ms)));
    gauges.certificate_days_left = client.into_iter().chain(quorum).collect();
    let quotas: Vec<QuotaStatus> = {
        let state = shared.state.read();
        gauges.znode_count = count(state.node_count());
        {
            let watches = state.watches().lock();
            gauges.watch_count = count(watches.total());
            gauges.watches_rejected = watches.refused().0.cast_signed();
        }
        gauges.ephemerals_count = count(state.ephemeral_count());
        gauges.approximate_data_size = state.data_bytes().cast_signed();
        gauges.global_sessions = count(state.session_count());
        gauges.local_sessions = stats.local_sessions.load(Relaxed);
        state.quotas().collect()
    };
    gauges.quota_count_limit_per_namespace = by_namespace(&quotas, |quota| quota.count_limit);
    gauges.quota_bytes_limit_per_namespace = by_namespace(&quotas, |quota| quota.bytes_limit);
    gauges.quota_count_usage_per_namespace = by_namespace(&quotas, |quota| quota.count);
    gauges.quota_bytes_usage_per_namespace = by_namespace(&quotas, |quota| quota.bytes);
    gauges
}

/// Sums of quota values by top-level node.
fn by_namespace(quotas: &[QuotaStatus], value: impl Fn(&QuotaStatus) -> i64) -> Vec<(String, i64)> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for quota in quotas {
        if let Some(name) = quota.path.split('/').nth(1) {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(value(quota));
        }
    }
    sums.into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_with_control_characters_adds_no_line() {
        assert_eq!(full_name("read_per_namespace", Some("a\nzk_x\t1")), "a?zk_x?1_read_per_namespace");
    }

    #[test]
    fn quotas_add_up_by_top_level_node() {
        let quota = |path: &str, count| {
            let path = path.to_owned();
            QuotaStatus { path, count_limit: -1, bytes_limit: -1, count, bytes: 0 }
        };
        let quotas = [quota("/a", 1), quota("/a/b", 2), quota("/c", 4)];
        assert_eq!(by_namespace(&quotas, |quota| quota.count), [("a".to_owned(), 3), ("c".to_owned(), 4)]);
    }
}
