//! Metrics that Apache does not have, beyond those of the table.

use super::int;
use super::page_writer::{Label, PageWriter};
use crate::shared::Shared;
use crate::status::metrics::Percentiles;

/// Transactions of an epoch: its zxids have 32 bits for the counter.
const EPOCH_ZXIDS: f64 = 4_294_967_295.0;

pub(super) fn put(shared: &Shared, page: &mut PageWriter<'_>) {
    let zxid = shared.state.read().last_zxid();
    let help = "Share of the zxids of the present epoch that are used; the leader changes before it reaches 1.";
    page.described_family("oxkeeper_epoch_zxids_used_ratio", "gauge", help);
    page.sample("", &[], int(zxid.0 & 0xffff_ffff) / EPOCH_ZXIDS);
    let metrics = &shared.metrics;
    let help = "Time from a request to its reply, by kind of operation.";
    page.described_family("oxkeeper_request_duration_seconds", "histogram", help);
    put_histogram(page, Some(("kind", "read")), &metrics.readlatency);
    put_histogram(page, Some(("kind", "write")), &metrics.updatelatency);
    for (name, help, measured) in [
        ("fsync", "Duration of an fsync of the transaction log.", &metrics.fsynctime),
        ("commit", "Time from a proposal to its acknowledgement by a quorum, on a leader.", &metrics.quorum_ack_latency),
        ("apply", "Duration of applying consecutive transactions.", &metrics.write_batch_time_in_commit_processor),
        ("replica_queue", "Waiting time in the queue of the replica thread.", &metrics.prep_processor_queue_time_ms),
        ("log_queue", "Waiting time in the queue of the log thread.", &metrics.sync_processor_queue_time_ms),
    ] {
        page.described_family(&format!("oxkeeper_{name}_seconds"), "histogram", help);
        put_histogram(page, None, measured);
    }
}

/// Upper bounds of the buckets, as text and in milliseconds. Values are whole milliseconds, rounded down.
const BOUNDS: [(&str, i64); 14] = [
    ("0.001", 1),
    ("0.002", 2),
    ("0.005", 5),
    ("0.01", 10),
    ("0.025", 25),
    ("0.05", 50),
    ("0.1", 100),
    ("0.25", 250),
    ("0.5", 500),
    ("1.0", 1_000),
    ("2.5", 2_500),
    ("5.0", 5_000),
    ("10.0", 10_000),
    ("30.0", 30_000),
];

fn put_histogram(page: &mut PageWriter<'_>, label: Option<Label<'_>>, measured: &Percentiles) {
    let (distribution, totals) = (measured.distribution(), measured.totals());
    let labels: Vec<Label<'_>> = label.into_iter().collect();
    let mut bucket = |bound, count: u64| {
        let mut labels = labels.clone();
        labels.push(("le", bound));
        page.sample("_bucket", &labels, int(count.cast_signed()));
    };
    for (bound, limit_ms) in BOUNDS {
        bucket(bound, distribution.below(limit_ms));
    }
    let all = distribution.below(i64::MAX);
    bucket("+Inf", all);
    page.sample("_count", &labels, int(all.cast_signed()));
    page.sample("_sum", &labels, int(totals.sum) / MS_PER_SECOND);
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
        put_histogram(&mut page, Some(("kind", "read")), &measured);
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
