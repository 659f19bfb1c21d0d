//! The command `mntr`: all metrics.

use crate::shared::Shared;
use crate::status::java_text;
use crate::status::metrics::{Gauges, Kind, Number, Reading, UNUSED};
use crate::status::os_info;
use crate::status::server_mode::{LearnerCounts, ServerMode};
use ox_tree::{MetricSummary, QuotaStatus};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering::Relaxed;

/// A value of `mntr`.
#[derive(Clone, Debug, PartialEq)]
pub enum MonitorValue {
    Int(i64),
    Double(f64),
    Text(String),
}

pub(super) fn mntr(shared: &Shared, mode: ServerMode) -> String {
    let mut text = String::new();
    for (name, value) in monitor_values(shared, mode) {
        writeln!(text, "zk_{name}\t{value}").expect("a string takes every write");
    }
    text
}

/// Resets the statistics and the metrics of `srst`, except for the sizes of proposals.
pub(crate) fn reset_stats(shared: &Shared) {
    shared.stats.reset();
    // Prometheus takes a counter that goes back for a restart, so Apache's provider does not reset them.
    if shared.config.prometheus.is_none() {
        shared.metrics.reset();
    }
}

/// All metrics with their names, without the prefix `zk_`.
pub(crate) fn monitor_values(shared: &Shared, mode: ServerMode) -> Vec<(String, MonitorValue)> {
    let mut values = vec![
        ("version".to_owned(), MonitorValue::Text(shared.build.version())),
        ("server_state".to_owned(), MonitorValue::Text(mode.name().to_owned())),
    ];
    if let Some(state) = peer_state(mode) {
        values.push(("peer_state".to_owned(), MonitorValue::Text(state)));
    }
    if let ServerMode::Observer(leader) = mode {
        values.push(("observer_master_id".to_owned(), MonitorValue::Int(leader.0)));
    }
    values
        .extend(role_gauges(shared, mode).into_iter().map(|(name, value)| (name.to_owned(), MonitorValue::Int(value))));
    let mut show = |name: &'static str, key: Option<&str>, reading| put(&mut values, &full_name(name, key), reading);
    gauges(shared).show(&mut show);
    shared.metrics.show(&mut show);
    for metric in UNUSED {
        show(metric.name, None, unused_reading(metric.kind));
    }
    values
}

/// What a metric shows that measures nothing.
pub(crate) fn unused_reading(kind: Kind) -> Reading {
    match kind {
        Kind::Gauge | Kind::GaugeSet | Kind::Counter | Kind::CounterSet => Reading::Number(Number::Int(0)),
        Kind::Summary | Kind::SummarySet | Kind::ServerSummary => Reading::Summary(MetricSummary::default()),
        Kind::Percentiles | Kind::ServerPercentiles => Reading::Percentiles(MetricSummary::default(), [0; 4]),
    }
}

/// `leading - broadcast`, and so on; `None` outside of a quorum.
fn peer_state(mode: ServerMode) -> Option<String> {
    let state = match mode {
        ServerMode::Standalone | ServerMode::ReadOnly => return None,
        ServerMode::Leader(_) => "leading",
        ServerMode::Follower(_) => "following",
        ServerMode::Observer(_) => "observing",
    };
    Some(format!("{state} - broadcast"))
}

/// The gauges that only some roles have.
pub(crate) fn role_gauges(shared: &Shared, mode: ServerMode) -> Vec<(&'static str, i64)> {
    let Some(ensemble) = shared.ensemble.read().clone() else { return Vec::new() };
    let counts = match mode {
        ServerMode::Standalone | ServerMode::ReadOnly => return Vec::new(),
        ServerMode::Follower(Some(observers)) => {
            return vec![("quorum_size", count(ensemble.voters().count())), ("synced_observers", observers)];
        }
        ServerMode::Follower(None) | ServerMode::Observer(_) => {
            return vec![("quorum_size", count(ensemble.voters().count()))];
        }
        ServerMode::Leader(counts) => counts,
    };
    let LearnerCounts { learners, synced_followers, synced_non_voting, synced_observers, pending_syncs } = counts;
    let (last_size, min_size, max_size) = shared.stats.proposals.last_min_max();
    vec![
        ("quorum_size", count(ensemble.voters().count())),
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
    ]
}

/// The metrics of a set have their key as prefix. Clients choose the key, so it must not start a new line.
fn full_name(name: &str, key: Option<&str>) -> String {
    match key {
        None => name.to_owned(),
        Some(key) => format!("{}_{name}", key.replace(char::is_control, "?")),
    }
}

fn put(values: &mut Vec<(String, MonitorValue)>, name: &str, reading: Reading) {
    let mut add = |prefix: &str, value: MonitorValue| values.push((format!("{prefix}{name}"), value));
    let totals = match reading {
        Reading::Number(Number::Int(value)) => return add("", MonitorValue::Int(value)),
        Reading::Number(Number::Double(value)) => return add("", MonitorValue::Double(value)),
        Reading::Summary(totals) | Reading::Percentiles(totals, _) => totals,
    };
    add("avg_", MonitorValue::Double(java_text::average(totals.sum, totals.count)));
    add("min_", MonitorValue::Int(totals.min));
    add("max_", MonitorValue::Int(totals.max));
    add("cnt_", MonitorValue::Int(totals.count.cast_signed()));
    add("sum_", MonitorValue::Int(totals.sum));
    if let Reading::Percentiles(_, percentiles) = reading {
        for (prefix, value) in ["p50_", "p95_", "p99_", "p999_"].into_iter().zip(percentiles) {
            add(prefix, MonitorValue::Int(value));
        }
    }
}

impl fmt::Display for MonitorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&java_text::double(*value)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

pub(crate) fn gauges(shared: &Shared) -> Gauges {
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
        log_lines_dropped: shared.log_lines_dropped.get().map_or(0, |dropped| dropped.load(Relaxed).cast_signed()),
        weak_settings: stats.weak_settings.get().cast_signed(),
        ..Gauges::default()
    };
    let wall_ms = shared.clock.now().wall_ms;
    let client = shared.tls.as_ref().map(|tls| ("client".to_owned(), tls.days_left(wall_ms)));
    let quorum = shared.peer_security.get().and_then(|security| security.tls.as_ref());
    let quorum = quorum.map(|tls| ("quorum".to_owned(), tls.days_left(wall_ms)));
    let http = shared.http_certificates.lock().clone().into_iter().map(|(port, days)| (port.to_owned(), days));
    gauges.certificate_days_left = client.into_iter().chain(quorum).chain(http).collect();
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
