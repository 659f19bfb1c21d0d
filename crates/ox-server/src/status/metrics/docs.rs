//! The page `docs/reference/metrics.md`, written from the table.

use super::{Kind, TABLE, UNUSED};
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-server` rewrites it.
pub fn metrics_page() -> String {
    let mut page = HEAD.to_owned();
    for (kind, title) in SECTIONS {
        write!(page, "\n## {title}\n\n| name | meaning |\n|---|---|\n").expect("a string takes every write");
        for metric in TABLE.iter().filter(|metric| metric.kind == *kind) {
            writeln!(page, "| `{}` | {} |", metric.name, metric.help.trim()).expect("a string takes every write");
        }
    }
    page += MEMBERS;
    page += UNUSED_HEAD;
    for metric in UNUSED {
        let kind = match metric.kind {
            Kind::Gauge | Kind::GaugeSet => "gauge",
            Kind::Counter | Kind::CounterSet => "counter",
            Kind::Summary | Kind::SummarySet | Kind::ServerSummary => "summary",
            Kind::Percentiles | Kind::ServerPercentiles => "percentiles",
        };
        writeln!(page, "| `{}` | {kind} | {} |", metric.name, metric.help).expect("a string takes every write");
    }
    page
}

/// Metrics of members that are not in the table.
const MEMBERS: &str = "
## Members of an ensemble

Only members of an ensemble print these.

| name | on | meaning |
|---|---|---|
| `peer_state` | all | `leading`, `following` or `observing`, followed by ` - broadcast`. |
| `observer_master_id` | observers | Id of the server that the observer is connected to. |
| `quorum_size` | all | Number of voters. |
| `learners`, `followers` | leader | Connected followers and observers; `followers` is the older name of the same value. |
| `synced_followers`, `synced_non_voting_followers`, `synced_observers` | leader | Learners of each kind that are synchronised. |
| `pending_syncs` | leader | `sync` requests of clients that wait until a quorum has confirmed the leadership. |
| `leader_uptime` | leader | Time since the server became leader, ms. |
| `last_proposal_size`, `min_proposal_size`, `max_proposal_size` | leader | Size of proposals in bytes, -1 before the first. |
";

const SECTIONS: &[(Kind, &str)] = &[
    (Kind::Gauge, "Gauges"),
    (Kind::GaugeSet, "Gauges by top-level node"),
    (Kind::Counter, "Counters"),
    (Kind::CounterSet, "Counters by top-level node"),
    (Kind::Summary, "Summaries"),
    (Kind::Percentiles, "Summaries with percentiles"),
    (Kind::SummarySet, "Summaries by top-level node"),
    (Kind::ServerSummary, "Summaries by server"),
    (Kind::ServerPercentiles, "Summaries with percentiles by server"),
];

const HEAD: &str = "\
# Metrics

<!-- Generated from crates/ox-server/src/status/metrics.rs; UPDATE_DOCS=1 cargo test -p ox-server writes it. -->

This page lists the metrics that the four-letter command `mntr` prints, for operators. Names are ZooKeeper's, except
where the table says \"not in Apache\". The [glossary](../../GLOSSARY.md#threads-and-data-flow) explains the replica thread
and the log thread.

| kind | printed as |
|---|---|
| gauge, counter | `zk_<name>` |
| gauge, counter by top-level node | `zk_<node>_<name>` |
| summary | `zk_avg_<name>`, `zk_min_`, `zk_max_`, `zk_cnt_`, `zk_sum_` |
| summary with percentiles | the same and `zk_p50_`, `zk_p95_`, `zk_p99_`, `zk_p999_` |
| summary by top-level node | `zk_avg_<node>_<name>`, and so on |
| summary by server | `zk_avg_<id>_<name>`, and so on; printed once that server has connected |

`srst` resets counters and summaries, and the gauges of packets, latencies and response sizes. Percentiles cover the
time since the start or the last `srst`; those above 64 are exact to 3 %. Control characters in the name of a top-level
node are printed as `?`.
";

const UNUSED_HEAD: &str = "
## Always 0 in Oxkeeper

`mntr` prints these metrics for dashboards that expect them.

| name | kind | why |
|---|---|---|
";
