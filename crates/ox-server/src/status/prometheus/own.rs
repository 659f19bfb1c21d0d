//! Metrics that Apache does not have, beyond those of the table.

use super::int;
use super::page_writer::{Label, PageWriter};
use super::paths;
use crate::shared::Shared;
use crate::status::metrics::Percentiles;
use crate::status::op_latency::{BOUNDS, OpCounts};
use crate::status::server_mode::ServerMode;
use ox_proto::OpCode;

/// Transactions of an epoch: its zxids have 32 bits for the counter.
const EPOCH_ZXIDS: f64 = 4_294_967_295.0;

pub(super) fn put(shared: &Shared, mode: Option<ServerMode>, page: &mut PageWriter<'_>) {
    let zxid = shared.state.read().last_zxid();
    put_serving(mode.map(ServerMode::name), page);
    let help = "The last transaction that is applied; its epoch is in the upper 32 bits.";
    page.described_family("oxkeeper_last_zxid", "gauge", help);
    page.sample("", &[], int(zxid.0));
    let help = "Share of the zxids of the present epoch that are used; the leader changes before it reaches 1.";
    page.described_family("oxkeeper_epoch_zxids_used_ratio", "gauge", help);
    page.sample("", &[], int(zxid.0 & 0xffff_ffff) / EPOCH_ZXIDS);
    let metrics = &shared.metrics;
    put_gauges_and_counters(shared, page);
    if shared.config.metrics_paths {
        paths::put(shared, page);
    }
    let help = "Time from a request to its reply, by operation.";
    page.described_family("oxkeeper_request_duration_seconds", "histogram", help);
    for (op, counts) in shared.stats.op_latencies.executed() {
        put_histogram(page, Some(("op", op)), &counts);
    }
    for (name, help, measured) in [
        ("fsync", "Duration of an fsync of the transaction log.", &metrics.fsynctime),
        (
            "commit",
            "Time from a proposal to its acknowledgement by a quorum, on a leader.",
            &metrics.quorum_ack_latency,
        ),
        ("apply", "Duration of applying consecutive transactions.", &metrics.write_batch_time_in_commit_processor),
        ("replica_queue", "Waiting time in the queue of the replica thread.", &metrics.prep_processor_queue_time_ms),
        ("log_queue", "Waiting time in the queue of the log thread.", &metrics.sync_processor_queue_time_ms),
    ] {
        page.described_family(&format!("oxkeeper_{name}_seconds"), "histogram", help);
        put_histogram(page, None, &counts_of(measured));
    }
}

/// Whether clients are served, and in which role.
pub(super) fn put_serving(role: Option<&str>, page: &mut PageWriter<'_>) {
    page.described_family("oxkeeper_serving", "gauge", "1 while the server serves clients.");
    page.sample("", &[], if role.is_some() { 1.0 } else { 0.0 });
    page.described_family("oxkeeper_role", "gauge", "1 for the role in which the server serves clients.");
    if let Some(role) = role {
        page.sample("", &[("role", role)], 1.0);
    }
}

/// Churn of connections and sessions, and disk space.
fn put_gauges_and_counters(shared: &Shared, page: &mut PageWriter<'_>) {
    let (opened, closed) = shared.connections.opened_and_closed();
    let counters = [
        ("oxkeeper_connections_opened_total", "Client connections that were opened.", opened),
        ("oxkeeper_connections_closed_total", "Client connections that were closed.", closed),
        (
            "oxkeeper_sessions_opened_total",
            "Sessions that clients of this server created.",
            shared.stats.sessions_opened.get(),
        ),
    ];
    for (name, help, value) in counters {
        page.described_family(name, "counter", help);
        page.sample("", &[], int(value.cast_signed()));
    }
    let closed = shared.stats.op_latencies.executed().find(|(op, _)| *op == OpCode::CloseSession.name());
    let expired = shared.metrics.stale_sessions_expired.get();
    let help = "Sessions that clients of this server closed, and those that this server, as leader, expired.";
    page.described_family("oxkeeper_sessions_closed_total", "counter", help);
    for (cause, count) in [("client", closed.map_or(0, |(_, counts)| counts.all)), ("expired", expired)] {
        page.sample("", &[("cause", cause)], int(count.cast_signed()));
    }
    let trend = shared.disk_trend.lock();
    if let Some(free) = trend.free_bytes() {
        let help = "Free bytes of dataDir or dataLogDir, of that which is closer to its limit.";
        page.described_family("oxkeeper_disk_free_bytes", "gauge", help);
        page.sample("", &[], int(free.cast_signed()));
        let help = "Seconds until the disk is full, if free space decreases as in the last hour.";
        page.described_family("oxkeeper_disk_full_seconds", "gauge", help);
        page.sample("", &[], trend.seconds_left());
    }
}

/// The distribution of a metric in the buckets of the page.
fn counts_of(measured: &Percentiles) -> OpCounts {
    let distribution = measured.distribution();
    OpCounts {
        below: BOUNDS.map(|(_, limit_ms)| distribution.below(limit_ms)),
        all: distribution.below(i64::MAX),
        sum_ms: u64::try_from(measured.totals().sum).unwrap_or(0),
    }
}

fn put_histogram(page: &mut PageWriter<'_>, label: Option<Label<'_>>, counts: &OpCounts) {
    let labels: Vec<Label<'_>> = label.into_iter().collect();
    let bounds = BOUNDS.iter().map(|(bound, _)| *bound).zip(counts.below);
    for (bound, count) in bounds.chain([("+Inf", counts.all)]) {
        let mut labels = labels.clone();
        labels.push(("le", bound));
        page.sample("_bucket", &labels, int(count.cast_signed()));
    }
    page.sample("_count", &labels, int(counts.all.cast_signed()));
    page.sample("_sum", &labels, int(counts.sum_ms.cast_signed()) / MS_PER_SECOND);
}

const MS_PER_SECOND: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use ox_config::MetricsCompatibility;

    #[test]
    fn histogram_counts_values_below_each_bound() {
        let measured = Percentiles::default();
        for ms in [0, 1, 1, 7, 40_000] {
            measured.note(ms, 1);
        }
        let mut page = PageWriter::new(MetricsCompatibility::V3_10, &[]);
        page.described_family("x", "histogram", "x");
        put_histogram(&mut page, Some(("kind", "read")), &counts_of(&measured));
        let text = page.finish();
        let expected = [
            "x_bucket{kind=\"read\",le=\"0.001\"} 1.0",
            "x_bucket{kind=\"read\",le=\"0.002\"} 3.0",
            "x_bucket{kind=\"read\",le=\"0.005\"} 3.0",
            "x_bucket{kind=\"read\",le=\"0.01\"} 4.0",
            "x_bucket{kind=\"read\",le=\"30.0\"} 4.0",
            "x_bucket{kind=\"read\",le=\"+Inf\"} 5.0",
            "x_count{kind=\"read\"} 5.0",
            "x_sum{kind=\"read\"} 40.009",
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
