//! Prometheus's page: the metrics table in the text format 0.0.4, with the names, types, labels and quantiles of
//! Apache's provider, so that existing dashboards and alerts work.
//!
//! Metrics of our own have the prefix `oxkeeper_`. The page reads counters without a lock, and the state under one read
//! lock. Quantiles cover the last ten minutes: every two minutes the distributions are copied ([`window`]), and the page
//! shows what was added since the oldest copy.

mod own;
mod page_writer;
mod paths;
mod process;
mod window;

pub(crate) use window::{QuantileWindows, ROTATION};

use crate::server::ServerHandle;
use crate::shared::Shared;
use crate::status::four_letter::{gauges, role_gauges};
use crate::status::metrics::{Kind, MetricItem, Metrics, Number, OWN, Reading, UNUSED};
use crate::status::server_mode::ServerMode;
use ox_config::{Config, MetricsCompatibility};
use ox_tree::MetricSummary;
use page_writer::{Label, PageWriter};

/// How the page looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsOptions {
    pub compatibility: MetricsCompatibility,
    /// Whether the page has metrics of the process.
    pub exports_process: bool,
}

impl MetricsOptions {
    pub fn of(config: &Config) -> Self {
        let exports_process = config.prometheus.as_ref().is_none_or(|prometheus| prometheus.exports_process);
        Self { compatibility: config.metrics_compatibility, exports_process }
    }

    /// The quantiles of a summary.
    fn quantiles(self, kind: Kind) -> &'static [(&'static str, f64)] {
        match (kind, self.compatibility) {
            (Kind::Percentiles | Kind::ServerPercentiles, MetricsCompatibility::V3_9) => {
                &[("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)]
            }
            (Kind::Percentiles | Kind::ServerPercentiles, MetricsCompatibility::V3_10) => {
                &[("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99)]
            }
            (
                Kind::Gauge
                | Kind::GaugeSet
                | Kind::Counter
                | Kind::CounterSet
                | Kind::Summary
                | Kind::SummarySet
                | Kind::ServerSummary,
                _,
            ) => &[("0.5", 0.5)],
        }
    }
}

impl ServerHandle {
    /// The page, or only the samples and families of these names. May wait for the replica thread.
    pub fn metrics_text(&self, options: MetricsOptions, names: &[String]) -> String {
        let shared = self.shared();
        let mut page = PageWriter::new(options.compatibility, names);
        let mode = ServerMode::query(shared);
        if let Some(mode) = mode {
            put_gauges(shared, mode, &mut page);
        }
        let windows = shared.quantile_windows.lock().clone();
        put_metrics(&shared.metrics, &windows, options, &mut page);
        own::put(shared, mode, &mut page);
        if options.exports_process {
            process::put(&mut page);
        }
        page.finish()
    }
}

/// The page while there is no server: its data is being read.
pub fn metrics_text_of_no_server(options: MetricsOptions, names: &[String]) -> String {
    let mut page = PageWriter::new(options.compatibility, names);
    put_metrics(&Metrics::default(), &QuantileWindows::default(), options, &mut page);
    own::put_serving(None, &mut page);
    if options.exports_process {
        process::put(&mut page);
    }
    page.finish()
}

fn put_gauges(shared: &Shared, mode: ServerMode, page: &mut PageWriter<'_>) {
    for (name, value) in role_gauges(shared, mode) {
        // An older name of `learners` that only `mntr` has.
        if name != "followers" {
            page.family(name, Kind::Gauge);
            page.sample("", &[], int(value));
        }
    }
    if mode == ServerMode::Follower(None) && page.compatibility() == MetricsCompatibility::V3_9 {
        // Compat: a gauge without a value is 0 (`page_has_the_families_of_apache_in_each_role`).
        page.family("synced_observers", Kind::Gauge);
        page.sample("", &[], 0.0);
    }
    let mut last = "";
    gauges(shared).show(&mut |name, key, reading| {
        let Reading::Number(number) = reading else { return };
        if last != name {
            last = name;
            put_family(page, name, if key.is_some() { Kind::GaugeSet } else { Kind::Gauge });
        }
        page.sample("", &key_label(key), double(number));
    });
    for name in ["quota_count_limit", "quota_bytes_limit", "quota_count_usage", "quota_bytes_usage"] {
        page.empty_family(&format!("{name}_per_namespace"), Kind::GaugeSet);
    }
}

fn put_metrics(metrics: &Metrics, windows: &QuantileWindows, options: MetricsOptions, page: &mut PageWriter<'_>) {
    metrics.visit(&mut |name, kind, item| match item {
        MetricItem::Family => put_family(page, name, kind),
        MetricItem::Number(key, number) => page.sample("", &key_label(key), double(number)),
        MetricItem::Measured(key, measured) => {
            let recent = measured.distribution().since(&windows.oldest(name, key));
            let quantiles = options
                .quantiles(kind)
                .iter()
                .map(|(label, quantile)| (*label, recent.quantile(*quantile).map_or(f64::NAN, int)));
            put_summary(page, key, quantiles, measured.totals());
        }
        MetricItem::Totals(key, totals) => {
            // There is no distribution: clients choose the keys, and a thousand of them would take much memory.
            let quantiles = options.quantiles(kind).iter().map(|(label, _)| (*label, f64::NAN));
            put_summary(page, Some(key), quantiles, totals);
        }
    });
    for metric in UNUSED {
        put_family(page, metric.name, metric.kind);
        match metric.kind {
            Kind::Gauge | Kind::GaugeSet | Kind::Counter | Kind::CounterSet => page.sample("", &[], 0.0),
            Kind::Summary | Kind::SummarySet | Kind::ServerSummary | Kind::Percentiles | Kind::ServerPercentiles => {
                let quantiles = options.quantiles(metric.kind).iter().map(|(label, _)| (*label, f64::NAN));
                put_summary(page, None, quantiles, MetricSummary::default());
            }
        }
    }
}

/// Begins a metric of the table.
fn put_family(page: &mut PageWriter<'_>, name: &'static str, kind: Kind) {
    if OWN.contains(&name) { page.family(&format!("oxkeeper_{name}"), kind) } else { page.family(name, kind) }
}

fn put_summary(
    page: &mut PageWriter<'_>,
    key: Option<&str>,
    quantiles: impl Iterator<Item = (&'static str, f64)>,
    totals: MetricSummary,
) {
    let labels = key_label(key);
    for (quantile, value) in quantiles {
        let mut labels = labels.clone();
        labels.push(("quantile", quantile));
        page.sample("", &labels, value);
    }
    page.sample("_count", &labels, int(totals.count.cast_signed()));
    page.sample("_sum", &labels, int(totals.sum));
}

fn key_label(key: Option<&str>) -> Vec<Label<'_>> {
    key.map(|key| ("key", key)).into_iter().collect()
}

fn double(number: Number) -> f64 {
    match number {
        Number::Int(value) => int(value),
        Number::Double(value) => value,
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
fn int(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;
    use std::collections::BTreeSet;

    const OPTIONS: MetricsOptions = MetricsOptions { compatibility: MetricsCompatibility::V3_9, exports_process: true };

    /// Lines `# TYPE ..` of a page, without those of a Java virtual machine and our own.
    fn types(page: &str) -> BTreeSet<&str> {
        let lines = page.lines().filter(|line| line.starts_with("# TYPE "));
        lines.filter(|line| !line.contains(" jvm_") && !line.contains(" oxkeeper_")).collect()
    }

    #[test]
    fn page_has_the_families_of_apache() {
        let server = Server::ephemeral().unwrap();
        let page = server.handle().metrics_text(OPTIONS, &[]);
        let golden = include_str!("../../testdata/prometheus/standalone.txt");
        let (ours, theirs) = (types(&page), types(golden));
        let (missing, extra): (Vec<_>, Vec<_>) =
            (theirs.difference(&ours).collect(), ours.difference(&theirs).collect());
        assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
    }

    /// Sample names with their labels, without values and without what depends on the data.
    fn samples(page: &str) -> BTreeSet<&str> {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name);
        lines
            .filter(|name| !name.contains("key=") && !name.starts_with("jvm_") && !name.starts_with("oxkeeper_"))
            .collect()
    }

    #[test]
    fn samples_are_those_of_apache() {
        let server = Server::ephemeral().unwrap();
        let page = server.handle().metrics_text(OPTIONS, &[]);
        let golden = include_str!("../../testdata/prometheus/standalone.txt");
        assert_eq!(samples(&page), samples(golden));
    }

    #[test]
    fn counters_of_3_10_end_with_total() {
        let options = MetricsOptions { compatibility: MetricsCompatibility::V3_10, exports_process: false };
        let page = metrics_text_of_no_server(options, &[]);
        assert!(page.contains("# TYPE connection_rejected_total counter\nconnection_rejected_total 0.0\n"), "{page}");
        assert!(page.contains("readlatency{quantile=\"0.95\"} NaN\n") && !page.contains("0.9\""));
    }

    #[test]
    fn page_is_reduced_to_the_requested_names() {
        let names = ["readlatency_count".to_owned(), "commit_count".to_owned()];
        let page = metrics_text_of_no_server(OPTIONS, &names);
        let expected = "# HELP commit_count commit_count\n# TYPE commit_count counter\ncommit_count 0.0\n\
                        # HELP readlatency readlatency\n# TYPE readlatency summary\nreadlatency_count 0.0\n";
        assert_eq!(page, expected);
    }
}
