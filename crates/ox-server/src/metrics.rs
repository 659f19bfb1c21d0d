//! The metrics: one table with names, kinds and what they mean, and the struct that holds the figures.
//!
//! Names and meanings are ZooKeeper's, because dashboards and alerts depend on them. `mntr` prints the table in its
//! order, `docs/metrics.md` is written from it. Threads count in plain fields and add here once per batch; nothing
//! here allocates or waits, except that traffic by the first name of the path sits behind a mutex of its own, and so do the
//! figures by server, which are looked up once per connection or seldom.
//!
//! A metric is a line in the table below and a call where the thing happens.

mod docs;
mod figures;
mod idle;

pub use docs::metrics_page;
pub(crate) use figures::{ByServer, Counter, Namespaces, Number, Percentiles, Summary};
pub(crate) use idle::IDLE;
use ox_tree::MetricSummary;

/// What a metric is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A figure of this moment.
    Gauge,
    /// A gauge for each of several things.
    GaugeSet,
    /// Counts up.
    Counter,
    /// A counter for each of several things.
    CounterSet,
    /// Mean, smallest, largest, number and sum.
    Summary,
    /// The same and percentiles.
    Percentiles,
    /// A summary for each of several things.
    SummarySet,
    /// A summary for each of several servers.
    ServerSummary,
    /// The same with percentiles.
    ServerPercentiles,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// The value of a metric now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    Number(Number),
    Summary(MetricSummary),
    /// With the values below which 50, 95, 99 and 99.9 % lie.
    Percentiles(MetricSummary, [i64; 4]),
}

/// Takes a metric's name, which of a set it is, and its value.
pub(crate) type Show<'a> = dyn FnMut(&'static str, Option<&str>, Reading) + 'a;

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
        /// Figures that are read off the server when somebody asks.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Gauges {
            $(#[doc = $gauge_help] pub(crate) $gauge: $gauge_type,)*
            $(#[doc = $gauge_set_help] pub(crate) $gauge_set: Vec<(String, i64)>,)*
        }

        /// Figures that gather.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(#[doc = $counter_help] pub(crate) $counter: Counter,)*
            $(#[doc = $counter_set_help] pub(crate) $counter_set: Namespaces,)*
            $(#[doc = $summary_help] pub(crate) $summary: Summary,)*
            $(#[doc = $percentiles_help] pub(crate) $percentiles: Percentiles,)*
            $(#[doc = $set_help] pub(crate) $set: Namespaces,)*
            $(#[doc = $server_help] pub(crate) $server: ByServer<Summary>,)*
            $(#[doc = $timed_help] pub(crate) $timed: ByServer<Percentiles>,)*
        }

        /// Everything that is measured.
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
            /// Shows all, single ones first.
            pub(crate) fn show(&self, show: &mut Show<'_>) {
                $(show(stringify!($gauge), None, Reading::Number(self.$gauge.into()));)*
                $(for (key, value) in &self.$gauge_set {
                    show(stringify!($gauge_set), Some(key), Reading::Number((*value).into()));
                })*
            }
        }

        impl Metrics {
            /// Shows all, kind by kind.
            pub(crate) fn show(&self, show: &mut Show<'_>) {
                $(show(stringify!($counter), None, Reading::Number(self.$counter.number()));)*
                $(self.$counter_set.show(&mut |key, tally| {
                    show(stringify!($counter_set), Some(key), Reading::Number(tally.count.cast_signed().into()));
                });)*
                $(show(stringify!($summary), None, Reading::Summary(self.$summary.tally()));)*
                $(show(stringify!($percentiles), None, self.$percentiles.reading());)*
                $(self.$set.show(&mut |key, tally| show(stringify!($set), Some(key), Reading::Summary(tally)));)*
                $(self.$server.each(|key, summary| {
                    show(stringify!($server), Some(key), Reading::Summary(summary.tally()));
                });)*
                $(self.$timed.each(|key, timed| show(stringify!($timed), Some(key), timed.reading()));)*
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
        /// Mean time from a request to its answer since the start or `srst`, ms.
        avg_latency: f64;
        /// Longest time from a request to its answer, ms.
        max_latency: i64;
        /// Shortest time from a request to its answer, ms.
        min_latency: i64;
        /// Packets from clients since the start or `srst`; a four-letter word is one.
        packets_received: i64;
        /// Packets to clients since the start or `srst`.
        packets_sent: i64;
        /// Open connections, the one that asks included.
        num_alive_connections: i64;
        /// Requests handed to the replica and not answered yet.
        outstanding_requests: i64;
        /// Bytes of requests being received or in flight, and of replies and events not sent; not in Apache.
        client_memory_bytes: i64;
        /// What `oxkeeper.memoryBudget` allows of them; not in Apache.
        client_memory_limit_bytes: i64;
        /// Time since the server started, ms.
        uptime: i64;
        /// Nodes, with the built-in ones.
        znode_count: i64;
        /// Watches, for data and for children.
        watch_count: i64;
        /// Watches refused by `oxkeeper.maxWatchesPerAddress` since the start; not in Apache.
        watches_rejected: i64;
        /// Ephemeral nodes.
        ephemerals_count: i64;
        /// Bytes of all paths and data.
        approximate_data_size: i64;
        /// Sessions.
        global_sessions: i64;
        /// Sessions that only this server knows: always 0 on a single server.
        local_sessions: i64;
        /// Open files and sockets, -1 where that is unknown.
        open_file_descriptor_count: i64;
        /// Files and sockets that may be open, -1 where that is unknown.
        max_file_descriptor_count: i64;
        /// Share of new connections that the throttle turns away at random.
        connection_drop_probability: f64;
        /// Bytes of the last reply or event without its length, -1 before the first.
        last_client_response_size: i64;
        /// Bytes of the largest reply or event, -1 before the first.
        max_client_response_size: i64;
        /// Bytes of the smallest reply or event, -1 before the first.
        min_client_response_size: i64;
        /// TLS handshakes under way: always 0 until there is TLS.
        outstanding_tls_handshake: i64;
        /// Certificates refused: always 0 until there is TLS.
        auth_failed_count: i64;
        /// Connections without a certificate from other hosts: always 0 until there is TLS.
        non_mtls_remote_conn_count: i64;
        /// Connections without a certificate from this host: always 0 until there is TLS.
        non_mtls_local_conn_count: i64;
    }
    gauge_sets {
        /// Nodes that the quotas below a top-level node allow.
        quota_count_limit_per_namespace;
        /// Bytes that the quotas below a top-level node allow.
        quota_bytes_limit_per_namespace;
        /// Nodes that count for the quotas below a top-level node.
        quota_count_usage_per_namespace;
        /// Bytes that count for the quotas below a top-level node.
        quota_bytes_usage_per_namespace;
    }
    counters {
        /// Handshakes received.
        connection_request_count;
        /// Connections refused by `maxClientCnxns`, `maxCnxns`, `oxkeeper.maxSessionsPerAddress` or the throttle.
        connection_rejected;
        /// New sessions refused by `oxkeeper.maxSessionsPerAddress`; not in Apache.
        sessions_rejected;
        /// Connections that ended without the end of their session.
        connection_drop_count;
        /// Handshakes that named a session.
        connection_revalidate_count;
        /// Connections closed because they were silent for too long.
        sessionless_connections_expired;
        /// Sessions that timed out.
        stale_sessions_expired;
        /// New connections that waited for a leader and were then served, by `oxkeeper.parkLimitMs`; not in Apache.
        parked_handshakes;
        /// Bytes of packets from clients.
        bytes_received_count;
        /// Bytes of replies without their lengths; pings and authentication do not count.
        response_bytes;
        /// Bytes of watch events without their lengths.
        watch_bytes;
        /// Times that a thread stood still for longer than `oxkeeper.watchdog.warnAfter`; not in Apache.
        thread_stalls;
        /// Threads lost that the server cannot do without; it stops then.
        unrecoverable_error_count;
        /// Requests handed to the replica: writes, handshakes, and reads behind a write of their own.
        prep_processor_request_queued;
        /// Transactions handed to the log.
        sync_processor_request_queued;
        /// Transactions that entered the list of pending changes.
        outstanding_changes_queued;
        /// Transactions that left it because they were applied.
        outstanding_changes_removed;
        /// Transactions proposed; on a single server too, where Apache shows 0.
        proposal_count;
        /// Transactions committed; on a single server too, where Apache shows 0.
        commit_count;
        /// Transactions whose digest did not fit the tree: anything but 0 means damage.
        digest_mismatches_count;
        /// Large requests refused because others were under way.
        large_requests_rejected;
        /// Times that a request had to wait because too many were under way.
        request_throttle_wait_count;
        /// Requests answered with an error because they had waited too long.
        throttled_ops;
        /// Requests that had waited longer than their session's timeout.
        stale_requests;
        /// Those that were dropped for it, with their connections.
        stale_requests_dropped;
        /// Snapshots that failed.
        snapshot_error_count;
        /// Times that this member had no leader and began to look for one.
        looking_count;
        /// Times a new leader gave up because a voter that had elected it was looking again.
        quit_leading_due_to_disloyal_voter;
        /// Sessions that learners asked this leader, or observers this follower, for.
        revalidate_count;
        /// Learners that this leader gave the end of the history, or told to cut theirs.
        diff_count;
        /// Learners that this leader gave its whole state.
        snap_count;
        /// Proposals that came from the leader.
        learner_proposal_received_count;
        /// Commits that came from the leader; for an observer, transactions.
        learner_commit_received_count;
    }
    counter_sets {
        /// Writes below a top-level node that a hard quota refused.
        quota_exceeded_error_per_namespace;
    }
    summaries {
        /// Learners that get a snapshot at a time, counted whenever another one begins.
        inflight_snap_count;
        /// Learners that get a diff at a time, counted whenever another one begins.
        inflight_diff_count;
        /// One sync of the transaction log, ms.
        fsynctime;
        /// One snapshot, ms.
        snapshottime;
        /// From looking for a leader to having elected one, ms.
        election_time;
        /// From the election of a leader to following it, ms.
        follower_sync_time;
        /// From the election of a leader to observing it, ms.
        observer_sync_time;
        /// From looking for a leader to serving clients again, ms.
        unavailable_time;
        /// The same on the server that became leader, ms.
        leader_unavailable_time;
        /// Reading the data at start, ms.
        dbinittime;
        /// Reading the snapshot at start, ms.
        startup_snap_load_time;
        /// Replaying the logs at start, ms.
        startup_txns_load_time;
        /// Transactions replayed at start.
        startup_txns_loaded;
        /// Tokens missing in the throttle's bucket at a handshake.
        connection_token_deficit;
        /// Watchers told of one created node.
        node_created_watch_count;
        /// Watchers told of one deleted node.
        node_deleted_watch_count;
        /// Watchers told of one change of data.
        node_changed_watch_count;
        /// Watchers told of one change of a list of children.
        node_children_watch_count;
        /// Requests the replica found waiting behind the first.
        prep_processor_queue_size;
        /// Preparing what was found at once, ms.
        prep_process_time;
        /// Batches the log thread found waiting behind the first.
        sync_processor_queue_size;
        /// Transactions that became durable with one sync.
        sync_processor_batch_size;
        /// Writing and syncing what was found at once, ms.
        sync_process_time;
        /// Applying a run of committed transactions while readers wait, ms.
        write_batch_time_in_commit_processor;
    }
    percentiles {
        /// From a read to its answer, ms.
        readlatency;
        /// From a write to its answer, ms.
        updatelatency;
        /// From a transaction's timestamp to its application, ms.
        propagation_latency;
        /// From a proposal's timestamp to the agreement of a quorum, ms, on the leader.
        quorum_ack_latency;
        /// From a proposal's timestamp to its arrival, ms, on a follower.
        proposal_latency;
        /// From a proposal's timestamp to its acknowledgement, ms, on a follower.
        proposal_ack_creation_latency;
        /// From a transaction's timestamp to the word that it is agreed on, ms, on a learner.
        commit_propagation_latency;
        /// A batch of requests waiting for the replica, ms.
        prep_processor_queue_time_ms;
        /// A transaction waiting for the log thread, ms.
        sync_processor_queue_time_ms;
        /// A transaction being written and synced, ms.
        sync_processor_queue_flush_time_ms;
        /// Both together, ms.
        sync_processor_queue_and_flush_time_ms;
    }
    summary_sets {
        /// Bytes of one read (path, data or names, 68 for the stat) below a top-level node; multiRead does not count.
        read_per_namespace;
        /// Bytes of one write (path and data) below a top-level node.
        write_per_namespace;
    }
    server_summaries {
        /// Packets that wait for a learner when one is taken to be sent.
        learner_handler_qp_size;
    }
    server_percentiles {
        /// How long a packet has waited for a learner, ms; one in a thousand is looked at.
        learner_handler_qp_time_ms;
        /// From a proposal's timestamp to a voter's acknowledgement, ms, on the leader; of one proposal in a thousand.
        ack_latency;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::ServerId;
    use std::collections::BTreeSet;

    /// Without what depends on the data: the namespaces.
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

    /// What Apache does not have.
    const OWN: [&str; 6] = [
        "parked_handshakes",
        "sessions_rejected",
        "thread_stalls",
        "client_memory_bytes",
        "client_memory_limit_bytes",
        "watches_rejected",
    ];

    #[test]
    fn the_table_is_apaches() {
        let golden = include_str!("../testdata/4lw/mntr.txt");
        let ours: Vec<String> = TABLE.iter().chain(IDLE).flat_map(|metric| expand(*metric)).collect();
        let names: BTreeSet<&str> = ours.iter().map(String::as_str).chain(["version", "server_state"]).collect();
        assert_eq!(names.len(), ours.len() + 2, "a name stands twice");
        let theirs = &names_in(golden) | &BTreeSet::from(OWN);
        let (missing, extra): (Vec<_>, Vec<_>) =
            (theirs.difference(&names).collect(), names.difference(&theirs).collect());
        assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
    }

    #[test]
    fn reset_forgets_all_but_the_names() {
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
