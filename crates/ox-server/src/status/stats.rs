//! Statistics of the whole server that `srvr`, `stat` and the gauges of `mntr` show.

use crate::status::metrics::{Counter, Summary};
use crate::status::op_latency::OpLatencies;
use ox_tree::MetricSummary;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Threads add once per batch and not per request.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Packets received from clients.
    pub(crate) received: Counter,
    /// Packets sent to clients.
    pub(crate) sent: Counter,
    /// From request to reply, ms.
    pub(crate) latency: Summary,
    pub(crate) responses: Sizes,
    /// Sizes of proposals that this leader has sent.
    pub(crate) proposals: Sizes,
    /// Requests that take at least so many milliseconds are logged; 0 means none. Kept here for the I/O threads, which read
    /// it in each iteration.
    pub(crate) slow_request_ms: AtomicI64,
    /// When this server became leader, by the monotonic clock.
    pub(crate) leads_since_ms: AtomicI64,
    /// The server that a learner is linked to.
    pub(crate) observed: AtomicI64,
    /// Sessions that only this server knows.
    pub(crate) local_sessions: AtomicI64,
    /// Requests submitted to the replica that have no reply yet.
    pub(crate) outstanding: AtomicI64,
    /// From request to reply, by operation.
    pub(crate) op_latencies: OpLatencies,
    /// Sessions created by clients of this server.
    pub(crate) sessions_opened: Counter,
    /// Fsyncs that took longer than `fsync.warningthresholdms`.
    pub(crate) slow_fsyncs: Counter,
    /// TLS handshakes that failed, and certificates refused after them.
    pub(crate) auth_failed: Counter,
    /// Connections without TLS from other hosts, on a server with TLS.
    pub(crate) plain_remote: Counter,
    /// Connections without TLS from this host, on a server with TLS.
    pub(crate) plain_local: Counter,
    /// Settings, files and permissions that weaken protection.
    pub(crate) weak_settings: Counter,
}

/// Sizes in bytes: of replies and events without their length prefix, or of proposals.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    last: AtomicI64,
    all: Summary,
}

impl Sizes {
    pub(crate) fn note_one(&self, size: i64) {
        self.last.store(size, Relaxed);
        self.all.note(size, 1);
    }

    pub(crate) fn note(&self, last: i64, all: &MetricSummary) {
        if all.count != 0 {
            self.last.store(last, Relaxed);
            self.all.merge(all);
        }
    }

    pub(crate) fn reset(&self) {
        self.all.reset();
    }

    /// The last, smallest and largest size, -1 before the first.
    pub(crate) fn last_min_max(&self) -> (i64, i64, i64) {
        let all = self.all.totals();
        if all.count == 0 { (-1, -1, -1) } else { (self.last.load(Relaxed), all.min, all.max) }
    }
}

impl Stats {
    /// Resets what `srst` resets, except for the sizes of proposals.
    pub(crate) fn reset(&self) {
        self.received.reset();
        self.sent.reset();
        self.latency.reset();
        self.slow_fsyncs.reset();
        self.responses.reset();
    }
}
