//! Replies that need a proof of leadership: a quorum has replied to pings that were sent after the request arrived.

use ox_proto::Zxid;
use std::collections::VecDeque;

#[derive(Debug)]
struct Sync {
    id: u64,
    /// Must be committed before the reply.
    after: Zxid,
    /// The ping round whose replies prove leadership.
    round: u64,
}

/// Ping rounds, and the syncs that wait for them.
#[derive(Debug, Default)]
pub(super) struct PendingSyncs {
    round: u64,
    waiting: VecDeque<Sync>,
}

impl PendingSyncs {
    /// Starts a ping round and returns its number.
    pub(super) fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, id: u64, after: Zxid) {
        self.waiting.push_back(Sync { id, after, round: self.round + 1 });
    }

    /// Whether a sync waits for a ping round that has not started.
    pub(super) fn need_round(&self) -> bool {
        self.waiting.back().is_some_and(|sync| self.round < sync.round)
    }

    /// The next sync that can be replied to, in the order of arrival.
    pub(super) fn pop(&mut self, committed: Zxid, is_proven: impl Fn(u64) -> bool) -> Option<u64> {
        let sync = self.waiting.pop_front_if(|sync| sync.after <= committed && is_proven(sync.round))?;
        Some(sync.id)
    }
}
