//! The metrics: one table with names, kinds and meanings, and the structs that hold the values.
//!
//! Names and meanings are ZooKeeper's, because dashboards and alerts depend on them. `mntr` prints the table in its
//! order, `docs/reference/metrics.md` is written from it. Threads count in plain fields and add here once per batch.
//! Nothing here allocates or waits, with two exceptions that have a mutex each: traffic by namespace (the first path
//! element), and metrics by server, which a thread looks up once per connection or less often.
//!
//! A metric is a line in the table below, and a call where the event happens.

mod docs;
mod summary;
mod unused;

pub use docs::metrics_page;
use ox_tree::MetricSummary;
pub(crate) use summary::{ByServer, Counter, Distribution, Namespaces, Number, Percentiles, Summary};
pub(crate) use unused::UNUSED;

/// The type of a metric, which decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value read when it is printed.
    Gauge,
    /// A gauge for each top-level node, or for each port.
    GaugeSet,
    /// A sum that only grows.
    Counter,
    /// A counter for each top-level node.
    CounterSet,
    /// Mean, minimum, maximum, count and sum.
    Summary,
    /// A summary with percentiles.
    Percentiles,
    /// A summary for each top-level node.
    SummarySet,
    /// A summary for each of several servers.
    ServerSummary,
    /// A summary with percentiles for each of several servers.
    ServerPercentiles,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// The present value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    Number(Number),
    Summary(MetricSummary),
    /// With the values below which 50, 95, 99 and 99.9 % lie.
    Percentiles(MetricSummary, [i64; 4]),
}

/// Receives a metric's name, its key in a set, and its value.
pub(crate) type Show<'a> = dyn FnMut(&'static str, Option<&str>, Reading) + 'a;

/// What Prometheus's page shows of a metric.
pub(crate) enum MetricItem<'a> {
    /// The metric exists, with or without values.
    Family,
    /// A number, with its key in a set.
    Number(Option<&'a str>, Number),
    /// A summary with the distribution of its values, and its key in a set.
    Measured(Option<&'a str>, &'a Percentiles),
    /// A summary without the distribution, and its key in a set.
    Totals(&'a str, MetricSummary),
}

/// Receives a metric's name, its kind, and its values one after the other.
pub(crate) type VisitMetric<'a> = dyn FnMut(&'static str, Kind, MetricItem<'_>) + 'a;

/// Metrics that Apache does not have. Prometheus's page shows them with the prefix `oxkeeper_`.
pub(crate) const OWN: [&str; 13] = [
    "audit_events_dropped",
    "certificate_days_left",
    "client_memory_bytes",
    "client_memory_limit_bytes",
    "delayed_connections",
    "log_lines_dropped",
    "parked_handshakes",
    "quorum_handshakes_rejected",
    "quorum_host_name_mismatches",
    "sessions_rejected",
    "thread_stalls",
    "watches_rejected",
    "weak_settings",
];

macro_rules! metrics {
    (
        gauges { $(#[doc = $gauge_help:literal] $gauge:ident: $gauge_type:ty;)* }
        gauge_sets { $(#[doc = $gauge_set_help:literal] $gauge_set:ident;)* }
        counters { $(#[doc = $counter_help:literal] $counter:ident;)* }
        counter_sets { $(#[doc = $counter_set_help:literal] $counter_set:ident;)* }
        summaries { $(#[doc = $summary_help:literal] $summary:ident;)* }
        percentiles { $(#[doc = $percentiles_help:literal] $percentiles:ident;)* }
        summary_sets { $(#[doc = $set_help:literal] $set:ident;)* }
        server_summaries { $(#[doc = $server_help:literal] $server:ident;)* }
        server_percentiles { $(#[doc = $timed_help:literal] $timed:ident;)* }
    ) => {
        /// Values that are read when they are printed.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Gauges {
            $(#[doc = $gauge_help] pub(crate) $gauge: $gauge_type,)*
            $(#[doc = $gauge_set_help] pub(crate) $gauge_set: Vec<(String, i64)>,)*
        }

        /// Values that threads add to.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(#[doc = $counter_help] pub(crate) $counter: Counter,)*
            $(#[doc = $counter_set_help] pub(crate) $counter_set: Namespaces,)*
            $(#[doc = $summary_help] pub(crate) $summary: Percentiles,)*
            $(#[doc = $percentiles_help] pub(crate) $percentiles: Percentiles,)*
            $(#[doc = $set_help] pub(crate) $set: Namespaces,)*
            $(#[doc = $server_help] pub(crate) $server: ByServer<Percentiles>,)*
            $(#[doc = $timed_help] pub(crate) $timed: ByServer<Percentiles>,)*
        }

        /// All metrics, in the order of `mntr`.
        pub(crate) const TABLE: &[Metric] = &[
            $(Metric { name: stringify!($gauge), kind: Kind::Gauge, help: $gauge_help },)*
            $(Metric { name: stringify!($gauge_set), kind: Kind::GaugeSet, help: $gauge_set_help },)*
            $(Metric { name: stringify!($counter), kind: Kind::Counter, help: $counter_help },)*
            $(Metric { name: stringify!($counter_set), kind: Kind::CounterSet, help: $counter_set_help },)*
            $(Metric { name: stringify!($summary), kind: Kind::Summary, help: $summary_help },)*
            $(Metric { name: stringify!($percentiles), kind: Kind::Percentiles, help: $percentiles_help },)*
            $(Metric { name: stringify!($set), kind: Kind::SummarySet, help: $set_help },)*
            $(Metric { name: stringify!($server), kind: Kind::ServerSummary, help: $server_help },)*
            $(Metric { name: stringify!($timed), kind: Kind::ServerPercentiles, help: $timed_help },)*
        ];

        impl Gauges {
            /// Shows all gauges, single ones first.
            pub(crate) fn show(&self, show: &mut Show<'_>) {
                $(show(stringify!($gauge), None, Reading::Number(self.$gauge.into()));)*
                $(for (key, value) in &self.$gauge_set {
                    show(stringify!($gauge_set), Some(key), Reading::Number((*value).into()));
                })*
            }
        }

        impl Metrics {
            /// Shows all metrics, kind by kind.
            pub(crate) fn show(&self, show: &mut Show<'_>) {
                $(show(stringify!($counter), None, Reading::Number(self.$counter.number()));)*
                $(self.$counter_set.show(&mut |key, totals| {
                    show(stringify!($counter_set), Some(key), Reading::Number(totals.count.cast_signed().into()));
                });)*
                $(show(stringify!($summary), None, Reading::Summary(self.$summary.totals()));)*
                $(show(stringify!($percentiles), None, self.$percentiles.reading());)*
                $(self.$set.show(&mut |key, totals| show(stringify!($set), Some(key), Reading::Summary(totals)));)*
                $(self.$server.each(|key, summary| {
                    show(stringify!($server), Some(key), Reading::Summary(summary.totals()));
                });)*
                $(self.$timed.each(|key, timed| show(stringify!($timed), Some(key), timed.reading()));)*
            }

            /// Visits all metrics for Prometheus's page: first the family, then its values.
            pub(crate) fn visit(&self, visit: &mut VisitMetric<'_>) {
                $(visit(stringify!($counter), Kind::Counter, MetricItem::Family);
                visit(stringify!($counter), Kind::Counter, MetricItem::Number(None, self.$counter.number()));)*
                $(visit(stringify!($counter_set), Kind::CounterSet, MetricItem::Family);
                self.$counter_set.show(&mut |key, totals| {
                    let number = totals.count.cast_signed().into();
                    visit(stringify!($counter_set), Kind::CounterSet, MetricItem::Number(Some(key), number));
                });)*
                $(visit(stringify!($summary), Kind::Summary, MetricItem::Family);
                visit(stringify!($summary), Kind::Summary, MetricItem::Measured(None, &self.$summary));)*
                $(visit(stringify!($percentiles), Kind::Percentiles, MetricItem::Family);
                visit(stringify!($percentiles), Kind::Percentiles, MetricItem::Measured(None, &self.$percentiles));)*
                $(visit(stringify!($set), Kind::SummarySet, MetricItem::Family);
                self.$set.show(&mut |key, totals| {
                    visit(stringify!($set), Kind::SummarySet, MetricItem::Totals(key, totals));
                });)*
                $(visit(stringify!($server), Kind::ServerSummary, MetricItem::Family);
                self.$server.each(|key, measured| {
                    visit(stringify!($server), Kind::ServerSummary, MetricItem::Measured(Some(key), measured));
                });)*
                $(visit(stringify!($timed), Kind::ServerPercentiles, MetricItem::Family);
                self.$timed.each(|key, measured| {
                    visit(stringify!($timed), Kind::ServerPercentiles, MetricItem::Measured(Some(key), measured));
                });)*
            }

            /// Sets everything back to 0, as `srst` does.
            pub(crate) fn reset(&self) {
                $(self.$counter.reset();)*
                $(self.$counter_set.reset();)*
                $(self.$summary.reset();)*
                $(self.$percentiles.reset();)*
                $(self.$set.reset();)*
                $(self.$server.each(|_, summary| summary.reset());)*
                $(self.$timed.each(|_, timed| timed.reset());)*
            }
        }
    };
}

metrics! {
    gauges {
        /// Mean time from request to reply since the start or `srst`, ms.
        avg_latency: f64;
        /// Longest time from request to reply since the start or `srst`, ms.
        max_latency: i64;
        /// Shortest time from request to reply since the start or `srst`, ms.
        min_latency: i64;
        /// Packets received from clients since the start or `srst`; a four-letter command counts as one.
        packets_received: i64;
        /// Packets sent to clients since the start or `srst`.
        packets_sent: i64;
        /// Open client connections, including the one that runs `mntr`.
        num_alive_connections: i64;
        /// Requests without a reply yet: in the queue of the replica thread, or in flight.
        outstanding_requests: i64;
        /// Bytes of requests being received or in flight, and of unsent replies and events; not in Apache.
        client_memory_bytes: i64;
        /// Limit of `client_memory_bytes`, from `oxkeeper.memoryBudget`; not in Apache.
        client_memory_limit_bytes: i64;
        /// Time since the server started, ms.
        uptime: i64;
        /// Nodes of the tree, including the built-in ones.
        znode_count: i64;
        /// Watches on data and on children.
        watch_count: i64;
        /// Watches refused by `oxkeeper.maxWatchesPerAddress` since the start; not in Apache.
        watches_rejected: i64;
        /// Ephemeral nodes of the tree.
        ephemerals_count: i64;
        /// Bytes of all paths and data.
        approximate_data_size: i64;
        /// Sessions of the replicated state.
        global_sessions: i64;
        /// Sessions that only this server knows; always 0 on a standalone server.
        local_sessions: i64;
        /// Open files and sockets, -1 if unknown.
        open_file_descriptor_count: i64;
        /// Limit of open files and sockets, -1 if unknown.
        max_file_descriptor_count: i64;
        /// Share of new connections that the connection throttle refuses at random.
        connection_drop_probability: f64;
        /// Bytes of the last reply or event without its length field, -1 before the first.
        last_client_response_size: i64;
        /// Bytes of the largest reply or event, -1 before the first.
        max_client_response_size: i64;
        /// Bytes of the smallest reply or event, -1 before the first.
        min_client_response_size: i64;
        /// TLS handshakes in progress.
        outstanding_tls_handshake: i64;
        /// TLS handshakes that failed, and certificates refused after them.
        auth_failed_count: i64;
        /// Connections without TLS from other hosts since the start, on a server with TLS.
        non_mtls_remote_conn_count: i64;
        /// Connections without TLS from this host since the start, on a server with TLS.
        non_mtls_local_conn_count: i64;
        /// Log lines that were dropped since the start because an output was slow, full or could not be written; not in Apache.
        log_lines_dropped: i64;
        /// Settings and file permissions that weaken protection, one line each in the log of the start; not in Apache.
        weak_settings: i64;
    }
    gauge_sets {
        /// Full days until the certificate of the port named by the key expires, on a server with TLS; not in Apache.
        certificate_days_left;
        /// Sum of the node limits of all quotas below a top-level node.
        quota_count_limit_per_namespace;
        /// Sum of the byte limits of all quotas below a top-level node.
        quota_bytes_limit_per_namespace;
        /// Nodes counted by the quotas below a top-level node.
        quota_count_usage_per_namespace;
        /// Bytes counted by the quotas below a top-level node.
        quota_bytes_usage_per_namespace;
    }
    counters {
        /// Handshakes received from clients.
        connection_request_count;
        /// Connections refused by `maxClientCnxns`, `maxCnxns`, `oxkeeper.maxSessionsPerAddress` or the connection throttle.
        connection_rejected;
        /// New sessions refused by `oxkeeper.maxSessionsPerAddress`; not in Apache.
        sessions_rejected;
        /// TLS handshakes that failed.
        unsuccessful_handshake;
        /// Connections to the ports for other servers that were refused, on a server with TLS or SASL there; not in Apache.
        quorum_handshakes_rejected;
        /// Servers accepted although their certificate names another host, because `fips-mode` is on; not in Apache.
        quorum_host_name_mismatches;
        /// TLS handshakes closed because too many were in progress (`netty.server.outstandingHandshake.limit`).
        tls_handshake_exceeded;
        /// Connections that had to wait because logins from their address had failed; not in Apache.
        delayed_connections;
        /// Connections that were closed while their session stayed open.
        connection_drop_count;
        /// Handshakes that resume a session.
        connection_revalidate_count;
        /// Connections without a session that were closed because they were idle.
        sessionless_connections_expired;
        /// Sessions closed because they timed out.
        stale_sessions_expired;
        /// New connections that waited for the next leader and were then served (`oxkeeper.parkLimitMs`); not in Apache.
        parked_handshakes;
        /// Audit events that were dropped because the audit log was full, slow or could not be written; not in Apache.
        audit_events_dropped;
        /// Clients that named this ensemble (`ensembleAuthName`).
        ensemble_auth_success;
        /// Clients that named another ensemble, and were disconnected.
        ensemble_auth_fail;
        /// Auth packets of scheme `ensemble` that named no ensemble, or while `ensembleAuthName` is unset.
        ensemble_auth_skip;
        /// Bytes of packets received from clients.
        bytes_received_count;
        /// Bytes of replies without their length fields; replies to pings and authentication do not count.
        response_bytes;
        /// Bytes of watch events without their length fields.
        watch_bytes;
        /// Times that a thread made no progress for longer than `oxkeeper.watchdog.warnAfter`; not in Apache.
        thread_stalls;
        /// Essential threads that ended unexpectedly; the server then stops.
        unrecoverable_error_count;
        /// Requests passed to the replica thread: writes, handshakes, and reads that follow a write of their connection.
        prep_processor_request_queued;
        /// Transactions passed to the log thread.
        sync_processor_request_queued;
        /// Transactions added to the pending changes.
        outstanding_changes_queued;
        /// Transactions removed from the pending changes because they were applied.
        outstanding_changes_removed;
        /// Transactions that this server proposed or received as proposals; Apache counts them on a leader only.
        proposal_count;
        /// Transactions committed and applied; Apache counts them on a leader only.
        commit_count;
        /// Transactions whose digest differs from that of the tree; any value but 0 means damage.
        digest_mismatches_count;
        /// Large requests refused because of `largeRequestMaxBytes`.
        large_requests_rejected;
        /// Times that a request waited because of `request_throttle_max_requests`.
        request_throttle_wait_count;
        /// Requests that failed with -127 because they waited longer than `throttled_op_wait_time`.
        throttled_ops;
        /// Requests that waited longer than their session timeout (`request_stale_latency_check`).
        stale_requests;
        /// Stale requests that were dropped together with their connections.
        stale_requests_dropped;
        /// Snapshots that could not be written.
        snapshot_error_count;
        /// Snapshots refused because the last one by an admin command was too recent.
        snapshot_rate_limited_count;
        /// Restores by an admin command that failed.
        restore_error_count;
        /// Restores refused because the last one was too recent.
        restore_rate_limited_count;
        /// Connections without TLS to an admin port that accepts both (`admin.portUnification`).
        insecure_admin_count;
        /// Times that this member became LOOKING.
        looking_count;
        /// Times that a new leader stepped down because a voter that elected it was LOOKING again.
        quit_leading_due_to_disloyal_voter;
        /// Sessions that learners revalidated at this leader, or observers at this follower.
        revalidate_count;
        /// Learners that this leader synchronised by DIFF or TRUNC.
        diff_count;
        /// Learners that this leader synchronised by SNAP.
        snap_count;
        /// Proposals received from the leader.
        learner_proposal_received_count;
        /// Commits received from the leader; on an observer, INFORM packets.
        learner_commit_received_count;
    }
    counter_sets {
        /// Writes below a top-level node that a hard quota refused.
        quota_exceeded_error_per_namespace;
    }
    summaries {
        /// Concurrent synchronisations by SNAP, sampled when another one begins.
        inflight_snap_count;
        /// Concurrent synchronisations by DIFF, sampled when another one begins.
        inflight_diff_count;
        /// Duration of an fsync of the transaction log, ms.
        fsynctime;
        /// Duration of writing a snapshot, ms.
        snapshottime;
        /// Duration of restoring a snapshot by an admin command, from its first byte until it is durable, ms.
        restore_time;
        /// From LOOKING to the election of a leader, ms.
        election_time;
        /// From the election of a leader to following it, ms.
        follower_sync_time;
        /// From the election of a leader to observing it, ms.
        observer_sync_time;
        /// From LOOKING to serving clients again, ms.
        unavailable_time;
        /// From LOOKING to serving clients again, on the server that became leader, ms.
        leader_unavailable_time;
        /// Duration of loading the data at start, ms.
        dbinittime;
        /// Duration of loading the snapshot at start, ms.
        startup_snap_load_time;
        /// Duration of replaying the logs at start, ms.
        startup_txns_load_time;
        /// Transactions replayed at start.
        startup_txns_loaded;
        /// Tokens missing in the connection throttle's bucket at a handshake.
        connection_token_deficit;
        /// Watches fired by the creation of a node.
        node_created_watch_count;
        /// Watches fired by the deletion of a node.
        node_deleted_watch_count;
        /// Watches fired by a change of a node's data.
        node_changed_watch_count;
        /// Watches fired by a change of a node's children.
        node_children_watch_count;
        /// Requests in the queue of the replica thread behind the first one.
        prep_processor_queue_size;
        /// Duration of preparing one batch of requests, ms.
        prep_process_time;
        /// Batches in the queue of the log thread behind the first one.
        sync_processor_queue_size;
        /// Transactions made durable by one fsync.
        sync_processor_batch_size;
        /// Duration of writing and fsyncing one batch, ms.
        sync_process_time;
        /// Duration of applying consecutive committed transactions, during which reads wait, ms.
        write_batch_time_in_commit_processor;
    }
    percentiles {
        /// From a read request to its reply, ms.
        readlatency;
        /// From a write request to its reply, ms.
        updatelatency;
        /// From a transaction's timestamp to its application, ms.
        propagation_latency;
        /// From a proposal's timestamp to its acknowledgement by a quorum, on the leader, ms.
        quorum_ack_latency;
        /// From a proposal's timestamp to its receipt, on a follower, ms.
        proposal_latency;
        /// From a proposal's timestamp to sending its acknowledgement, on a follower, ms.
        proposal_ack_creation_latency;
        /// From a transaction's timestamp to the receipt of its commit, on a learner, ms.
        commit_propagation_latency;
        /// Waiting time of a batch of requests in the queue of the replica thread, ms.
        prep_processor_queue_time_ms;
        /// Waiting time of a transaction in the queue of the log thread, ms.
        sync_processor_queue_time_ms;
        /// Duration of writing and fsyncing a transaction, ms.
        sync_processor_queue_flush_time_ms;
        /// Waiting, writing and fsyncing of a transaction together, ms.
        sync_processor_queue_and_flush_time_ms;
    }
    summary_sets {
        /// Bytes of a read below a top-level node: path, data or names, and 68 for the Stat; multiRead does not count.
        read_per_namespace;
        /// Bytes of a write below a top-level node: path and data.
        write_per_namespace;
    }
    server_summaries {
        /// Packets in the send queue to a learner, sampled when one is sent.
        learner_handler_qp_size;
    }
    server_percentiles {
        /// Waiting time of a packet in the send queue to a learner, ms; one packet in a thousand is measured.
        learner_handler_qp_time_ms;
        /// From a proposal's timestamp to its acknowledgement by a voter, on the leader, ms; measured for every n-th proposal (`leader.ackLoggingFrequency`).
        ack_latency;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::ServerId;
    use std::collections::BTreeSet;

    /// Without the names that depend on the data: the namespaces.
    fn names_in(mntr: &str) -> BTreeSet<&str> {
        let keys = mntr.lines().filter_map(|line| line.split_once('\t')?.0.strip_prefix("zk_"));
        keys.filter(|key| !key.ends_with("_per_namespace")).collect()
    }

    fn expand(metric: Metric) -> Vec<String> {
        let parts: &[&str] = match metric.kind {
            Kind::Gauge | Kind::Counter => return vec![metric.name.to_owned()],
            Kind::GaugeSet | Kind::CounterSet | Kind::SummarySet => return Vec::new(),
            Kind::ServerSummary | Kind::ServerPercentiles => return Vec::new(),
            Kind::Summary => &["avg", "min", "max", "cnt", "sum"],
            Kind::Percentiles => &["avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999"],
        };
        parts.iter().map(|part| format!("{part}_{}", metric.name)).collect()
    }

    #[test]
    fn table_has_exactly_the_metrics_of_apache() {
        let golden = include_str!("../../testdata/4lw/mntr.txt");
        let ours: Vec<String> = TABLE.iter().chain(UNUSED).flat_map(|metric| expand(*metric)).collect();
        let names: BTreeSet<&str> = ours.iter().map(String::as_str).chain(["version", "server_state"]).collect();
        assert_eq!(names.len(), ours.len() + 2, "duplicate name");
        let own: BTreeSet<&str> = OWN.into_iter().filter(|name| *name != "certificate_days_left").collect(); // a set
        let theirs = &names_in(golden) | &own;
        let (missing, extra): (Vec<_>, Vec<_>) =
            (theirs.difference(&names).collect(), names.difference(&theirs).collect());
        assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
    }

    #[test]
    fn reset_keeps_names_and_sets_values_to_zero() {
        let metrics = Metrics::default();
        metrics.connection_rejected.add(3);
        metrics.fsynctime.note(5, 1);
        metrics.readlatency.note(7, 2);
        let mut traffic = ox_replica::NamespaceTraffic::default();
        traffic.note_write(&ox_proto::txn::Txn::Delete { path: "/app".into() });
        metrics.read_per_namespace.merge(&mut traffic);
        metrics.learner_handler_qp_size.of(ServerId(2)).unwrap().note(3, 1);
        metrics.ack_latency.of(ServerId(2)).unwrap().note(3, 1);
        metrics.reset();
        let mut shown = 0;
        metrics.show(&mut |name, key, reading| {
            shown += 1;
            let of_several = ["read_per_namespace", "learner_handler_qp_size", "ack_latency"];
            assert!(key.is_none() || of_several.contains(&name));
            let zero = [
                Reading::Number(Number::Int(0)),
                Reading::Summary(MetricSummary::default()),
                Reading::Percentiles(MetricSummary::default(), [0; 4]),
            ];
            assert!(zero.contains(&reading), "{name} {reading:?}");
        });
        let is_one = |metric: &&Metric| matches!(metric.kind, Kind::Counter | Kind::Summary | Kind::Percentiles);
        assert_eq!(shown, TABLE.iter().filter(is_one).count() + 3);
    }
}
