//! Metrics of Apache that measure nothing here. They are printed as Apache prints them initially, so that every query
//! finds its metric.

use super::{Kind, Metric};

const STAGES: &str = "Oxkeeper has no such stage or queue";
const THROTTLE: &str = "the throttle has no separate queue";
const EARLY_DROP: &str = "TLS connections are not dropped early";
const CACHE: &str = "Oxkeeper does not cache data replies";
const CHILDREN: &str = "Oxkeeper does not measure its cache of child lists";
const WATCHES: &str = "watches of a closed connection are removed immediately";
const JAVA: &str = "there is no Java virtual machine";

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

const fn summary(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Summary, help }
}

const fn percentiles(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Percentiles, help }
}

/// Always 0; the help text is the reason.
pub(crate) const UNUSED: &[Metric] = &[
    counter("skip_learner_request_to_next_processor_count", STAGES),
    counter("requests_not_forwarded_to_commit_processor", STAGES),
    counter("request_commit_queued", STAGES),
    counter("stale_replies", THROTTLE),
    counter("cnxn_closed_without_zk_server_running", EARLY_DROP),
    counter("response_packet_cache_hits", CACHE),
    counter("response_packet_cache_misses", CACHE),
    counter("response_packet_get_children_cache_hits", CHILDREN),
    counter("response_packet_get_children_cache_misses", CHILDREN),
    counter("add_dead_watcher_stall_time", WATCHES),
    counter("dead_watchers_queued", WATCHES),
    counter("dead_watchers_cleared", WATCHES),
    summary("learner_request_processor_queue_size", STAGES),
    summary("socket_closing_time", STAGES),
    summary("proposal_process_time", STAGES),
    summary("commit_process_time", STAGES),
    summary("time_waiting_empty_pool_in_commit_processor_read_ms", STAGES),
    summary("requests_in_session_queue", STAGES),
    summary("pending_session_queue_size", STAGES),
    summary("reads_after_write_in_session_queue", STAGES),
    summary("reads_issued_from_session_queue", STAGES),
    summary("session_queues_drained", STAGES),
    summary("concurrent_request_processing_in_commit_processor", STAGES),
    summary("read_commit_proc_req_queued", STAGES),
    summary("write_commit_proc_req_queued", STAGES),
    summary("commit_commit_proc_req_queued", STAGES),
    summary("read_commit_proc_issued", STAGES),
    summary("write_commit_proc_issued", STAGES),
    summary("netty_queued_buffer_capacity", STAGES),
    percentiles("om_proposal_process_time_ms", STAGES),
    percentiles("om_commit_process_time_ms", STAGES),
    percentiles("close_session_prep_time", STAGES),
    percentiles("read_commitproc_time_ms", STAGES),
    percentiles("write_commitproc_time_ms", STAGES),
    percentiles("local_write_committed_time_ms", STAGES),
    percentiles("server_write_committed_time_ms", STAGES),
    percentiles("read_final_proc_time_ms", STAGES),
    percentiles("write_final_proc_time_ms", STAGES),
    percentiles("request_throttle_queue_time_ms", THROTTLE),
    percentiles("dead_watchers_cleaner_latency", WATCHES),
    percentiles("jvm_pause_time_ms", JAVA),
];
