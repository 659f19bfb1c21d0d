//! Figures of the whole server that `srvr`, `stat` and `mntr` show.

use crate::register::Latency;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counters. Threads add once per batch, not per request.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) latency: Latency,
    pub(crate) connections_dropped: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) requests_outstanding: AtomicI64,
    pub(crate) commits: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) fsyncs: AtomicU64,
    pub(crate) fsync_ms: Latency,
    pub(crate) slow_fsyncs: AtomicU64,
    pub(crate) digest_mismatches: AtomicU64,
    pub(crate) sessions_expired: AtomicU64,
}

impl Stats {
    /// What `srst` resets.
    pub(crate) fn reset(&self) {
        self.latency.reset();
        self.received.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
    }
}
