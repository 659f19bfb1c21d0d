//! Counters of the replica for the metrics. The driver reads and resets them.

use crate::limits::SAMPLES_MAX;
use crate::namespace_traffic::NamespaceTraffic;
use crate::slow_writes::SlowWrites;
use ox_proto::SessionId;
use ox_tree::QuotaExceeded;
use std::net::IpAddr;

/// Values since the last reset.
#[derive(Debug, Default)]
pub struct ReplicaCounters {
    /// Handshakes that named a session.
    pub resumed: u64,
    /// Handshakes that waited for a leader and got a reply.
    pub parked: u64,
    /// Expired sessions, with their timeouts.
    pub expired: Vec<(SessionId, i32)>,
    /// New sessions that were refused because of the limit per address.
    pub refused_sessions: u64,
    /// Address of the last refused session.
    pub refused_address: Option<IpAddr>,
    /// Time from a transaction's timestamp until it was applied.
    pub propagation_ms: Runs,
    /// Reads that waited for an earlier write.
    pub reads: NamespaceTraffic,
    pub writes: NamespaceTraffic,
    pub refused_by_quota: NamespaceTraffic,
    /// The last write that exceeded a quota, hard or soft.
    pub over_quota: Option<QuotaExceeded>,
    pub over_quota_count: u64,
    pub slow_writes: SlowWrites,
}

impl ReplicaCounters {
    pub(crate) fn expired(&mut self, session: SessionId, timeout_ms: i32) {
        if self.expired.len() < SAMPLES_MAX {
            self.expired.push((session, timeout_ms));
        }
    }

    pub(crate) fn refused_session(&mut self, address: IpAddr) {
        self.refused_sessions += 1;
        self.refused_address = Some(address);
    }

    pub(crate) fn over_quota(&mut self, over: QuotaExceeded) {
        if over.is_hard {
            self.refused_by_quota.note_event(&over.path);
        }
        self.over_quota = Some(over);
        self.over_quota_count += 1;
    }
}

/// Samples in milliseconds, run-length encoded.
#[derive(Debug, Default)]
pub struct Runs(Vec<(i64, u64)>);

impl Runs {
    /// Adds `count` equal samples.
    pub fn note(&mut self, ms: i64, count: u64) {
        let is_full = SAMPLES_MAX <= self.0.len();
        match self.0.last_mut() {
            Some((last, times)) if *last == ms => *times += count,
            _ if count == 0 || is_full => (),
            _ => self.0.push((ms, count)),
        }
    }

    /// Removes and returns all samples, as pairs of value and count.
    pub fn drain(&mut self) -> impl Iterator<Item = (i64, u64)> {
        self.0.drain(..)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
