//! The page `docs/metrics.md`, generated from the table.

use super::{Kind, TABLE, UNUSED};
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-server` rewrites it.
pub fn metrics_page() -> String {
    let mut page = HEAD.to_owned();
    for (kind, title) in SECTIONS {
        write!(page, "\n## {title}\n\n| name | |\n|---|---|\n").expect("a string takes every write");
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

/// The lines of `mntr` that only members have.
const MEMBERS: &str = "
## Members of an ensemble

Shown only by members, after `server_state`.

| name | on | |
|---|---|---|
| `peer_state` | all | `leading`, `following` or `observing`, and ` - broadcast` |
| `observer_master_id` | observers | The id of the server that it is linked to. |
| `quorum_size` | all | Number of voters. |
| `learners`, `followers` | leader | Connected learners, including observers; the second name is that of old dashboards. |
| `synced_followers`, `synced_non_voting_followers`, `synced_observers` | leader | Learners that are synchronised. |
| `pending_syncs` | leader | `sync` requests of clients that wait for a proof of leadership. |
| `leader_uptime` | leader | Time since it became leader, ms. |
| `last_proposal_size`, `min_proposal_size`, `max_proposal_size` | leader | Bytes of proposals, -1 before the first. |
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

<!-- Generated from crates/ox-server/src/metrics.rs; UPDATE_DOCS=1 cargo test -p ox-server writes it. -->

The four-letter command `mntr` prints them, each with the prefix `zk_`. Names and meanings are ZooKeeper's.

| kind | printed as |
|---|---|
| gauge, counter | `zk_<name>` |
| gauge, counter by top-level node | `zk_<node>_<name>` |
| summary | `zk_avg_<name>`, `zk_min_`, `zk_max_`, `zk_cnt_`, `zk_sum_` |
| summary with percentiles | the same and `zk_p50_`, `zk_p95_`, `zk_p99_`, `zk_p999_` |
| summary by top-level node | `zk_avg_<node>_<name>`, and so on |
| summary by server | `zk_avg_<id>_<name>`, and so on; shown once the server has connected |

`srst` sets counters and summaries back to 0, together with the gauges of packets, latencies and response sizes.
Percentiles cover everything since then; above 64 they are accurate to 3 %. A top-level node's name with characters
other than letters, digits, `_`, `-` and `.` is printed as it is, except that control characters become `?`.
";

const UNUSED_HEAD: &str = "
## Always 0 here

| name | kind | why |
|---|---|---|
";
