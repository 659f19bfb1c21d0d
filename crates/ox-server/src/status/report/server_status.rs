//! The server as a whole: mode, statistics, settings, environment.

use super::ServerHandle;
use crate::status::four_letter::{self, MonitorValue};
use crate::status::java_text;
use crate::status::server_mode::{self, ServerMode};
use crate::status::stats::Sizes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The mode of a server that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingMode(pub(super) ServerMode);

impl ServingMode {
    /// `standalone`, `leader`, `follower`, `observer` or `read-only`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    pub fn is_read_only(self) -> bool {
        self.0 == ServerMode::ReadOnly
    }

    pub fn is_leader(self) -> bool {
        matches!(self.0, ServerMode::Leader(_))
    }

    /// Whether the server is part of an ensemble that has a leader.
    pub fn is_in_quorum(self) -> bool {
        !matches!(self.0, ServerMode::Standalone | ServerMode::ReadOnly)
    }
}

/// The last, smallest and largest of several sizes in bytes, -1 before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    pub last: i64,
    pub min: i64,
    pub max: i64,
}

impl BufferSizes {
    fn of(sizes: &Sizes) -> Self {
        let (last, min, max) = sizes.last_min_max();
        Self { last, min, max }
    }
}

/// What the command `srvr` shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStats {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub slow_fsyncs: u64,
    pub responses: BufferSizes,
    pub proposals: BufferSizes,
    pub uptime_ms: i64,
    pub outstanding_requests: i64,
    pub min_latency_ms: i64,
    pub avg_latency_ms: f64,
    pub max_latency_ms: i64,
    pub data_dir_bytes: u64,
    pub log_dir_bytes: u64,
    pub last_zxid: i64,
    pub connections: usize,
    pub auth_failed: u64,
    pub plain_remote: u64,
    pub plain_local: u64,
    pub nodes: usize,
}

/// What `conf` shows of every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsReport {
    /// -1 if the port is not open.
    pub client_port: i32,
    pub data_dir: String,
    pub data_log_dir: String,
    pub tick_ms: u32,
    pub max_client_cnxns: u32,
    pub min_session_timeout_ms: i32,
    pub max_session_timeout_ms: i32,
    pub server_id: i64,
    pub listen_backlog: i32,
}

impl ServerHandle {
    /// The mode, `None` while the server serves no clients. May wait for the replica thread.
    pub fn mode(&self) -> Option<ServingMode> {
        if self.is_stopping() {
            return None;
        }
        ServerMode::query(self.shared()).map(ServingMode)
    }

    /// What prevents the election of a leader, as far as this member knows. `None` if it does not look for one. May wait
    /// for the replica thread.
    pub fn election_obstacles(&self) -> Option<String> {
        server_mode::election_obstacles(self.shared())
    }

    pub fn version(&self) -> String {
        self.shared().build.version()
    }

    pub fn last_zxid(&self) -> i64 {
        self.shared().state.read().last_zxid().0
    }

    /// Statistics since the start or `srst`. Reads the directories.
    pub fn stats(&self) -> ServerStats {
        let (shared, stats) = (self.shared(), &self.shared().stats);
        let latency = stats.latency.totals();
        let (data_dir_bytes, log_dir_bytes) = self.directory_sizes();
        let (last_zxid, nodes) = {
            let state = shared.state.read();
            (state.last_zxid().0, state.node_count())
        };
        ServerStats {
            packets_sent: stats.sent.get(),
            packets_received: stats.received.get(),
            slow_fsyncs: stats.slow_fsyncs.get(),
            responses: BufferSizes::of(&stats.responses),
            proposals: BufferSizes::of(&stats.proposals),
            uptime_ms: shared.clock.mono_ms(),
            outstanding_requests: stats.outstanding.load(Relaxed),
            min_latency_ms: latency.min,
            avg_latency_ms: java_text::average(latency.sum, latency.count),
            max_latency_ms: latency.max,
            data_dir_bytes,
            log_dir_bytes,
            last_zxid,
            connections: shared.connections.len(),
            auth_failed: stats.auth_failed.get(),
            plain_remote: stats.plain_remote.get(),
            plain_local: stats.plain_local.get(),
            nodes,
        }
    }

    /// Resets the statistics that `srst` resets, except for the sizes of proposals.
    pub fn reset_stats(&self) {
        four_letter::reset_stats(self.shared());
    }

    /// Bytes of the directories of snapshots and of logs.
    pub fn directory_sizes(&self) -> (u64, u64) {
        let dirs = self.shared().store.dirs();
        (four_letter::directory_size(&dirs.snapshots), four_letter::directory_size(&dirs.logs))
    }

    pub fn settings(&self) -> SettingsReport {
        let (shared, config) = (self.shared(), &self.shared().config);
        let dirs = shared.store.dirs();
        SettingsReport {
            client_port: shared.address.lock().map_or(-1, |address| i32::from(address.port())),
            data_dir: four_letter::absolute(&dirs.snapshots),
            data_log_dir: four_letter::absolute(&dirs.logs),
            tick_ms: config.tick_ms,
            max_client_cnxns: shared.live().max_client_cnxns,
            min_session_timeout_ms: config.min_session_timeout_ms,
            max_session_timeout_ms: config.max_session_timeout_ms,
            server_id: config.member.as_ref().map_or(0, |member| member.server.0),
            listen_backlog: config.listen_backlog,
        }
    }

    pub fn trace_mask(&self) -> i64 {
        self.shared().trace_mask.load(Relaxed).cast_signed()
    }

    pub fn set_trace_mask(&self, mask: i64) {
        self.shared().trace_mask.store(mask.cast_unsigned(), Relaxed);
    }

    /// Digests of the tree at recent zxids.
    pub fn digests(&self) -> Vec<(i64, i64)> {
        self.shared().state.read().digest_log().map(|(zxid, digest)| (zxid.0, digest)).collect()
    }

    /// What `mntr` prints, in its order and without the prefix `zk_`.
    pub fn monitor(&self, mode: ServingMode) -> Vec<(String, MonitorValue)> {
        four_letter::monitor_values(self.shared(), mode.0)
    }

    /// Counts a snapshot or restore that was refused because of its rate.
    pub fn note_rate_limited_snapshot(&self) {
        self.shared().metrics.snapshot_rate_limited_count.add(1);
    }

    pub fn note_rate_limited_restore(&self) {
        self.shared().metrics.restore_rate_limited_count.add(1);
    }

    pub fn note_failed_restore(&self) {
        self.shared().metrics.restore_error_count.add(1);
    }

    /// Notes in how many days the certificate of an HTTP port expires.
    pub fn note_certificate(&self, port: &'static str, days_left: i64) {
        self.shared().http_certificates.lock().insert(port, days_left);
    }

    /// Sets where the program counts the log lines that it drops, for the metrics.
    pub fn set_dropped_log_lines(&self, counter: Arc<AtomicU64>) {
        let _ = self.shared().log_lines_dropped.set(counter); // it is the same one for the whole process
    }

    /// Counts a connection to the AdminServer without TLS, on a port that accepts both.
    pub fn note_insecure_admin_connection(&self) {
        self.shared().metrics.insecure_admin_count.add(1);
    }
}
