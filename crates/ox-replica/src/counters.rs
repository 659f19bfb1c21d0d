//! What the replica counts for the metrics; whoever runs it empties them from time to time.

use crate::limits::TALLIED_MAX;
use crate::namespace_traffic::Traffic;
use ox_proto::SessionId;
use ox_tree::QuotaExceeded;
use std::net::IpAddr;

/// Counts since they were last emptied.
#[derive(Debug, Default)]
pub struct Tallies {
    /// Handshakes that named a session.
    pub resumed: u64,
    /// Handshakes that waited for a leader and got a reply.
    pub parked: u64,
    /// Sessions given up, with their timeouts.
    pub expired: Vec<(SessionId, i32)>,
    /// New sessions that were refused: their clients' addresses have enough.
    pub refused_sessions: u64,
    /// The last of those addresses.
    pub refused_address: Option<IpAddr>,
    /// From a transaction's timestamp to its application.
    pub propagation_ms: Runs,
    /// Reads that had to wait for a write before them.
    pub reads: Traffic,
    /// Writes applied.
    pub writes: Traffic,
    /// Writes refused by a quota.
    pub refused_by_quota: Traffic,
    /// The last write that passed a limit of a quota, hard or soft.
    pub over_quota: Option<QuotaExceeded>,
    /// How many did.
    pub over_quota_count: u64,
}

impl Tallies {
    pub(crate) fn expired(&mut self, session: SessionId, timeout_ms: i32) {
        if self.expired.len() < TALLIED_MAX {
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

/// Times in milliseconds, of which neighbours are usually equal.
#[derive(Debug, Default)]
pub struct Runs(Vec<(i64, u64)>);

impl Runs {
    /// Adds `count` times the same.
    pub fn note(&mut self, ms: i64, count: u64) {
        let is_full = TALLIED_MAX <= self.0.len();
        match self.0.last_mut() {
            Some((last, times)) if *last == ms => *times += count,
            _ if count == 0 || is_full => (),
            _ => self.0.push((ms, count)),
        }
    }

    /// Takes everything, as pairs of time and count.
    pub fn drain(&mut self) -> impl Iterator<Item = (i64, u64)> {
        self.0.drain(..)
    }

    /// True when nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
