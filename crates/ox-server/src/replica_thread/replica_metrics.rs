//! The replica's counters as metrics and log lines.

use crate::limits::{EXPIRY_LINES_BURST, LOG_LINES_BURST};
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use ox_driver::replica_loop::ReplicaLoop;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(super) struct ReplicaMetrics {
    shared: Arc<Shared>,
    /// Digest mismatches that the metrics include.
    mismatches_reported: u64,
    quota_warnings: LogLimit,
    /// Limits the lines about expired sessions.
    expiry_log: LogLimit,
    /// Limits the lines about refused sessions.
    refusal_log: LogLimit,
}

impl ReplicaMetrics {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            mismatches_reported: 0,
            quota_warnings: LogLimit::new(LOG_LINES_BURST),
            expiry_log: LogLimit::new(EXPIRY_LINES_BURST),
            refusal_log: LogLimit::new(LOG_LINES_BURST),
        }
    }

    /// Adds the replica's counters to the metrics.
    pub(super) fn update(&mut self, replica_loop: &mut ReplicaLoop) {
        let metrics = &self.shared.metrics;
        let status = replica_loop.replica().status();
        let mismatches = status.digest_mismatches();
        if self.mismatches_reported == 0 && 0 < mismatches {
            tracing::error!(
                "digest mismatch: this server's tree differs from its leader's; compare the output of the four-letter command hash of all members"
            );
        }
        metrics.digest_mismatches_count.add(mismatches - self.mismatches_reported);
        self.mismatches_reported = mismatches;
        let local = i64::try_from(status.local_session_count()).unwrap_or(i64::MAX);
        self.shared.stats.local_sessions.store(local, Relaxed);
        let counters = replica_loop.counters_mut();
        metrics.connection_revalidate_count.add(std::mem::take(&mut counters.resumed));
        metrics.parked_handshakes.add(std::mem::take(&mut counters.parked));
        metrics.stale_sessions_expired.add(counters.expired.len() as u64);
        for (session, timeout_ms) in counters.expired.drain(..) {
            if let Some(suppressed) = self.expiry_log.allow(self.shared.clock.mono_ms()) {
                tracing::info!(suppressed, "Expiring session {session}, timeout of {timeout_ms}ms exceeded");
            }
        }
        if let Some(address) = counters.refused_address.take() {
            let count = std::mem::take(&mut counters.refused_sessions);
            metrics.sessions_rejected.add(count);
            metrics.connection_rejected.add(count);
            self.refusal_log.suppress(count - 1);
            if let Some(suppressed) = self.refusal_log.allow(self.shared.clock.mono_ms()) {
                let max = self.shared.live().sessions_per_address;
                tracing::warn!(%address, max, suppressed, "session refused: too many sessions from one address");
            }
        }
        for (ms, count) in counters.propagation_ms.drain() {
            metrics.propagation_latency.note(ms, count);
        }
        metrics.read_per_namespace.merge(&mut counters.reads);
        metrics.write_per_namespace.merge(&mut counters.writes);
        metrics.quota_exceeded_error_per_namespace.merge(&mut counters.refused_by_quota);
        if let Some(over) = counters.over_quota.take() {
            self.quota_warnings.suppress(std::mem::take(&mut counters.over_quota_count) - 1);
            if let Some(suppressed) = self.quota_warnings.allow(self.shared.clock.mono_ms()) {
                tracing::warn!(suppressed, "{over}");
            }
        }
    }
}
